package analysis

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Slice is a part of a graph output that is judged by itself: the elements whose index j along Axis has From <= j % Period < To. Where one
// part is large and another small, one figure for both says nothing of the small one.
type Slice struct {
	Name   string
	Output int // its place among the graph's outputs
	Axis   int
	From   int
	To     int // not included
	Period int // 0: the length of the axis
	// Part says that the graph, or a user, has put the elements together: an input of a Concat, a group of a file. Others are single indices.
	Part bool
	// Share says that values lie between 0 and 1: a Sigmoid or a Softmax computes them.
	Share bool
}

const (
	mostIndices  = 128 // channels of weights, and inputs of a Concat along its axis, that are slices of their own
	shortAxis    = 32  // the longest axis whose indices are, where nothing else is known of an output
	mostSlices   = 256 // of one output
	deepestPaths = 64  // operators between an output and what it is made of
)

// FindSlices lists the parts of the outputs of g: the inputs of a last Concat, followed through operators that keep them apart, and the
// indices of its axis; else the channels of the last weights; else the indices of every short axis of fixed length. Axis 0 is that of
// samples and has none. Outputs of classes, and those of another type than float, have none.
func FindSlices(g *graph.Graph) (list []Slice) {
	for k, v := range g.Outputs {
		if findLogits(g, v).node != graph.NoNode || g.Const(v) != nil || g.Value(v).DType != tensor.Undefined && !g.Value(v).DType.IsFloat() {
			continue
		}
		f := newSliceFinder(g)
		l := f.of(v, deepestPaths)
		if len(l.grids) == 0 {
			l.grids = f.short(v)
		}
		var own []Slice
		for _, p := range l.parts {
			own = append(own, p.slice(k, l.share))
		}
		parts := len(own)
		for _, a := range l.grids {
			for _, s := range f.indices(k, v, a) {
				s.Share = l.share || slices.ContainsFunc(own[:parts], func(p Slice) bool { return p.Share && p.holds(s) })
				own = append(own, s)
			}
		}
		list = append(list, distinct(own)...)
	}
	return list
}

// holds reports whether all elements of another slice are elements of this one.
func (s *Slice) holds(o Slice) bool {
	return s.Output == o.Output && s.Axis == o.Axis && s.Period == o.Period && s.From <= o.From && o.To <= s.To
}

// distinct leaves out what is there already, and all beyond mostSlices.
func distinct(list []Slice) (out []Slice) {
	for _, s := range list {
		same := func(o Slice) bool {
			return o.Axis == s.Axis && o.From == s.From && o.To == s.To && o.Period == s.Period
		}
		if s.From < s.To && !slices.ContainsFunc(out, same) && len(out) < mostSlices {
			out = append(out, s)
		}
	}
	return out
}

// grid numbers the elements along an axis: those with (j / unit) % n == i have number i.
type grid struct{ axis, unit, n int }

// piece is a range of the numbers of a grid.
type piece struct {
	grid
	from, to int
	name     string
	share    bool
}

func (p *piece) slice(output int, share bool) Slice {
	return Slice{Name: p.name, Output: output, Axis: p.axis, From: p.from * p.unit, To: p.to * p.unit, Period: p.unit * p.n, Part: true,
		Share: p.share || share}
}

// layout is what is known of the elements of a value.
type layout struct {
	parts []piece
	grids []grid // whose single numbers mean something
	share bool
}

// sliceFinder finds layouts; those that were found are known by value and depth.
type sliceFinder struct {
	g     *graph.Graph
	known map[foundAt]layout
}

type foundAt struct {
	v     graph.ValueID
	depth int
}

func newSliceFinder(g *graph.Graph) sliceFinder { return sliceFinder{g, map[foundAt]layout{}} }

// indices are the slices of the single numbers of a grid.
func (f sliceFinder) indices(output int, v graph.ValueID, a grid) (list []Slice) {
	if a.n < 2 || a.n > mostIndices {
		return nil
	}
	for i := range a.n {
		s := Slice{Output: output, Axis: a.axis, From: i * a.unit, To: (i + 1) * a.unit, Period: a.unit * a.n}
		s.Name = indexName(f.g.Value(v).Name, s, f.g.Value(v).Shape)
		list = append(list, s)
	}
	return list
}

// indexName names indices of an axis as NumPy does: y[:,4], y[:,4:8], and of a period y[:,4 of 12].
func indexName(name string, s Slice, shape graph.Shape) string {
	at := fmt.Sprint(s.From)
	if s.To > s.From+1 {
		at = fmt.Sprintf("%d:%d", s.From, s.To)
	}
	if s.Axis < len(shape) && s.Period > 0 && shape[s.Axis].N != int64(s.Period) {
		at += fmt.Sprintf(" of %d", s.Period)
	}
	for range s.Axis {
		at = ":," + at
	}
	return name + "[" + at + "]"
}

// short lists the short axes of fixed length, but for the first, which is that of samples.
func (f sliceFinder) short(v graph.ValueID) (list []grid) {
	shape := f.g.Value(v).Shape
	for a, d := range shape {
		if (a > 0 || len(shape) == 1) && d.N >= 2 && d.N <= shortAxis {
			list = append(list, grid{a, 1, int(d.N)})
		}
	}
	return list
}

// of finds the layout of a value.
func (f sliceFinder) of(v graph.ValueID, depth int) layout {
	at := foundAt{v, depth}
	l, ok := f.known[at]
	if !ok {
		l = f.find(v, depth)
		f.known[at] = l
	}
	return l
}

// find is of for a value that was not asked about before.
func (f sliceFinder) find(v graph.ValueID, depth int) layout {
	p := f.g.Producer(v)
	if p == graph.NoNode || depth == 0 {
		return layout{}
	}
	n := f.g.Node(p)
	if !n.IsONNX() || n.Input(0) == graph.NoValue {
		return layout{}
	}
	in := n.Input(0)
	from, to := f.g.Value(in).Shape, f.g.Value(v).Shape
	if n.Reshapes() {
		return f.of(in, depth-1).moved(func(a grid) []grid { return reshaped(a, from, to) })
	}
	switch n.Op {
	case "Concat":
		return f.concat(n, v, depth)
	case "Conv", "ConvTranspose":
		return channels(to, 1)
	case "Gemm", "MatMul":
		if n.Op == "Gemm" || f.g.Const(n.Input(1)) != nil {
			return channels(to, len(to)-1)
		}
		return layout{}
	case "Transpose":
		return f.of(in, depth-1).moved(func(a grid) []grid { return []grid{transposed(a, n, len(from))} })
	case "Sigmoid", "HardSigmoid":
		l := f.of(in, depth-1)
		l.share = true
		return l
	case "Softmax":
		return layout{share: true}
	case "Identity", "Dropout", "Cast":
		return f.of(in, depth-1)
	case "Relu", "LeakyRelu", "Clip", "Tanh", "Elu", "Softplus", "HardSwish", "Exp", "Log", "Sqrt", "Abs", "Neg", "PRelu", "Gelu", "Mish",
		"BatchNormalization", "InstanceNormalization", "LayerNormalization", "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min":
		return f.computed(n, to, depth).unbounded()
	case "Resize", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool":
		return f.of(in, depth-1).moved(func(a grid) []grid {
			if a.axis == 1 {
				return []grid{a}
			}
			return nil
		})
	}
	return layout{}
}

// computed is the layout of the first operand that has one and the shape of the result.
func (f sliceFinder) computed(n *graph.Node, to graph.Shape, depth int) layout {
	for i, in := range n.Inputs {
		if in == graph.NoValue || f.g.Const(in) != nil || len(f.g.Value(in).Shape) != len(to) {
			continue
		}
		same := slices.EqualFunc(f.g.Value(in).Shape, to, func(a, b graph.Dim) bool { return a.N == b.N })
		if l := f.of(in, depth-1); same && len(l.grids) > 0 {
			return l
		}
		if i > 0 {
			break
		}
	}
	return layout{}
}

func (l layout) unbounded() layout {
	l.share = false
	l.parts = slices.Clone(l.parts)
	for i := range l.parts {
		l.parts[i].share = false
	}
	return l
}

// channels is the layout of what weights compute.
func channels(shape graph.Shape, axis int) layout {
	if axis < 0 || axis >= len(shape) || !shape[axis].Known() {
		return layout{}
	}
	return layout{grids: []grid{{axis, 1, int(shape[axis].N)}}}
}

// concat is the layout of a Concat: its inputs, theirs where they lie along the same axis, and along others where all inputs agree.
func (f sliceFinder) concat(n *graph.Node, v graph.ValueID, depth int) (out layout) {
	shape := f.g.Value(v).Shape
	axis, ok := graph.Axis(n.Axis(), len(shape))
	if !ok {
		return out
	}
	at, length := 0, int(shape[axis].N)
	var across [][]piece
	for i, in := range n.Inputs {
		l := f.of(in, depth-1)
		size := -1
		if s := f.g.Value(in).Shape; axis < len(s) {
			size = int(s[axis].N)
		}
		if size >= 0 && length >= 0 && at >= 0 {
			if len(n.Inputs) > 1 {
				out.parts = append(out.parts, piece{grid{axis, 1, length}, at, at + size, f.g.Value(in).Name, l.share})
			}
			for _, p := range l.parts {
				if p.axis == axis && p.unit == 1 && p.n == size && len(out.parts) < mostSlices {
					p.from, p.to, p.n = p.from+at, p.to+at, length
					out.parts = append(out.parts, p)
				}
			}
			at += size
		} else {
			at = -1
		}
		across = append(across, slices.DeleteFunc(slices.Clone(l.parts), func(p piece) bool { return p.axis == axis }))
		others := slices.DeleteFunc(slices.Clone(l.grids), func(a grid) bool { return a.axis == axis })
		if i == 0 {
			out.grids, out.share = others, l.share
			continue
		}
		out.grids = slices.DeleteFunc(out.grids, func(a grid) bool { return !slices.Contains(others, a) })
		out.share = out.share && l.share
	}
	for _, p := range across[0] {
		if !slices.ContainsFunc(across, func(list []piece) bool {
			return !slices.ContainsFunc(list, func(o piece) bool { return o.grid == p.grid && o.from == p.from && o.to == p.to })
		}) {
			out.parts = append(out.parts, p)
		}
	}
	if length >= 0 {
		out.grids = append(out.grids, grid{axis, 1, length})
	}
	return out
}

// moved brings a layout to another shape. A part lies on the coarsest grid that one becomes and whose numbers hold its ends.
func (l layout) moved(to func(grid) []grid) (out layout) {
	out.share = l.share
	for _, a := range l.grids {
		for _, b := range to(a) {
			if !slices.Contains(out.grids, b) && b.axis >= 0 {
				out.grids = append(out.grids, b)
			}
		}
	}
	for _, p := range l.parts {
		list := to(p.grid)
		size := 1 // of one number of the coarsest grid, in those of the old one
		for _, b := range list[min(1, len(list)):] {
			size *= b.n
		}
		if len(list) == 0 || list[0].axis < 0 || list[0].n*size != p.n || p.from%size != 0 || p.to%size != 0 {
			continue
		}
		p.grid, p.from, p.to = list[0], p.from/size, p.to/size
		out.parts = append(out.parts, p)
	}
	return out
}

func transposed(a grid, n *graph.Node, rank int) grid {
	perm := n.AttrInts("perm")
	if perm == nil {
		return grid{rank - 1 - a.axis, a.unit, a.n}
	}
	return grid{slices.Index(perm, int64(a.axis)), a.unit, a.n}
}

// reshaped is what a grid becomes where the elements keep their order: the axes that share its elements, the coarsest first. None where
// dimensions are open between them.
func reshaped(a grid, from, to graph.Shape) (list []grid) {
	group := func(shape graph.Shape, lo, hi int) (size int) {
		size = 1
		for _, d := range shape[lo:hi] {
			if !d.Known() {
				return -1
			}
			size *= int(d.N)
		}
		return size
	}
	_, fr, tl, tr := groupOf(a.axis, from, to)
	stride := group(from, a.axis+1, fr)
	if stride < 0 {
		return nil
	}
	unit := a.unit * stride
	for i := tl; i < tr; i++ {
		s := group(to, i+1, tr)
		if s < 0 || to[i].N == 1 && tr-tl > 1 {
			continue
		}
		span := -1
		if to[i].Known() {
			span = s * int(to[i].N)
		}
		lo, hi := max(unit, s), unit*a.n // the digits that the axis and the grid share
		if span >= 0 {
			hi = min(hi, span)
		}
		if hi <= lo || unit%s != 0 && s%unit != 0 || hi%lo != 0 || unit*a.n%hi != 0 {
			continue
		}
		list = append(list, grid{i, lo / s, hi / lo})
	}
	return list
}

// groupOf finds the axes of both shapes that hold the same elements as the given one of the first: where products of dimensions agree, from
// the left, and where some are open what is left between that and equal ones on the right.
func groupOf(axis int, from, to graph.Shape) (fl, fr, tl, tr int) {
	for {
		i, j, ok := alike(from[fl:], to[tl:])
		if !ok {
			return fromRight(axis, from, to, fl, tl)
		}
		if axis < fl+i {
			return fl, fl + i, tl, tl + j
		}
		fl, tl = fl+i, tl+j
	}
}

// alike is the smallest number of first dimensions of both shapes that have one product.
func alike(a, b graph.Shape) (i, j int, ok bool) {
	x, y := int64(1), int64(1)
	for i == 0 || j == 0 || x != y {
		into, list, at := &x, a, &i
		if i > 0 && (j == 0 || y < x) {
			into, list, at = &y, b, &j
		}
		if *at >= len(list) || list[*at].N <= 0 {
			return 0, 0, false
		}
		*into *= list[*at].N
		*at++
	}
	return i, j, true
}

// fromRight takes equal dimensions off the right ends of what is left; the rest is one group, whose open dimensions stand for each other.
func fromRight(axis int, from, to graph.Shape, l, m int) (fl, fr, tl, tr int) {
	fr, tr = len(from), len(to)
	for fr > l && tr > m && from[fr-1].Known() && from[fr-1].N == to[tr-1].N {
		fr, tr = fr-1, tr-1
		if axis == fr {
			return fr, fr + 1, tr, tr + 1
		}
	}
	return l, fr, m, tr
}
