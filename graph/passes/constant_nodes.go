package passes

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// ConstantNodes makes what Constant nodes compute constants of the graph.
var ConstantNodes = Pass{
	Name:  "constant-nodes",
	Doc:   "Turns Constant nodes into constants of the graph.",
	sweep: each(constantNode),
}

func constantNode(c *Context, id graph.NodeID) (*Patch, error) {
	n := c.G.Node(id)
	if n.Op != "Constant" || !n.IsONNX() || len(n.Outputs) != 1 {
		return nil, nil
	}
	t := constantValue(n)
	if t == nil {
		return nil, decline("the value is sparse or of a type that cannot be a constant")
	}
	p := &Patch{What: "constant " + t.Type()}
	p.Drop(id)
	p.Fix(n.Outputs[0], t)
	return p, nil
}

// constantValue reads the one attribute a Constant node has, nil if it is sparse or unknown.
func constantValue(n *graph.Node) *tensor.Tensor {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		switch a.Name {
		case "value":
			return a.T
		case "value_float":
			return tensor.FromF32([]float32{a.F})
		case "value_floats":
			return tensor.FromF32(a.Floats, len(a.Floats))
		case "value_int":
			return tensor.FromI64([]int64{a.I})
		case "value_ints":
			return tensor.FromI64(a.Ints, len(a.Ints))
		case "value_string":
			return &tensor.Tensor{DType: tensor.String, Shape: []int{}, Data: []string{a.S}}
		case "value_strings":
			return &tensor.Tensor{DType: tensor.String, Shape: []int{len(a.Strings)}, Data: a.Strings}
		}
	}
	return nil
}
