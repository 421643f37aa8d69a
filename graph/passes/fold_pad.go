package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
)

// FoldPad moves padding with zeros into the operator that reads it.
var FoldPad = Pass{
	Name:  "fold-pad",
	Doc:   "Folds a Pad of spatial axes with 0 into Conv, AveragePool that counts its padding, and MaxPool of values >= 0.",
	sweep: each(at("x = Pad(u, ...)\ny = Conv|AveragePool|MaxPool(x, ...)", foldPad)),
}

func foldPad(c *Context, m *pattern.Match) (*Patch, error) {
	pad, n := c.G.Node(m.Node("x")), c.G.Node(m.Root)
	if n.Input(0) != m.Value("x") {
		return nil, decline("the padded value is not what the %s slides over", n.Op)
	}
	begin, end, err := spatialPads(c.G, pad)
	if err != nil {
		return nil, err
	}
	spatial := len(begin)
	own := slices.Clone(n.AttrInts("pads"))
	switch mode := n.AttrStr("auto_pad", "NOTSET"); {
	case mode == "SAME_UPPER" || mode == "SAME_LOWER":
		return nil, decline("the %s pads by itself (%s)", n.Op, mode)
	case own == nil || mode == "VALID":
		own = make([]int64, 2*spatial)
	case len(own) != 2*spatial:
		return nil, decline("the %s pads %d axes, the Pad %d", n.Op, len(own)/2, spatial)
	}
	if n.Op != "Conv" {
		if err := poolTakes(c.G, n, m.Value("u"), begin, end); err != nil {
			return nil, err
		}
	}
	for i := range begin {
		own[i] += begin[i]
		own[i+spatial] += end[i]
	}
	next := *n
	next.Inputs = slices.Clone(n.Inputs)
	next.Inputs[0] = m.Value("u")
	next.Attrs = slices.Clone(n.Attrs)
	next.SetAttr(graph.Ints("pads", own...))
	next.DropAttr("auto_pad")
	if n.Op == "AveragePool" {
		next.SetAttr(graph.Int("count_include_pad", 1))
	}
	p := &Patch{What: "Pad into the padding of " + n.Op}
	p.Drop(m.Node("x"), m.Root)
	p.Add(next)
	return p, nil
}

// poolTakes reports whether a pool over the padded value equals a pool that pads by itself.
func poolTakes(g *graph.Graph, n *graph.Node, u graph.ValueID, begin, end []int64) error {
	switch {
	case padded(n):
		return decline("the %s has padding of its own, which it treats otherwise", n.Op)
	case n.Pool().Ceil:
		return decline("the %s rounds its size up (ceil_mode)", n.Op)
	case n.Op == "AveragePool":
		if g.Opset("") < 7 {
			return decline("AveragePool cannot count its padding before opset 7")
		}
		return nil
	case len(n.Outputs) > 1:
		return decline("the MaxPool gives indices into the padded value")
	case !nonNegative(g, u):
		return decline("MaxPool pads with -inf, and %q may be negative", g.Value(u).Name)
	}
	kernel, dilations := n.Pool().Kernel, n.AttrInts("dilations")
	for i := range begin {
		extent := int64(1)
		if i < len(kernel) {
			extent = kernel[i]
		}
		if i < len(dilations) {
			extent = (extent-1)*dilations[i] + 1
		}
		if begin[i] >= extent || end[i] >= extent {
			return decline("a window of the MaxPool may lie in the padding alone")
		}
	}
	return nil
}

// nonNegative reports whether the operator that computes v never gives a value below 0.
func nonNegative(g *graph.Graph, v graph.ValueID) bool {
	id := g.Producer(v)
	if id == graph.NoNode {
		return false
	}
	n := g.Node(id)
	switch n.Op {
	case "Relu", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Abs":
		return true
	case "Clip":
		if low, ok := pattern.Scalar(g.Const(n.Input(1))); ok {
			return low >= 0
		}
		return n.AttrFloat("min", -1) >= 0
	}
	return false
}

// spatialPads reads a Pad of zeros, axes from the third on; the reason says why it is not that.
func spatialPads(g *graph.Graph, n *graph.Node) (begin, end []int64, err error) {
	if mode := n.Pad().Mode; mode != "constant" {
		return nil, nil, decline("the Pad is of mode %q", mode)
	}
	pads := n.Pad().Pads
	if v := n.Input(1); v != graph.NoValue {
		if pads = Integers(g.Const(v)); pads == nil {
			return nil, nil, decline("the padding is computed")
		}
	}
	value := float64(n.Pad().Value)
	if v := n.Input(2); v != graph.NoValue {
		var ok bool
		if value, ok = pattern.Scalar(g.Const(v)); !ok {
			return nil, nil, decline("the padding's value is computed")
		}
	}
	if value != 0 {
		return nil, nil, decline("the Pad is with %g, not 0", value)
	}
	if v := n.Input(3); v != graph.NoValue {
		if pads, err = padsOfAxes(g, n, pads); err != nil {
			return nil, nil, err
		}
	}
	rank := len(pads) / 2
	if rank < 3 || len(pads) != 2*rank {
		return nil, nil, decline("the Pad has no spatial axes")
	}
	for i, p := range pads {
		if i%rank < 2 && p != 0 {
			return nil, nil, decline("the Pad is along axis %d, which is not spatial", i%rank)
		}
		if p < 0 {
			return nil, nil, decline("the Pad crops")
		}
	}
	return pads[2:rank], pads[rank+2:], nil
}

// padsOfAxes spreads padding of the axes listed in input 3 over all axes.
func padsOfAxes(g *graph.Graph, n *graph.Node, pads []int64) ([]int64, error) {
	axes := Integers(g.Const(n.Input(3)))
	rank, ok := pattern.Rank(g, n.Input(0))
	if axes == nil || !ok || len(pads) != 2*len(axes) {
		return nil, decline("the axes of the Pad are not known")
	}
	all := make([]int64, 2*rank)
	for i, axis := range axes {
		a, ok := graph.Axis(int(axis), rank)
		if !ok {
			return nil, decline("the Pad is along an axis that does not exist")
		}
		all[a], all[int(a)+rank] = pads[i], pads[i+len(axes)]
	}
	return all, nil
}
