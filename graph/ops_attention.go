package graph

import (
	"fmt"
	"slices"
)

var attentionOps = []OpSpec{
	{Name: "Attention", Doc: "softmax(q*k' * scale + mask) * v per head", Since: 23, Kind: KindComputing, MinIn: 3,
		In:    []Socket{SocketData, SocketData, SocketData, SocketFloat, SocketData, SocketData, SocketIndex},
		Infer: inferAttention, MACs: attentionMACs},
	{Name: "RotaryEmbedding", Doc: "pairs of features rotated by position", Since: 23, Kind: KindOther, MinIn: 3,
		In: []Socket{SocketData, SocketFloat, SocketFloat, SocketIndex}, Infer: inferSame},
	{Name: "TensorScatter", Doc: "a cache with an update written into it", Since: 24, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketData, SocketIndex}, Infer: inferSame},
	{Name: "SwiGLU", Doc: "a * Sigmoid(alpha*a) * b", Since: 28, Kind: KindElementwise, MinIn: 2, Infer: inferTwins},
	microsoft(OpSpec{Name: "Attention", Doc: "projection to q, k and v, and attention", Since: 1, Kind: KindComputing,
		MinIn: 2, In: []Socket{SocketData, SocketData, SocketData, SocketIndex, SocketData, SocketFloat, SocketIndex},
		Infer: inferFusedAttention}),
	microsoft(OpSpec{Name: "MultiHeadAttention", Doc: "attention of q, k and v that are projected already",
		Since: 1, Kind: KindComputing, MinIn: 1,
		In:    []Socket{SocketData, SocketData, SocketData, SocketData, SocketIndex, SocketFloat, SocketData, SocketData},
		Infer: inferMultiHead}),
	microsoft(OpSpec{Name: "RotaryEmbedding", Doc: "pairs of features rotated by position", Since: 1, Kind: KindOther,
		MinIn: 4, In: []Socket{SocketData, SocketIndex, SocketFloat, SocketFloat}, Infer: inferSame}),
	microsoft(OpSpec{Name: "GroupQueryAttention", Doc: "attention of a decoder with a cache of keys and values", Since: 1,
		Kind: KindComputing, MinIn: 1, In: []Socket{SocketData, SocketData, SocketData, SocketData, SocketData, SocketIndex, SocketIndex,
			SocketFloat, SocketFloat, SocketIndex, SocketFloat}, Infer: inferGroupQuery}),
}

// inferTwins: two inputs of one shape, and so is the output.
func inferTwins(c *InferCtx) error {
	a, b := c.Shape(0), c.Shape(1)
	if a != nil && b != nil && !sameShape(a, b) {
		return fmt.Errorf("inputs %s and %s differ", a, b)
	}
	return inferSame(c)
}

// attentionDims are the sizes of an Attention: total is the length of the keys with the past.
type attentionDims struct{ batch, heads, kvHeads, queries, total, size, valueSize Dim }

// attentionSizes reads q, k and v: [batch, heads, length, size], or [batch, length, heads*size] with q_num_heads and
// kv_num_heads. Past keys are always of rank 4.
func attentionSizes(c *InferCtx) (d attentionDims, err error) {
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	if len(q) != len(k) || len(k) != len(v) || len(q) != 3 && len(q) != 4 {
		return d, fmt.Errorf("q %s, k %s and v %s", q, k, v)
	}
	if len(q) == 3 {
		h, kv := c.Node.AttrInt("q_num_heads", 0), c.Node.AttrInt("kv_num_heads", 0)
		if h < 1 || kv < 1 {
			return d, fmt.Errorf("q_num_heads %d and kv_num_heads %d for q %s", h, kv, q)
		}
		d = attentionDims{q[0], Dim{N: h}, Dim{N: kv}, q[1], k[1], divElems(q[2].elem(), known(h)).dim(), divElems(v[2].elem(), known(kv)).dim()}
	} else {
		d = attentionDims{q[0], q[1], k[1], q[2], k[2], q[3], v[3]}
	}
	if past := c.Shape(4); len(past) == 4 {
		d.total = addElems(d.total.elem(), past[2].elem()).dim()
	} else if c.Has(4) {
		d.total = unknownDim
	}
	return d, nil
}

func inferAttention(c *InferCtx) error {
	for i := range 4 {
		c.SetOut(i, c.DType(0), nil)
	}
	if c.Shape(0) == nil || c.Shape(1) == nil || c.Shape(2) == nil {
		return nil
	}
	d, err := attentionSizes(c)
	if err != nil {
		return err
	}
	y := Shape{d.batch, d.heads, d.queries, d.valueSize}
	if len(c.Shape(0)) == 3 {
		y = Shape{d.batch, d.queries, mulElems(d.heads.elem(), d.valueSize.elem()).dim()}
	}
	c.SetOut(0, c.DType(0), y)
	c.SetOut(1, c.DType(1), Shape{d.batch, d.kvHeads, d.total, d.size})
	c.SetOut(2, c.DType(2), Shape{d.batch, d.kvHeads, d.total, d.valueSize})
	c.SetOut(3, c.DType(0), Shape{d.batch, d.heads, d.queries, d.total})
	return nil
}

func attentionMACs(c *InferCtx) Shape {
	d, err := attentionSizes(c)
	if err != nil {
		return nil
	}
	both := addElems(d.size.elem(), d.valueSize.elem()).dim()
	return Shape{d.batch, d.heads, d.queries, d.total, both}
}

// inferFusedAttention: weights are [in, q+k+v], the widths equal unless qkv_hidden_sizes says so. Past and present are
// [2, batch, heads, length, size].
func inferFusedAttention(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	c.SetOut(1, c.DType(0), nil)
	x, w := c.Shape(0), c.Shape(1)
	if x == nil || w == nil {
		return nil
	}
	if len(x) != 3 || len(w) != 2 {
		return fmt.Errorf("input %s and weights %s", x, w)
	}
	keys := divElems(w[1].elem(), known(3)).dim()
	width := keys
	if sizes := c.Node.AttrInts("qkv_hidden_sizes"); len(sizes) == 3 && sizes[0] >= 0 && sizes[2] >= 0 {
		keys, width = Dim{N: sizes[0]}, Dim{N: sizes[2]}
	}
	c.SetOut(0, c.DType(0), Shape{x[0], x[1], width})
	if heads := c.Node.AttrInt("num_heads", 0); heads > 0 {
		size := divElems(keys.elem(), known(heads)).dim()
		c.SetOut(1, c.DType(0), Shape{{N: 2}, x[0], {N: heads}, afterPast(c, 4, 3, x[1]), size})
	}
	return nil
}

// afterPast returns length plus axis of input past, if that is present.
func afterPast(c *InferCtx, past, axis int, length Dim) Dim {
	if !c.Has(past) {
		return length
	}
	if s := c.Shape(past); len(s) > axis {
		return addElems(s[axis].elem(), length.elem()).dim()
	}
	return unknownDim
}

// inferMultiHead: the output has the width of v; packed forms are left open.
func inferMultiHead(c *InferCtx) error {
	for i := range 3 {
		c.SetOut(i, c.DType(0), nil)
	}
	q, v, heads := c.Shape(0), c.Shape(2), c.Node.AttrInt("num_heads", 0)
	if len(q) != 3 || heads < 1 {
		return nil
	}
	n := known(heads)
	present := func(i int) (s Shape) {
		switch in := c.Shape(i); len(in) {
		case 3:
			s = Shape{in[0], {N: heads}, in[1], divElems(in[2].elem(), n).dim()}
		case 4:
			s = slices.Clone(in)
		default:
			return nil
		}
		s[2] = afterPast(c, 5+i, 2, s[2])
		return s
	}
	c.SetOut(1, c.DType(0), present(1))
	c.SetOut(2, c.DType(0), present(2))
	switch len(v) {
	case 3:
		c.SetOut(0, c.DType(0), Shape{q[0], q[1], v[2]})
	case 4:
		c.SetOut(0, c.DType(0), Shape{q[0], q[1], mulElems(v[3].elem(), n).dim()})
	}
	return nil
}

// inferGroupQuery: queries are [batch, length, heads*size], with keys and values behind them where those are absent. How long the
// caches are is the value of an input.
func inferGroupQuery(c *InferCtx) error {
	if !c.Has(5) || !c.Has(6) {
		return fmt.Errorf("inputs 5 and 6, the numbers of keys, are missing")
	}
	for i := range 3 {
		c.SetOut(i, c.DType(0), nil)
	}
	q, heads, kv := c.Shape(0), c.Node.AttrInt("num_heads", 0), c.Node.AttrInt("kv_num_heads", 0)
	if q == nil {
		return nil
	}
	if len(q) != 3 || heads < 1 || kv < 1 || heads > maxHeads || kv > maxHeads {
		return fmt.Errorf("queries %s for num_heads %d, kv_num_heads %d", q, heads, kv)
	}
	y, size := q[2], divElems(q[2].elem(), known(heads)).dim()
	if !c.Has(1) {
		size = divElems(q[2].elem(), known(heads+2*kv)).dim()
		y = mulElems(size.elem(), known(heads)).dim()
	}
	c.SetOut(0, c.DType(0), Shape{q[0], q[1], y})
	for i := 1; i <= 2; i++ {
		c.SetOut(i, c.DType(0), Shape{q[0], {N: kv}, unknownDim, size})
	}
	return nil
}

// maxHeads bounds attributes that count heads.
const maxHeads = 1 << 20
