package rewrite

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// matrix is the constant weight of a Conv, ConvTranspose, Gemm or MatMul, seen as output by input channels.
type matrix struct {
	graph.Linear
	n       *graph.Node
	data    int // input that the channels come in at
	at      int // input that the weight stands at
	weight  *tensor.Tensor
	inAxis  int // of the data, -1 where its rank is not known
	outAxis int // of the result
}

// matrixOf reads a node; the error says why it is none.
func matrixOf(g *graph.Graph, id graph.NodeID) (*matrix, error) {
	n := g.Node(id)
	m := &matrix{n: n, at: 1, inAxis: 1, outAxis: 1}
	if !n.IsONNX() {
		return nil, fmt.Errorf("%s has no weight that is known", n.Op)
	}
	if n.Op == "MatMul" && g.Const(n.Input(1)) == nil {
		m.data, m.at = 1, 0
	}
	m.weight = g.Const(n.Input(m.at))
	if spec := n.Spec(); spec == nil || spec.OutAxis == nil {
		return nil, fmt.Errorf("%s has no weight", n.Op)
	}
	if m.weight == nil || m.weight.DType != tensor.Float32 || len(m.weight.Shape) < 2 || g.Const(n.Input(m.data)) != nil {
		return nil, fmt.Errorf("the weight of %s is not one float32 constant", n.Op)
	}
	m.weight = m.weight.ToRowMajor()
	s := m.weight.Shape
	l, ok := graph.LinearOf(n, m.at, s)
	if !ok {
		return nil, fmt.Errorf("weight %s in %d groups", m.weight.Type(), n.Conv().Group)
	}
	m.Linear = l
	switch {
	case n.Gemm().TransA:
		m.inAxis = 0
	case n.Op == "MatMul":
		x, y := g.Value(n.Input(m.data)).Shape, g.Value(n.Output(0)).Shape
		if len(s) != 2 || len(x) < 2 || len(y) != len(x) {
			return nil, fmt.Errorf("MatMul of %s by %s", x, m.weight.Type())
		}
		m.inAxis, m.outAxis = len(x)-1-m.data, len(x)-1-m.data
	case n.Op == "Gemm" && g.GemmRank(n) > 2:
		m.inAxis, m.outAxis = g.GemmRank(n)-1, g.GemmRank(n)-1
	}
	return m, nil
}

// bias is the constant bias, nil where there is none; false where it is computed, or cannot be multiplied by channels.
func (m *matrix) bias(g *graph.Graph) (*tensor.Tensor, bool) {
	v := m.n.Input(2)
	if m.n.Op == "MatMul" || v == graph.NoValue {
		return nil, true
	}
	t := g.Const(v)
	if t == nil || t.DType != tensor.Float32 {
		return nil, false
	}
	return t, t.Len() == 1 || len(t.Shape) > 0 && t.Shape[len(t.Shape)-1] == m.Out
}

// scaleWeight multiplies the weight by the factors of its output and of its input channels; nil is all ones.
func (m *matrix) scaleWeight(g *graph.Graph, out, in []float64) error {
	w := tensor.New(tensor.Float32, m.weight.Shape...)
	src, dst := m.weight.F32(), w.F32()
	m.Each(func(lo, hi, o, i int) {
		f := 1.0
		if out != nil {
			f = out[o]
		}
		if in != nil {
			f *= in[i]
		}
		for k := lo; k < hi; k++ {
			dst[k] = float32(float64(src[k]) * f)
		}
	})
	if err := checkFinite(w); err != nil {
		return err
	}
	g.OwnConst(m.n.ID, m.at, w)
	return nil
}

// scaleVector multiplies a constant input along its last axis, or along axis 0 of a vector; one number becomes a vector.
func scaleVector(g *graph.Graph, id graph.NodeID, input int, f []float64) error {
	t := g.Const(g.Node(id).Input(input)).ToRowMajor()
	shape := t.Shape
	if t.Len() == 1 {
		shape = []int{len(f)}
	}
	out := tensor.New(tensor.Float32, shape...)
	for i := range out.F32() {
		out.F32()[i] = float32(float64(t.F32()[i%t.Len()]) * f[i%len(f)])
	}
	if err := checkFinite(out); err != nil {
		return err
	}
	g.OwnConst(id, input, out)
	return nil
}

// checkFinite refuses a tensor that left the range of float32.
func checkFinite(t *tensor.Tensor) error {
	for _, x := range t.F32() {
		if x-x != 0 {
			return fmt.Errorf("a constant %s would leave the range of float32", t.Type())
		}
	}
	return nil
}
