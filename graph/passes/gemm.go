package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// MatMulAddToGemm makes one Gemm of a product and a bias: one operator with one sum and one rounding, as engines compute it. Of tensors of
// more than two axes the leading ones are rows, which ONNX's own Gemm has not; package onnx writes MatMul and Add again.
var MatMulAddToGemm = Pass{
	Name:  "matmul-add-to-gemm",
	Doc:   "Makes a Gemm of MatMul with a constant matrix of weights and Add of a constant along its columns.",
	sweep: each(at("x = MatMul(a, const w)\ny = Add|Sum(x, const k)", matMulAdd)),
}

func matMulAdd(c *Context, m *pattern.Match) (*Patch, error) {
	if c.inIdiom(m.Root) || c.inIdiom(m.Node("x")) {
		return nil, decline("part of an operator written out")
	}
	g := c.G
	w, k := g.Const(m.Value("w")), g.Const(m.Value("k"))
	if w.DType != tensor.Float32 || len(w.Shape) != 2 {
		return nil, decline("the weights are %s, not a float32 matrix", w.Type())
	}
	if legacyBroadcast(g, g.Node(m.Root)) {
		return nil, decline("broadcasting by attributes (opset below 7)")
	}
	rank, ok := pattern.Rank(g, m.Value("a"))
	switch {
	case !ok:
		return nil, decline("the rank of %q is not known", g.Value(m.Value("a")).Name)
	case rank < 2:
		return nil, decline("%q has rank %d; Gemm multiplies matrices", g.Value(m.Value("a")).Name, rank)
	}
	columns := w.Shape[1]
	if _, err := alongAxis(k, rank, rank-1, columns); err != nil {
		return nil, err
	}
	n := *g.Node(m.Root)
	first := g.Node(m.Node("x"))
	n.Op, n.Name, n.Attrs = "Gemm", first.Name, nil
	bias := m.Value("k")
	p := &Patch{What: "MatMul and Add as Gemm"}
	if k.Len() != columns || len(k.Shape) > 2 { // one number is one per column; a Gemm of rows has a bias of two axes at most
		bias = p.Const(g.Value(bias).Name, tensor.FromF32(slices.Repeat(k.F32(), columns/k.Len()), columns))
	}
	if g.Opset("") < 7 { // Gemm broadcast its bias only when told to
		if rank > 2 {
			return nil, decline("%q has rank %d (opset below 7)", g.Value(m.Value("a")).Name, rank)
		}
		n.Attrs = []graph.Attr{graph.Int("broadcast", 1)}
	}
	n.Inputs = []graph.ValueID{m.Value("a"), m.Value("w"), bias}
	p.Drop(m.Node("x"), m.Root)
	p.Add(n)
	return p, nil
}

// GemmFactors moves alpha and beta of a Gemm into its constants. A bias of one number becomes one of a number per output channel.
var GemmFactors = Pass{
	Name: "gemm-factors",
	Doc: "Folds alpha into the constant weights and beta into the constant bias of a Gemm; " +
		"gives each output channel its number of the bias.",
	sweep: each(at("y = Gemm(a, const w, const b?)", gemmFactors)),
}

func gemmFactors(c *Context, m *pattern.Match) (*Patch, error) {
	n := c.G.Node(m.Root)
	alpha, beta := float64(n.Alpha()), float64(n.Beta())
	if n.Input(2) == graph.NoValue {
		beta = 1
	}
	b := c.G.Const(n.Input(2))
	single := b != nil && b.DType == tensor.Float32 && b.Len() == 1 && (c.G.Opset("") >= 7 || n.AttrInt("broadcast", 0) != 0)
	if alpha == 1 && beta == 1 && !single {
		return nil, nil
	}
	l, err := c.linear(m.Root)
	if err != nil {
		return nil, err
	}
	if single = single && len(b.Shape) == 1 && l.as.Out == 1; alpha == 1 && beta == 1 && single {
		return nil, nil // one channel
	}
	p := &Patch{What: "alpha and beta into weights and bias"}
	if alpha == 1 && beta == 1 {
		p.What = "the bias of one number to every output channel"
	}
	var w *tensor.Tensor
	if alpha != 1 {
		if w, err = l.scaled([]float64{alpha}, nil); err != nil {
			return nil, err
		}
	}
	if err := l.replace(c, p, w, l.bias, m.Value("y")); err != nil {
		return nil, err
	}
	p.add[0].DropAttr("alpha")
	p.add[0].DropAttr("beta")
	return p, nil
}
