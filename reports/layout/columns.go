package layout

import (
	"math"
	"slices"
)

// columns gives every vertex its middle: the mean of the two middle ones of four alignments, each of which makes edges straight as far as
// it can, going down or up and from the left or from the right. After Brandes and Köpf, "Fast and Simple Horizontal Coordinate
// Assignment".
func (d *drawn) columns() {
	n := len(d.layer)
	d.x = make([]float64, n)
	if n == 0 {
		return
	}
	conflicts := d.conflicts()
	var four [4][]float64
	narrowest, width := 0, math.Inf(1)
	for k := range four {
		four[k] = d.alignment(k&1 != 0, k&2 != 0, conflicts)
		if lo, hi := d.extent(four[k]); hi-lo < width {
			narrowest, width = k, hi-lo
		}
	}
	lo, hi := d.extent(four[narrowest])
	for k, x := range four {
		l, h := d.extent(x)
		shift := lo - l
		if k&2 != 0 {
			shift = hi - h
		}
		for v := range x {
			x[v] += shift
		}
	}
	for v := range d.x {
		at := [4]float64{four[0][v], four[1][v], four[2][v], four[3][v]}
		slices.Sort(at[:])
		d.x[v] = (at[1] + at[2]) / 2
	}
}

func (d *drawn) extent(x []float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for v := range x {
		half := d.width(int32(v)) / 2
		lo, hi = math.Min(lo, x[v]-half), math.Max(hi, x[v]+half)
	}
	return lo, hi
}

// conflicts are the pieces of edges that cross a piece of a long edge, which stays straight instead of them.
func (d *drawn) conflicts() map[[2]int32]bool {
	marked := map[[2]int32]bool{}
	for l := 0; l+1 < len(d.layers); l++ {
		upper, lower := d.layers[l], d.layers[l+1]
		from, next := int32(0), 0
		for i, v := range lower {
			inner := d.inner(v)
			if inner < 0 && i < len(lower)-1 {
				continue
			}
			to := int32(len(upper))
			if inner >= 0 {
				to = d.pos[inner]
			}
			for ; next <= i; next++ {
				w := lower[next]
				for _, u := range d.up.of(w) {
					if (d.pos[u] < from || d.pos[u] > to) && (d.isNode(u) || d.isNode(w)) {
						marked[[2]int32{u, w}] = true
					}
				}
			}
			from = to
		}
	}
	return marked
}

// inner is the vertex above v if both stand for the same long edge, else -1.
func (d *drawn) inner(v int32) int32 {
	if !d.isNode(v) {
		if u := d.up.of(v)[0]; !d.isNode(u) {
			return u
		}
	}
	return -1
}

// alignment is one of the four: chains of vertices that stand exactly below each other, put as close together as they can be.
func (d *drawn) alignment(upwards, fromRight bool, conflicts map[[2]int32]bool) []float64 {
	n := len(d.layer)
	root, next := make([]int32, n), make([]int32, n)
	for v := range root {
		root[v], next[v] = int32(v), int32(v)
	}
	tied := &d.up
	if upwards {
		tied = &d.down
	}
	at := func(list []int32, i int) int32 { // seen from the right, the last is the first
		if fromRight {
			return list[len(list)-1-i]
		}
		return list[i]
	}
	place := func(v int32) int {
		if fromRight {
			return len(d.layers[d.layer[v]]) - 1 - int(d.pos[v])
		}
		return int(d.pos[v])
	}
	for k := range d.layers {
		l := k
		if upwards {
			l = len(d.layers) - 1 - k
		}
		taken := -1
		for i := range d.layers[l] {
			v := at(d.layers[l], i)
			ends := tied.of(v)
			if len(ends) == 0 {
				continue
			}
			for m := (len(ends) - 1) / 2; m <= len(ends)/2; m++ {
				u := at(ends, m)
				pair := [2]int32{u, v}
				if upwards {
					pair = [2]int32{v, u}
				}
				if next[v] == v && taken < place(u) && !conflicts[pair] {
					next[u], root[v] = v, root[u]
					next[v] = root[v]
					taken = place(u)
				}
			}
		}
	}
	// Chains are ordered from left to right; the longest path keeps them apart, and a second pass takes up slack.
	type step struct {
		to   int32
		away float64
	}
	var pairs [][2]int32
	var away []float64
	for _, list := range d.layers {
		for i := 1; i < len(list); i++ {
			a, b := at(list, i-1), at(list, i)
			pairs = append(pairs, [2]int32{root[a], root[b]})
			away = append(away, d.apart(a, b))
		}
	}
	count := make([]int32, n+1)
	for _, p := range pairs {
		count[p[0]+1]++
	}
	for v := range n {
		count[v+1] += count[v]
	}
	steps := make([]step, len(pairs))
	fill, missing := slices.Clone(count), make([]int32, n)
	for i, p := range pairs {
		steps[fill[p[0]]] = step{p[1], away[i]}
		fill[p[0]]++
		missing[p[1]]++
	}
	x := make([]float64, n)
	var order []int32
	for v := range int32(n) {
		if root[v] == v && missing[v] == 0 {
			order = append(order, v)
		}
	}
	for i := 0; i < len(order); i++ {
		v := order[i]
		for _, s := range steps[count[v]:count[v+1]] {
			x[s.to] = math.Max(x[s.to], x[v]+s.away)
			if missing[s.to]--; missing[s.to] == 0 {
				order = append(order, s.to)
			}
		}
	}
	for _, v := range slices.Backward(order) {
		room := math.Inf(1)
		for _, s := range steps[count[v]:count[v+1]] {
			room = math.Min(room, x[s.to]-s.away)
		}
		if !math.IsInf(room, 1) {
			x[v] = math.Max(x[v], room)
		}
	}
	for v := range x {
		x[v] = x[root[v]]
	}
	if fromRight {
		for v := range x {
			x[v] = -x[v]
		}
	}
	return x
}
