package passes

import (
	"math"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// linear is a Conv, ConvTranspose, Gemm or MatMul with constant weights, seen as y[o] = sum over i of w[o,i] x[i] + b[o].
type linear struct {
	id     graph.NodeID
	n      *graph.Node
	weight *tensor.Tensor
	input  int          // which input of the node is x; the other of the first two is the weight
	bias   []float64    // one per output channel, nil if there is none (MatMul: always); Gemm: times beta
	as     graph.Linear // how the weight multiplies
}

// linear reads a node. The reason is a decline if the node is of the right kind but cannot take a fold.
func (c *Context) linear(id graph.NodeID) (*linear, error) {
	n := c.G.Node(id)
	l := &linear{id: id, n: n}
	if n.Op == "MatMul" && c.G.Const(n.Input(1)) == nil {
		l.input = 1
	}
	l.weight = c.G.Const(n.Input(1 - l.input))
	switch {
	case l.weight == nil:
		return nil, decline("the weights are not constant")
	case l.weight.DType != tensor.Float32:
		return nil, decline("the weights are %s; only float32 is folded", l.weight.Type())
	case len(l.weight.Shape) < 2:
		return nil, decline("the weights %s are a vector", l.weight.Type())
	}
	l.weight = l.weight.ToRowMajor()
	var ok bool
	if l.as, ok = graph.LinearOf(n, 1-l.input, l.weight.Shape); !ok {
		return nil, decline("weights %s cannot be split into %d groups", l.weight.Type(), n.Conv().Group)
	}
	if n.Op != "MatMul" && n.Input(2) != graph.NoValue {
		return l, l.readBias(c.G.Const(n.Input(2)))
	}
	return l, nil
}

func (l *linear) readBias(t *tensor.Tensor) error {
	if t == nil {
		return decline("the bias is not constant")
	}
	if t.DType != tensor.Float32 {
		return decline("the bias is %s; only float32 is folded", t.Type())
	}
	rank, beta := 1, 1.0
	if l.n.Op == "Gemm" {
		rank, beta = max(2, len(t.Shape)), float64(l.n.Gemm().Beta)
	}
	v, err := alongAxis(t, rank, rank-1, l.as.Out)
	if err != nil {
		return err
	}
	l.bias = make([]float64, l.as.Out)
	for o := range l.bias {
		l.bias[o] = beta * v[o%len(v)]
	}
	return nil
}

// outAxis returns rank and channel axis of the node's result; for MatMul the rank may be unknown (0).
func (l *linear) outAxis(c *Context) (rank, axis int) {
	switch l.n.Op {
	case "Gemm":
		rank = gemmRank(c.G, l.n)
		return rank, rank - 1
	case "MatMul":
		rank, _ = pattern.Rank(c.G, l.n.Outputs[0])
		if rank == 0 {
			rank, _ = pattern.Rank(c.G, l.n.Input(l.input))
			rank = matMulRank(rank, len(l.weight.Shape))
		}
		if l.input == 1 && rank > 0 && rank < len(l.weight.Shape) {
			return rank, rank - 1 // x is a vector, so that the rows are the last axis
		}
		return rank, rank - 1 - l.input
	}
	return len(l.weight.Shape), 1
}

// inAxis is outAxis for the operand x.
func (l *linear) inAxis(c *Context) (rank, axis int) {
	switch l.n.Op {
	case "Gemm":
		if l.n.Gemm().TransA {
			return 2, 0
		}
		rank = gemmRank(c.G, l.n)
		return rank, rank - 1
	case "MatMul":
		rank, _ = pattern.Rank(c.G, l.n.Input(l.input))
		return rank, rank - 1 - l.input
	}
	return len(l.weight.Shape), 1
}

// gemmRank is the rank of data and result of a Gemm: 2 where nothing else is known.
func gemmRank(g *graph.Graph, n *graph.Node) int {
	for _, v := range []graph.ValueID{n.Input(0), n.Outputs[0]} {
		if rank, ok := pattern.Rank(g, v); ok {
			return rank
		}
	}
	return 2
}

// matMulRank is the rank of a product of operands of rank a and b, 0 if one is unknown (0) or a vector.
func matMulRank(a, b int) int {
	if a < 2 || b < 2 {
		return 0
	}
	return max(a, b)
}

// scaled returns the weights times out[o] (or out[0]) times in[i] (or in[0]).
func (l *linear) scaled(out, in []float64) (*tensor.Tensor, error) {
	w := tensor.New(tensor.Float32, l.weight.Shape...)
	src, dst := l.weight.F32(), w.F32()
	one := []float64{1}
	if out == nil {
		out = one
	}
	if in == nil {
		in = one
	}
	l.as.Each(func(lo, hi, o, i int) {
		f := out[o%len(out)] * in[i%len(in)]
		for k := lo; k < hi; k++ {
			dst[k] = float32(float64(src[k]) * f)
		}
	})
	return w, finite(w)
}

// replace proposes the node with other weights and bias (nil: as they are), computing y instead of its own result.
func (l *linear) replace(c *Context, p *Patch, w *tensor.Tensor, bias []float64, y graph.ValueID) error {
	n := *l.n
	n.Inputs = append([]graph.ValueID(nil), l.n.Inputs...)
	n.Attrs = append([]graph.Attr(nil), l.n.Attrs...)
	if w != nil {
		n.Inputs[1-l.input] = p.Const(c.G.Value(l.n.Inputs[1-l.input]).Name, w)
	}
	if bias != nil {
		t := round(bias, len(bias))
		if err := finite(t); err != nil {
			return err
		}
		name := l.n.Name + ".bias"
		if v := l.n.Input(2); v != graph.NoValue {
			name = c.G.Value(v).Name
		}
		for len(n.Inputs) < 3 {
			n.Inputs = append(n.Inputs, graph.NoValue)
		}
		n.Inputs[2] = p.Const(name, t)
		n.DropAttr("beta")
	}
	n.Outputs = []graph.ValueID{y}
	p.Drop(l.id)
	p.Add(n)
	return nil
}

// affine folds y = y*mul + add, per output channel, into weights and bias; add may be nil.
func (l *linear) affine(c *Context, p *Patch, mul, add []float64, y graph.ValueID) error {
	var w *tensor.Tensor
	var err error
	if mul != nil {
		if w, err = l.scaled(mul, nil); err != nil {
			return err
		}
	}
	if l.bias == nil && add == nil {
		return l.replace(c, p, w, nil, y)
	}
	bias := make([]float64, l.as.Out)
	for o := range bias {
		if l.bias != nil {
			bias[o] = l.bias[o]
		}
		if mul != nil {
			bias[o] *= mul[o%len(mul)]
		}
		if add != nil {
			bias[o] += add[o%len(add)]
		}
	}
	return l.replace(c, p, w, bias, y)
}

// alongAxis reads a constant that is broadcast against a tensor of the given rank as a vector along axis, of n elements or one.
// rank 0 means unknown but at least 1; axis then counts from the end, and only -1 allows more than one element.
func alongAxis(t *tensor.Tensor, rank, axis, n int) ([]float64, error) {
	v, ok := float64s(t)
	if !ok {
		return nil, decline("the constant is %s; only float32 is folded", t.Type())
	}
	limit := rank
	if rank == 0 {
		limit, rank = 1, max(1, len(t.Shape))
		if axis == -1 {
			axis = rank - 1
		}
	}
	if len(t.Shape) > limit {
		return nil, decline("the constant %s may have more dimensions than what it meets", t.Type())
	}
	for i, d := range t.Shape {
		at := i + rank - len(t.Shape)
		switch {
		case d == 1:
		case at != axis:
			return nil, decline("the constant %s varies along axis %d, not only along the channels (axis %d)", t.Type(), at, axis)
		case d != n:
			return nil, decline("the constant %s does not fit %d channels", t.Type(), n)
		}
	}
	return v, nil
}

// float64s converts the elements of a float32 tensor, row-major.
func float64s(t *tensor.Tensor) ([]float64, bool) {
	if t == nil || t.DType != tensor.Float32 {
		return nil, false
	}
	src := t.ToRowMajor().F32()
	v := make([]float64, len(src))
	for i, x := range src {
		v[i] = float64(x)
	}
	return v, true
}

// round converts to float32.
func round(v []float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i, x := range v {
		t.F32()[i] = float32(x)
	}
	return t
}

// finite declines if an element is infinite or no number.
func finite(t *tensor.Tensor) error {
	for _, x := range t.F32() {
		if x != x || math.IsInf(float64(x), 0) {
			return decline("the folded constant would not be finite")
		}
	}
	return nil
}

// inverse returns 1/v, elementwise.
func inverse(v []float64) []float64 {
	inv := make([]float64, len(v))
	for i, x := range v {
		inv[i] = 1 / x
	}
	return inv
}
