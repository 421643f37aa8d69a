package passes

import (
	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// Slopes gives a leaky ReLU its own name, which more engines have an integer kernel of, and fuse.
var Slopes = Pass{
	Name:  "slopes",
	Doc:   "Writes PRelu with one slope for all elements as LeakyRelu.",
	sweep: each(at("y = PRelu(x, const slope)", oneSlope)),
}

func oneSlope(c *Context, m *pattern.Match) (*Patch, error) {
	n, x, slope := c.G.Node(m.Root), m.Value("x"), c.G.Const(m.Value("slope"))
	if slope.DType != tensor.Float32 || slope.Len() == 0 || c.G.Const(x) != nil || c.G.Value(x).DType != tensor.Float32 || c.G.Opset("") < 6 {
		return nil, nil
	}
	alpha := slope.F32()[0]
	for _, a := range slope.F32() {
		if a != alpha {
			return nil, nil
		}
	}
	p := &Patch{What: "PRelu with one slope as LeakyRelu"}
	p.Drop(n.ID)
	p.Add(graph.Node{Op: "LeakyRelu", Name: n.Name, Doc: n.Doc, Inputs: []graph.ValueID{x}, Outputs: n.Outputs,
		Attrs: []graph.Attr{graph.Float("alpha", alpha)}})
	return p, nil
}
