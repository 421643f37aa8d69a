// Package layout places the nodes of a directed graph in layers from top to bottom, with few crossings and mostly straight edges: the
// longest path gives the layers, bounded barycentre sweeps the order in them,
// and the median of four alignments (Brandes and Köpf) the columns.
//
// It knows boxes and arrows, nothing of networks. The same input gives the same drawing; a sweep takes time linear in what it sweeps over
// (but for sorting a layer).
//
// Unstable: it may change without notice.
package layout

import (
	"math"
	"slices"

	"qwb/internal/arrange"
)

// Size is how large a node is drawn, in pixels, as are all lengths here.
type Size struct{ W, H int }

// Place is where a node stands: its upper left corner, its size, and its layer, from 0 at the top.
type Place struct{ X, Y, W, H, Layer int }

// Bend is a point that an edge passes on its way through a layer, at the layer's middle.
type Bend struct{ X, Y, Layer int }

// Drawing is a graph with coordinates, from (0, 0) to (W, H).
type Drawing struct {
	W, H   int
	Places []Place // of the nodes, in their order
	// Bends of an edge, from its start to its end: one in each layer between the two. Edges from one node share theirs as long as they run
	// together.
	Bends [][]Bend
}

// Ports are the nodes alone in the first and in the last layer, where what comes from outside enters and leaves; -1 for none.
type Ports struct{ First, Last int }

// Without is no ports.
var Without = Ports{-1, -1}

// Space between two nodes of a layer, beside an edge that passes, between two layers, and beside a layer without height, which ports are.
const (
	nodeGap  = 24
	edgeGap  = 14
	layerGap = 36
	portGap  = 12
)

// drawn is a graph while it is drawn. Vertices are the nodes, then one for every layer through which the edges of a node pass.
type drawn struct {
	size  []Size
	nodes int // vertices that are nodes

	edges    [][2]int32 // those that closed a cycle turned around
	turned   []bool
	straight []bool  // per node: its long edges have no bends; see chains
	first    []int32 // per node: the vertex of its edges in the layer below; those of the layers further down follow it
	layer    []int32 // of a vertex
	layers   [][]int32
	pos      []int32 // of a vertex in its layer
	up, down lists   // neighbours in the layer above and below
	x        []float64
}

// lists are lists of vertices, that of v from at[v] to at[v+1].
type lists struct {
	at, list []int32
}

func (l *lists) of(v int32) []int32 { return l.list[l.at[v]:l.at[v+1]] }

// newLists are the lists for n vertices of the second ends of pairs, by their first ends; back: the other way round.
func newLists(n int, pairs [][2]int32, back int) lists {
	l := lists{at: make([]int32, n+1), list: make([]int32, len(pairs))}
	for _, p := range pairs {
		l.at[p[back]+1]++
	}
	for v := range n {
		l.at[v+1] += l.at[v]
	}
	next := slices.Clone(l.at)
	for _, p := range pairs {
		l.list[next[p[back]]] = p[1-back]
		next[p[back]]++
	}
	return l
}

// Draw lays out nodes of these sizes with edges from the first to the second of each pair. Edges from a node to itself have no bends and do
// not count.
func Draw(nodes []Size, edges [][2]int, ports Ports) *Drawing {
	d := &drawn{size: nodes, nodes: len(nodes)}
	d.forward(edges)
	d.rank(ports)
	d.chains()
	d.sort()
	d.columns()
	return d.result(edges)
}

// forward turns edges that close a cycle around, and leaves out loops. Depth first, in the order of the nodes.
func (d *drawn) forward(edges [][2]int) {
	all := make([][2]int32, len(edges))
	for i, e := range edges {
		all[i] = [2]int32{int32(e[0]), int32(e[1])}
	}
	out := newLists(d.nodes, all, 0)
	const open, done = 1, 2
	state := make([]uint8, d.nodes)
	back := map[[2]int32]bool{}
	type frame struct {
		node int32
		next int
	}
	var stack []frame
	for root := range int32(d.nodes) {
		if state[root] != 0 {
			continue
		}
		state[root], stack = open, append(stack[:0], frame{root, 0})
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if list := out.of(f.node); f.next < len(list) {
				to := list[f.next]
				f.next++
				switch state[to] {
				case 0:
					state[to] = open
					stack = append(stack, frame{to, 0})
				case open:
					back[[2]int32{f.node, to}] = true
				}
				continue
			}
			state[f.node], stack = done, stack[:len(stack)-1]
		}
	}
	d.edges, d.turned = all, make([]bool, len(all))
	for i, e := range all {
		if back[e] {
			d.edges[i], d.turned[i] = [2]int32{e[1], e[0]}, true
		}
	}
}

// rank gives every node its layer: as far up as its inputs allow, and down to its readers where that makes edges shorter.
func (d *drawn) rank(ports Ports) {
	var pairs [][2]int32
	port := func(v int32) bool { return int(v) == ports.First || int(v) == ports.Last }
	for _, e := range d.edges {
		if e[0] != e[1] && !port(e[0]) && !port(e[1]) {
			pairs = append(pairs, e)
		}
	}
	in, out := newLists(d.nodes, pairs, 1), newLists(d.nodes, pairs, 0)
	d.layer = make([]int32, d.nodes)
	missing := make([]int, d.nodes)
	var order []int32
	for v := range int32(d.nodes) {
		if missing[v] = len(in.of(v)); missing[v] == 0 {
			order = append(order, v)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, to := range out.of(order[i]) {
			d.layer[to] = max(d.layer[to], d.layer[order[i]]+1)
			if missing[to]--; missing[to] == 0 {
				order = append(order, to)
			}
		}
	}
	for _, v := range slices.Backward(order) {
		readers := out.of(v)
		if len(readers) == 0 || len(in.of(v)) >= len(readers) {
			continue
		}
		lowest := int32(math.MaxInt32)
		for _, to := range readers {
			lowest = min(lowest, d.layer[to]-1)
		}
		d.layer[v] = max(d.layer[v], lowest)
	}
	last := int32(0)
	for v := range int32(d.nodes) {
		if ports.First >= 0 && !port(v) {
			d.layer[v]++
		}
		last = max(last, d.layer[v])
	}
	if ports.First >= 0 {
		d.layer[ports.First] = 0
	}
	if ports.Last >= 0 {
		d.layer[ports.Last] = last + 1
	}
	d.squeeze()
}

// squeeze removes layers in which no node is.
func (d *drawn) squeeze() {
	if d.nodes == 0 {
		return
	}
	used := make([]int32, slices.Max(d.layer)+2)
	for _, l := range d.layer {
		used[l+1] = 1
	}
	for l := range len(used) - 1 {
		used[l+1] += used[l]
	}
	for v, l := range d.layer {
		d.layer[v] = used[l]
	}
}

// mostVertices bounds how many vertices stand for edges, per node. Edges of a network need two or so; where everything reads everything,
// the longest edges are drawn straight and do not count in the order.
const mostVertices = 16

// chains makes the vertices through which long edges run: those of all edges from one node are one chain.
func (d *drawn) chains() {
	span := make([]int32, d.nodes) // how many layers the edges of a node pass
	for _, e := range d.edges {
		span[e[0]] = max(span[e[0]], d.layer[e[1]]-d.layer[e[0]]-1)
	}
	total := 0
	for _, s := range span {
		total += int(s)
	}
	d.straight = make([]bool, d.nodes)
	if most := mostVertices*d.nodes + 10_000; total > most {
		longest := make([]int32, d.nodes)
		for v := range longest {
			longest[v] = int32(v)
		}
		arrange.Stable(longest, func(a, b int32) int { return int(span[b] - span[a]) })
		for _, v := range longest {
			if total <= most {
				break
			}
			total -= int(span[v])
			span[v], d.straight[v] = 0, true
		}
	}
	d.first = make([]int32, d.nodes)
	var pairs [][2]int32
	for v := range int32(d.nodes) {
		d.first[v] = int32(len(d.layer))
		above := v
		for i := range span[v] {
			pairs = append(pairs, [2]int32{above, d.first[v] + i})
			above = d.first[v] + i
			d.layer = append(d.layer, d.layer[v]+1+i)
		}
	}
	for _, e := range d.edges {
		if above := d.above(e); above >= 0 {
			pairs = append(pairs, [2]int32{above, e[1]})
		}
	}
	slices.SortFunc(pairs, func(a, b [2]int32) int {
		if a[0] != b[0] {
			return int(a[0] - b[0])
		}
		return int(a[1] - b[1])
	})
	pairs = slices.Compact(pairs) // edges that are there twice
	d.up, d.down = newLists(len(d.layer), pairs, 1), newLists(len(d.layer), pairs, 0)
	top := int32(-1)
	for _, l := range d.layer {
		top = max(top, l)
	}
	d.layers = make([][]int32, top+1)
}

// above is the vertex in the layer above the end of an edge from which it comes, -1 for a loop and for one that is drawn straight.
func (d *drawn) above(e [2]int32) int32 {
	switch passed := d.layer[e[1]] - d.layer[e[0]] - 1; {
	case passed < 0 || passed > 0 && d.straight[e[0]]:
		return -1
	case passed == 0:
		return e[0]
	default:
		return d.first[e[0]] + passed - 1
	}
}

func (d *drawn) isNode(v int32) bool { return int(v) < d.nodes }

// width is how wide a vertex is; an edge that passes is a line.
func (d *drawn) width(v int32) float64 {
	if d.isNode(v) {
		return float64(d.size[v].W)
	}
	return 0
}

// apart is the distance between the middles of two vertices that stand beside each other.
func (d *drawn) apart(a, b int32) float64 {
	gap := float64(nodeGap)
	if !d.isNode(a) || !d.isNode(b) {
		gap = edgeGap
	}
	return (d.width(a)+d.width(b))/2 + gap
}

// result rounds coordinates and stacks the layers.
func (d *drawn) result(edges [][2]int) *Drawing {
	r := &Drawing{Places: make([]Place, d.nodes), Bends: make([][]Bend, len(edges))}
	left, right := math.Inf(1), math.Inf(-1)
	for v, x := range d.x {
		half := d.width(int32(v)) / 2
		left, right = math.Min(left, x-half), math.Max(right, x+half)
	}
	if len(d.x) > 0 {
		r.W = int(math.Ceil(right - left))
	}
	middle, above := make([]int, len(d.layers)), 0
	for l, list := range d.layers {
		high := 0
		for _, v := range list {
			if d.isNode(v) {
				high = max(high, d.size[v].H)
			}
		}
		switch {
		case l > 0 && min(high, above) == 0:
			r.H += portGap
		case l > 0:
			r.H += layerGap
		}
		middle[l] = r.H + high/2
		r.H += high
		above = high
	}
	for v := range d.nodes {
		s, l := d.size[v], int(d.layer[v])
		r.Places[v] = Place{X: int(math.Round(d.x[v] - left - float64(s.W)/2)), Y: middle[l] - s.H/2, W: s.W, H: s.H, Layer: l}
	}
	for i, e := range d.edges {
		for v := d.first[e[0]]; d.above(e) >= d.first[e[0]] && v <= d.above(e); v++ {
			l := int(d.layer[v])
			r.Bends[i] = append(r.Bends[i], Bend{X: int(math.Round(d.x[v] - left)), Y: middle[l], Layer: l})
		}
		if d.turned[i] {
			slices.Reverse(r.Bends[i])
		}
	}
	return r
}
