package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// class says how the elements of a call's inputs are computed with.
type class uint8

const (
	usual  class = iota // by the operator's evaluator, as they are
	plain               // by its evaluator in plain Go: float64, and integers where there is one
	small               // floats of 8 and 16 bits: in float32, the results rounded
	packed              // elements that share bytes: moved as bytes
)

// class looks at the element types of the inputs.
func (c *call) class() (class, error) {
	k := usual
	for i := range c.ins {
		t := c.ins[i].t
		if t == nil {
			continue
		}
		switch d := t.DType; {
		case d == tensor.Float32:
		case isPacked(d):
			switch {
			case !c.step.moves:
				return k, badType(i, d)
			case !readsPacked[c.node.Op] && !c.node.Reshapes():
				k = packed
			}
		case d == tensor.Float64 || i == 0 && d.IsInteger():
			if c.step.plain != nil {
				k = plain
			}
		case widens(d) && !c.step.moves && k == usual:
			k = small
		}
	}
	return k, nil
}

// evaluateAs runs a step whose inputs are not of the usual types. Nothing of its neighbours' work is done with it.
func (r *runnerState) evaluateAs(k class, i int, c *call) error {
	r.apart = true
	defer func() { r.apart = false }()
	switch k {
	case plain:
		return c.step.plain(c)
	case small:
		return r.evaluateSmall(i, c)
	}
	return r.evaluatePacked(i, c)
}

// readsPacked are the operators that know elements of less than a byte, or do not look at elements, beside those that give them
// another shape.
var readsPacked = map[string]bool{"Cast": true, "CastLike": true, "QuantizeLinear": true, "DequantizeLinear": true, "Identity": true,
	"Shape": true, "Size": true, "If": true, "Loop": true, "Scan": true}

// movesElements reports whether an operator takes and gives elements of every type as they are.
func movesElements(n *graph.Node) bool {
	spec := n.Spec()
	if spec == nil {
		return false
	}
	switch spec.Kind {
	case graph.KindQuantize, graph.KindControl:
		return true
	case graph.KindMover:
		switch n.Op {
		case "Resize", "Upsample":
			return n.AttrStr("mode", "nearest") == "nearest"
		case "ScatterElements", "ScatterND":
			return n.AttrStr("reduction", "none") == "none"
		}
		return n.Op != "GridSample" && n.Op != "QLinearConcat"
	}
	return wholeOps[n.Op]
}

// wholeOps are the operators of other kinds that know all element types, or do not look at elements.
var wholeOps = map[string]bool{"Cast": true, "CastLike": true, "Shape": true, "Size": true, "ConstantOfShape": true, "EyeLike": true}
