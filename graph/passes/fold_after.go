package passes

import (
	"qwb/graph"
	"qwb/graph/pattern"
)

const weightedOps = "Conv|ConvTranspose|Gemm|MatMul"

// FoldScaleAfter moves a constant factor after an operator into its weights.
var FoldScaleAfter = Pass{
	Name: "fold-scale-after",
	Doc:  "Folds a constant Mul or Div after Conv, ConvTranspose, Gemm or MatMul into the weights, per tensor or per channel.",
	sweep: each(
		at("x = "+weightedOps+"(a, w, b?)\ny = Mul(x, const k)", foldScaleAfter),
		at("x = "+weightedOps+"(a, w, b?)\ny = Div(x, const k)", foldScaleAfter)),
}

func foldScaleAfter(c *Context, m *pattern.Match) (*Patch, error) {
	l, k, err := c.after(m)
	if err != nil {
		return nil, err
	}
	op := c.G.Node(m.Root).Op
	if op == "Div" {
		k = inverse(k)
	}
	p := &Patch{What: op + " into the weights of the " + l.n.Op + " before it"}
	if err := l.affine(c, p, k, nil, m.Value("y")); err != nil {
		return nil, err
	}
	p.Drop(m.Root)
	return p, nil
}

// FoldBias moves a constant that is added after an operator into its bias.
var FoldBias = Pass{
	Name: "fold-bias",
	Doc:  "Folds a constant Add or Sub after Conv, ConvTranspose or Gemm into the bias.",
	sweep: each(
		at("x = Conv|ConvTranspose|Gemm(a, w, b?)\ny = Add|Sum(x, const k)", foldBias),
		at("x = Conv|ConvTranspose|Gemm(a, w, b?)\ny = Sub(x, const k)", foldBias)),
}

func foldBias(c *Context, m *pattern.Match) (*Patch, error) {
	l, k, err := c.after(m)
	if err != nil {
		return nil, err
	}
	op := c.G.Node(m.Root).Op
	if op == "Sub" {
		for i := range k {
			k[i] = -k[i]
		}
	}
	p := &Patch{What: op + " into the bias of the " + l.n.Op + " before it"}
	if err := l.affine(c, p, nil, k, m.Value("y")); err != nil {
		return nil, err
	}
	p.Drop(m.Root)
	return p, nil
}

// after reads a match of an operator x followed by an elementwise operation with the constant k.
func (c *Context) after(m *pattern.Match) (*linear, []float64, error) {
	if c.inIdiom(m.Root) {
		return nil, nil, decline("%s is part of an operator written out", c.G.Node(m.Root).Op)
	}
	if legacyBroadcast(c.G, c.G.Node(m.Root)) {
		return nil, nil, decline("broadcasting by attributes (opset below 7)")
	}
	l, err := c.linear(m.Node("x"))
	if err != nil {
		return nil, nil, err
	}
	rank, axis := l.outAxis(c)
	k, err := alongAxis(c.G.Const(m.Value("k")), rank, axis, l.as.Out)
	return l, k, err
}

// legacyBroadcast reports whether an elementwise operator aligns its operands by attributes, as before opset 7.
func legacyBroadcast(g *graph.Graph, n *graph.Node) bool {
	return g.Opset("") < 7 && (n.Attr("axis") != nil || n.AttrInt("broadcast", 0) != 0)
}
