package lower

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

// limits returns the bounds between which a chain of Relu and Clip keeps its input, and false where another operator is among
// the nodes.
func (c *compiler) limits(nodes []graph.NodeID) (lo, hi float32, ok bool, err error) {
	lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	for _, id := range nodes {
		l, h, ok, err := c.limit(id)
		if err != nil || !ok {
			return 0, 0, false, err
		}
		lo, hi = min(max(lo, l), h), min(max(hi, l), h)
	}
	return lo, hi, true, nil
}

// limit returns the bounds of a Relu or Clip.
func (c *compiler) limit(id graph.NodeID) (lo, hi float32, ok bool, err error) {
	n := c.g.Node(id)
	lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	switch {
	case n.Domain != "":
		return 0, 0, false, nil
	case n.Op == "Relu":
		return 0, hi, true, nil
	case n.Op == "Clip" && c.g.Opset("") < 11:
		lo, hi = n.Limits()
	case n.Op == "Clip":
		if x, given, err := c.scalar(id, 1); err != nil {
			return 0, 0, false, err
		} else if given {
			lo = x
		}
		if x, given, err := c.scalar(id, 2); err != nil {
			return 0, 0, false, err
		} else if given {
			hi = x
		}
	default:
		return 0, 0, false, nil
	}
	if lo != lo || hi != hi {
		return 0, 0, false, c.fail(id, "a bound is NaN")
	}
	return min(lo, hi), hi, true, nil
}

// codeLimits returns the bounds as integers of e. Quantizing does not change the order of numbers, so limiting the integers is the
// same as quantizing what was limited.
func codeLimits(e Encoding, lo, hi float32) (qlo, qhi int32) {
	g := e.Grid()
	return g.Quantize(lo), g.Quantize(hi)
}

// function returns nodes, all of them functions of x element by element, as a graph of x. With slopes, those of a PRelu may be one for each
// channel of x.
func (c *compiler) function(x graph.ValueID, nodes []graph.NodeID, slopes bool) (*graph.Graph, error) {
	for _, id := range nodes {
		if n := c.g.Node(id); !c.g.Pointwise(id) && !(slopes && n.Op == "PRelu" && target.ChannelSlopes.Holds(c.g, n)) {
			return nil, c.fail(id, "%s is not a function of single elements", c.g.Node(id).Op)
		}
	}
	y := c.g.Node(nodes[len(nodes)-1]).Outputs[0]
	part, err := graph.Extract(c.g, []graph.ValueID{x}, []graph.ValueID{y})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	for _, v := range part.Values() { // any number of elements
		if part.Const(v) == nil {
			part.Value(v).Shape = nil
		}
	}
	return part, nil
}

// Rows returns Func for numbers that lie in rows of one for each channel: its constants of several elements, which are the slopes of PRelu,
// lie along the last axis.
func (o *Linear) Rows() *graph.Graph {
	g := o.Func.Clone()
	for _, v := range g.Values() {
		if c := g.Const(v); c != nil && c.Len() > 1 {
			g.SetConst(v, tensor.FromF32(c.F32(), c.Len()))
		}
	}
	return g
}
