package passes

import (
	"slices"

	"qwb/graph"
)

// Empty takes what has no elements out of concatenations. It becomes no constant: OpenVINO reads such ones as scalars.
var Empty = Pass{
	Name:  "empty",
	Doc:   "Takes parts that never have an element out of concatenations.",
	sweep: each(emptyParts),
}

// emptyParts takes parts that add nothing out of a Concat.
func emptyParts(c *Context, id graph.NodeID) (*Patch, error) {
	n := c.G.Node(id)
	if n.Op != "Concat" || !n.IsONNX() {
		return nil, nil
	}
	kept := slices.DeleteFunc(slices.Clone(n.Inputs), func(v graph.ValueID) bool {
		shape := c.proven(v)
		axis, ok := graph.Axis(int(n.AttrInt("axis", 1)), len(shape))
		return ok && shape[axis].N == 0
	})
	if len(kept) == len(n.Inputs) || len(kept) == 0 {
		return nil, nil
	}
	p := &Patch{What: "parts without elements"}
	p.Drop(id)
	other := *n
	other.Inputs = kept
	p.Add(other)
	return p, nil
}
