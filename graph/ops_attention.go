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
	inDomain("com.microsoft", OpSpec{Name: "Attention", Doc: "projection to q, k and v, and attention", Since: 1, Kind: KindComputing,
		MinIn: 2, In: []Socket{SocketData, SocketData, SocketData, SocketFloat}, Infer: inferFusedAttention}),
	inDomain("com.microsoft", OpSpec{Name: "MultiHeadAttention", Doc: "attention of q, k and v that are projected already",
		Since: 1, Kind: KindComputing, MinIn: 1, In: []Socket{SocketData, SocketData, SocketData, SocketFloat},
		Infer: inferMultiHead}),
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

func attentionMACs(c *InferCtx) int64 {
	d, err := attentionSizes(c)
	if err != nil {
		return macUnknown
	}
	both := addElems(d.size.elem(), d.valueSize.elem()).dim()
	return macProduct(Shape{d.batch, d.heads, d.queries, d.total, both}, false)
}

// inferFusedAttention: weights are [in, q+k+v], the widths equal unless qkv_hidden_sizes says so.
func inferFusedAttention(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	x, w := c.Shape(0), c.Shape(1)
	if x == nil || w == nil {
		return nil
	}
	if len(x) != 3 || len(w) != 2 {
		return fmt.Errorf("input %s and weights %s", x, w)
	}
	width := divElems(w[1].elem(), known(3)).dim()
	if sizes := c.Node.AttrInts("qkv_hidden_sizes"); len(sizes) == 3 && sizes[2] >= 0 {
		width = Dim{N: sizes[2]}
	}
	c.SetOut(0, c.DType(0), Shape{x[0], x[1], width})
	return nil
}

// inferMultiHead: the output has the width of v; packed forms are left open.
func inferMultiHead(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	if q, v := c.Shape(0), c.Shape(2); len(q) == 3 && len(v) == 3 {
		y := slices.Clone(q)
		y[2] = v[2]
		c.SetOut(0, c.DType(0), y)
	}
	return nil
}
