package passes

import (
	"math"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// FoldBatchNorm moves a normalization with fixed statistics into the weights before it:
//
//	f = scale / sqrt(var + epsilon); w' = w f; b' = b f + offset - mean f
var FoldBatchNorm = Pass{
	Name: "fold-batch-norm",
	Doc:  "Folds BatchNormalization into the Conv, ConvTranspose or Gemm before it.",
	sweep: each(at(`
		x = Conv|ConvTranspose|Gemm(a, w, b?)
		y = BatchNormalization(x, const scale, const offset, const mean, const var)`, foldBatchNorm)),
}

func foldBatchNorm(c *Context, m *pattern.Match) (*Patch, error) {
	mul, add, err := batchNorm(c, m)
	if err != nil {
		return nil, err
	}
	l, err := c.linear(m.Node("x"))
	if err != nil {
		return nil, err
	}
	if len(mul) != l.as.Out {
		return nil, decline("statistics of %d channels after %d output channels", len(mul), l.as.Out)
	}
	p := &Patch{What: "BatchNormalization into the weights of " + l.n.Op}
	if err := l.affine(c, p, mul, add, m.Value("y")); err != nil {
		return nil, err
	}
	p.Drop(m.Root)
	return p, nil
}

// batchNorm returns factor and offset per channel of an inference normalization.
func batchNorm(c *Context, m *pattern.Match) (mul, add []float64, err error) {
	n := c.G.Node(m.Root)
	opset := c.G.Opset("")
	switch {
	case n.Trains(opset):
		return nil, nil, decline("training mode")
	case !n.PerChannelInference(opset):
		return nil, nil, decline("statistics per element (spatial is 0)")
	}
	var params [4][]float64
	for i, name := range []string{"scale", "offset", "mean", "var"} {
		t := c.G.Const(m.Value(name))
		v, ok := float64s(t)
		if !ok || len(t.Shape) != 1 || i > 0 && len(v) != len(params[0]) {
			return nil, nil, decline("%s is %s", name, t.Type())
		}
		params[i] = v
	}
	epsilon := n.Epsilon()
	mul, add = make([]float64, len(params[0])), make([]float64, len(params[0]))
	for i := range mul {
		mul[i] = params[0][i] / math.Sqrt(params[3][i]+epsilon)
		add[i] = params[1][i] - params[2][i]*mul[i]
		if math.IsNaN(mul[i]) || math.IsInf(mul[i], 0) || math.IsNaN(add[i]) || math.IsInf(add[i], 0) {
			return nil, nil, decline("the statistics of channel %d give no finite factor", i)
		}
	}
	return mul, add, nil
}

// LoneBatchNorm writes a normalization that has no weights before it as a product and a sum with constants, which is right for any
// number of spatial axes and lets neighbours fold them.
var LoneBatchNorm = Pass{
	Name:  "lone-batch-norm",
	Doc:   "Writes a BatchNormalization that cannot be folded as Mul and Add with constants.",
	sweep: each(at("y = BatchNormalization(x, const scale, const offset, const mean, const var)", loneBatchNorm)),
}

// maxCancellation bounds, relative to the size of the results, the terms whose difference they are: x*f and mean*f. The
// original subtracts the mean first; beyond 64 the sum of rounded terms would lose more than the 1e-5 passes may cost.
const maxCancellation = 64

func loneBatchNorm(c *Context, m *pattern.Match) (*Patch, error) {
	mul, add, err := batchNorm(c, m)
	if err != nil {
		return nil, err
	}
	x := m.Value("x")
	rank, ok := pattern.Rank(c.G, x)
	if !ok || rank < 2 {
		return nil, decline("the rank of %q is not known", c.G.Value(x).Name)
	}
	scale, _ := float64s(c.G.Const(m.Value("scale")))
	offset, _ := float64s(c.G.Const(m.Value("offset")))
	result, term := 0.0, 0.0
	for i := range mul {
		result = max(result, math.Abs(scale[i])+math.Abs(offset[i]))
		term = max(term, math.Abs(add[i]-offset[i]))
	}
	if term > maxCancellation*result {
		return nil, decline("the means are large against the deviations: as a sum it would lose digits")
	}
	n := c.G.Node(m.Root)
	shape := make([]int, rank-1)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = len(mul)
	p := &Patch{What: "BatchNormalization as Mul and Add"}
	y := m.Value("y")
	product := p.Temp(n.Name+"/Mul", y)
	p.Drop(m.Root)
	p.Add(graph.Node{Name: n.Name + "/Mul", Op: "Mul", Outputs: []graph.ValueID{product},
		Inputs: []graph.ValueID{x, p.Const(c.G.Value(m.Value("scale")).Name, constant(mul, shape))}})
	p.Add(graph.Node{Name: n.Name, Op: "Add", Doc: n.Doc, Outputs: []graph.ValueID{y},
		Inputs: []graph.ValueID{product, p.Const(c.G.Value(m.Value("offset")).Name, constant(add, shape))}})
	return p, nil
}

func constant(v []float64, shape []int) *tensor.Tensor {
	return round(v, append([]int(nil), shape...)...)
}
