package rewrite

import (
	"fmt"
	"slices"

	"qwb/graph"
)

func concat(g *graph.Graph, n *graph.Node, axis int) ([]link, error) {
	y := n.Output(0)
	along := n.Axis()
	if along < 0 {
		along += len(g.Value(y).Shape)
	}
	var list []link
	if along != axis {
		for _, x := range n.Inputs {
			l, err := same(g, x, axis, y, axis)
			if err != nil {
				return nil, err
			}
			list = append(list, l...)
		}
		return list, nil
	}
	at := 0
	for _, x := range n.Inputs {
		d := dim(g, x, axis)
		if d < 0 {
			return nil, fmt.Errorf("the channels of %q are not known", g.Value(x).Name)
		}
		list = append(list, link{y, x, axis, axis, iota(at, at+d)})
		at += d
	}
	return list, nil
}

func split(g *graph.Graph, n *graph.Node, axis int) ([]link, error) {
	x := n.Input(0)
	along := n.Axis()
	if along < 0 {
		along += len(g.Value(x).Shape)
	}
	var list []link
	at := 0
	for _, y := range n.Outputs {
		d := dim(g, y, axis)
		if d < 0 {
			return nil, fmt.Errorf("the channels of %q are not known", g.Value(y).Name)
		}
		if along != axis {
			at = 0
		}
		list = append(list, link{x, y, axis, axis, iota(at, at+d)})
		at += d
	}
	return list, nil
}

// integers are the elements of a constant list of integers.
func integers(g *graph.Graph, v graph.ValueID) ([]int, bool) {
	t := g.Const(v)
	if t == nil {
		return nil, false
	}
	switch data := t.Data.(type) {
	case []int64:
		out := make([]int, len(data))
		for i, x := range data {
			out[i] = int(max(min(x, 1<<31), -1<<31))
		}
		return out, true
	case []int32:
		out := make([]int, len(data))
		for i, x := range data {
			out[i] = int(x)
		}
		return out, true
	}
	return nil, false
}

// option reads a list of integers that is an input or, in old opsets, an attribute. absent says that there is neither.
func option(g *graph.Graph, n *graph.Node, input int, attr string) (list []int, absent, ok bool) {
	if v := n.Input(input); v != graph.NoValue {
		list, ok = integers(g, v)
		return list, false, ok
	}
	a := n.Attr(attr)
	if a == nil {
		return nil, true, true
	}
	for _, x := range a.Ints {
		list = append(list, int(max(min(x, 1<<31), -1<<31)))
	}
	return list, false, true
}

func slice(g *graph.Graph, n *graph.Node, axis int) ([]link, error) {
	x, y := n.Input(0), n.Output(0)
	starts, _, ok := option(g, n, 1, "starts")
	axes, noAxes, ok2 := option(g, n, 3, "axes")
	steps, noSteps, ok3 := option(g, n, 4, "steps")
	if !ok || !ok2 || !ok3 {
		return nil, fmt.Errorf("which channels Slice takes is computed")
	}
	if noAxes {
		axes = iota(0, len(starts))
	}
	size, out := dim(g, x, axis), dim(g, y, axis)
	if size < 0 || out < 0 || len(axes) != len(starts) || !noSteps && len(steps) != len(starts) {
		return nil, fmt.Errorf("which channels Slice takes is not known")
	}
	from, step := 0, 1
	for i, a := range axes {
		if a, _ = graph.Axis(a, len(g.Value(x).Shape)); a != axis {
			continue
		}
		if from = starts[i]; from < 0 {
			from += size
		}
		if !noSteps {
			step = steps[i]
		}
		from = max(min(from, size), 0)
		if step < 0 {
			from = min(from, size-1)
		}
	}
	of := make([]int, out)
	for j := range of {
		if of[j] = from + j*step; of[j] < 0 || of[j] >= size {
			return nil, fmt.Errorf("which channels Slice takes is not known")
		}
	}
	return []link{{x, y, axis, axis, of}}, nil
}

// inner is the product of the dimensions behind an axis, -1 if one is not known.
func inner(g *graph.Graph, v graph.ValueID, axis int) int {
	n := 1
	for a := axis + 1; a < len(g.Value(v).Shape); a++ {
		d := dim(g, v, a)
		if d < 0 {
			return -1
		}
		n *= d
	}
	return n
}

// reshape links through a change of shape: an axis of the other side that holds the channels, and possibly what lies behind them, in
// one block.
func reshape(g *graph.Graph, n *graph.Node, v graph.ValueID, axis int) ([]link, error) {
	x, y := n.Input(0), n.Output(0)
	other := y
	if v == y {
		other = x
	}
	block := dim(g, v, axis) * inner(g, v, axis)
	if dim(g, v, axis) < 0 || inner(g, v, axis) < 0 {
		return nil, fmt.Errorf("the dimensions behind the channels of %q are not known", g.Value(v).Name)
	}
	for a := range g.Value(other).Shape {
		d, in := dim(g, other, a), inner(g, other, a)
		if d <= 0 || in <= 0 || d*in != block || d == 1 && dim(g, v, axis) != 1 {
			continue
		}
		coarse, fine := link{a: v, aAxis: axis, b: other, bAxis: a}, d
		if d < dim(g, v, axis) {
			coarse, fine = link{a: other, aAxis: a, b: v, bAxis: axis}, dim(g, v, axis)
		}
		run := fine / dim(g, coarse.a, coarse.aAxis)
		if run*dim(g, coarse.a, coarse.aAxis) != fine {
			continue
		}
		coarse.of = make([]int, fine)
		for j := range coarse.of {
			coarse.of[j] = j / run
		}
		return []link{coarse}, nil
	}
	return nil, fmt.Errorf("%s mixes the channels with other axes", n.Op)
}

func transpose(g *graph.Graph, n *graph.Node, v graph.ValueID, axis int) ([]link, error) {
	x, y := n.Input(0), n.Output(0)
	rank := len(g.Value(x).Shape)
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	if p := n.AttrInts("perm"); len(p) == rank {
		for i, a := range p {
			perm[i] = int(a)
		}
	}
	if v == y {
		return same(g, x, perm[axis], y, axis)
	}
	return same(g, x, axis, y, slices.Index(perm, axis))
}

// pad links through a Pad with zeros, or with values of the same channel.
func pad(g *graph.Graph, n *graph.Node, v graph.ValueID, axis int) ([]link, error) {
	x, y := n.Input(0), n.Output(0)
	if v != x && v != y {
		return nil, fmt.Errorf("a Pad reads it as an option")
	}
	if n.Pad().Mode == "constant" {
		fill := n.Pad().Value
		if c := n.Input(2); c != graph.NoValue {
			t := g.Const(c)
			if t == nil || len(t.F32()) != 1 {
				return nil, fmt.Errorf("a Pad writes values that are not zero")
			}
			fill = t.F32()[0]
		}
		if fill != 0 {
			return nil, fmt.Errorf("a Pad writes values that are not zero")
		}
	}
	return same(g, x, axis, y, axis)
}

// reduce links through a reduction over other axes.
func reduce(g *graph.Graph, n *graph.Node, v graph.ValueID, axis int) ([]link, error) {
	x, y := n.Input(0), n.Output(0)
	if v != x && v != y {
		return nil, fmt.Errorf("%s reads it as an option", n.Op)
	}
	axes, absent, ok := option(g, n, 1, "axes")
	rank := len(g.Value(x).Shape)
	if !ok || absent || len(axes) == 0 {
		return nil, fmt.Errorf("%s reduces the channels", n.Op)
	}
	gone := make([]bool, rank)
	for _, a := range axes {
		a, ok := graph.Axis(a, rank)
		if !ok {
			return nil, fmt.Errorf("%s has an axis out of range", n.Op)
		}
		gone[a] = true
	}
	var kept []int // axis of x, by axis of y
	for a := range rank {
		if !gone[a] || n.KeepDims() {
			kept = append(kept, a)
		}
	}
	xAxis, yAxis := axis, slices.Index(kept, axis)
	if v == y {
		if axis >= len(kept) {
			return nil, fmt.Errorf("%s has a result of another rank", n.Op)
		}
		xAxis, yAxis = kept[axis], axis
	}
	if yAxis < 0 || gone[xAxis] {
		return nil, fmt.Errorf("%s reduces the channels", n.Op)
	}
	return same(g, x, xAxis, y, yAxis)
}
