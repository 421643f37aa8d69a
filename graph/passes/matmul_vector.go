package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// MatMulVectors gives products a matrix of weights where they have a vector, or a matrix behind axes of length 1: what engines and formats
// have an operator for.
var MatMulVectors = Pass{
	Name:  "matmul-vectors",
	Doc:   "Makes a matrix of one column of constant weights that are a vector, and drops axes of length 1 in front of a matrix of weights.",
	sweep: each(at("y = MatMul(a, const w)", matMulVector)),
}

func matMulVector(c *Context, m *pattern.Match) (*Patch, error) {
	g := c.G
	w := g.Const(m.Value("w"))
	rank, ok := pattern.Rank(g, m.Value("a"))
	axes := len(w.Shape)
	if axes == 2 || w.DType != tensor.Float32 || !ok || rank < axes || axes == 0 {
		return nil, nil
	}
	n := *g.Node(m.Root)
	name := g.Value(m.Value("w")).Name
	matrix := func(shape ...int) *tensor.Tensor {
		return &tensor.Tensor{DType: w.DType, Shape: shape, Data: w.ToRowMajor().Data}
	}
	p := &Patch{}
	p.Drop(m.Root)
	if axes > 2 {
		if slices.ContainsFunc(w.Shape[:axes-2], func(d int) bool { return d != 1 }) {
			return nil, nil
		}
		p.What = "weights without the axes of length 1 in front"
		n.Inputs = []graph.ValueID{m.Value("a"), p.Const(name, matrix(w.Shape[axes-2:]...))}
		p.Add(n)
		return p, nil
	}
	shape := slices.Clone(g.Value(m.Value("a")).Shape)
	if shape == nil {
		return nil, nil
	}
	shape[rank-1] = graph.Dim{N: 1}
	p.What = "a vector of weights as a matrix of one column"
	y := n.Outputs[0]
	column := p.Typed(g.Value(y).Name+"_column", tensor.Float32, shape)
	n.Inputs, n.Outputs = []graph.ValueID{m.Value("a"), p.Const(name, matrix(w.Len(), 1))}, []graph.ValueID{column}
	p.Add(n)
	squeeze := graph.Node{Op: "Squeeze", Name: n.Name + "_squeeze", Inputs: []graph.ValueID{column}, Outputs: []graph.ValueID{y}}
	if g.Opset("") >= 13 {
		squeeze.Inputs = append(squeeze.Inputs, p.Const(g.Value(y).Name+"_axes", tensor.FromI64([]int64{int64(rank - 1)}, 1)))
	} else {
		squeeze.Attrs = []graph.Attr{graph.Ints("axes", int64(rank-1))}
	}
	p.Add(squeeze)
	return p, nil
}
