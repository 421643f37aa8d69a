package layout

import (
	"cmp"
	"slices"

	"qwb/internal/arrange"
)

// How often all layers are sorted, down and up counted as two, and after how many without fewer crossings that ends.
const (
	mostSweeps = 24
	patience   = 4
)

// sort orders the vertices of every layer.
func (d *drawn) sort() {
	d.pos = make([]int32, len(d.layer))
	d.start()
	best, fewest := d.copyLayers(), d.crossings()
	weight := make([]float64, len(d.layer))
	for i, idle := 0, 0; i < mostSweeps && idle < patience && fewest > 0; i++ {
		d.sweep(i%2 == 0, weight)
		idle++
		if n := d.crossings(); n < fewest {
			best, fewest, idle = d.copyLayers(), n, 0
		}
	}
	for l, list := range best {
		d.setLayer(l, list)
	}
	for v := range int32(len(d.layer)) {
		for _, list := range [][]int32{d.up.of(v), d.down.of(v)} {
			slices.SortFunc(list, func(a, b int32) int { return int(d.pos[a] - d.pos[b]) })
		}
	}
}

// start fills the layers depth first, so that what hangs together stands together.
func (d *drawn) start() {
	seen := make([]bool, len(d.layer))
	roots := make([]int32, d.nodes)
	for v := range roots {
		roots[v] = int32(v)
	}
	arrange.Stable(roots, func(a, b int32) int { return int(d.layer[a] - d.layer[b]) })
	var stack []int32
	for _, root := range roots {
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[v] {
				continue
			}
			seen[v] = true
			l := d.layer[v]
			d.pos[v] = int32(len(d.layers[l]))
			d.layers[l] = append(d.layers[l], v)
			for _, w := range slices.Backward(d.down.of(v)) {
				if !seen[w] {
					stack = append(stack, w)
				}
			}
		}
	}
}

func (d *drawn) copyLayers() [][]int32 {
	list := make([][]int32, len(d.layers))
	for l := range list {
		list[l] = slices.Clone(d.layers[l])
	}
	return list
}

func (d *drawn) setLayer(l int, list []int32) {
	d.layers[l] = list
	for i, v := range list {
		d.pos[v] = int32(i)
	}
}

// sweep sorts each layer by the mean place of what its vertices are tied to in the layer before, going down or up. What is tied to nothing
// keeps its place.
func (d *drawn) sweep(downwards bool, weight []float64) {
	tied := &d.up
	if !downwards {
		tied = &d.down
	}
	for i := range d.layers {
		l := i
		if !downwards {
			l = len(d.layers) - 1 - i
		}
		list := d.layers[l]
		if len(list) < 2 {
			continue
		}
		for _, v := range list {
			ends := tied.of(v)
			weight[v] = float64(d.pos[v])
			if len(ends) == 0 {
				continue
			}
			sum := 0
			for _, w := range ends {
				sum += int(d.pos[w])
			}
			weight[v] = float64(sum) / float64(len(ends))
		}
		arrange.Stable(list, func(a, b int32) int { return cmp.Compare(weight[a], weight[b]) })
		d.setLayer(l, list)
	}
}

// crossings counts how often edges cross between layers.
func (d *drawn) crossings() int {
	total := 0
	var tree []int // of sums over the lower layer
	var ends []int32
	for l := 0; l+1 < len(d.layers); l++ {
		n := len(d.layers[l+1])
		tree = append(tree[:0], make([]int, n+1)...)
		seen := 0
		for _, v := range d.layers[l] {
			ends = ends[:0]
			for _, w := range d.down.of(v) {
				ends = append(ends, d.pos[w])
			}
			for _, p := range ends {
				before := 0 // edges from further left that end at p or left of it
				for i := int(p) + 1; i > 0; i -= i & -i {
					before += tree[i]
				}
				total += seen - before
			}
			for _, p := range ends {
				for i := int(p) + 1; i <= n; i += i & -i {
					tree[i]++
				}
			}
			seen += len(ends)
		}
	}
	return total
}
