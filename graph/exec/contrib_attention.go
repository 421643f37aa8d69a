package exec

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// microsoftAttentionEvals are ONNX Runtime's own forms of attention, in float32. They compute with attending, as Attention of
// ONNX does, and differ in where queries, keys, values and masks come from.
var microsoftAttentionEvals = []evaluator{
	{op: "Attention", build: buildFusedAttention},
	{op: "MultiHeadAttention", build: buildMultiHead},
	{op: "RotaryEmbedding", build: buildTableRotary},
	{op: "GroupQueryAttention", build: buildGroupQuery},
}

// microsoftAttention reads the attributes that these have in common.
func microsoftAttention(n *graph.Node) (*attention, error) {
	a := &attention{scale: float64(n.AttrFloat("scale", 0)), left: -1, right: -1, flat: int(n.AttrInt("num_heads", 0)),
		causal: n.AttrInt("unidirectional", 0) != 0}
	if a.flat < 1 || a.flat > math.MaxInt32 || math.IsNaN(a.scale) {
		return nil, fmt.Errorf("num_heads %d, scale %g", a.flat, a.scale)
	}
	a.flatShared = a.flat
	return a, nil
}

// maskedScore is what is added to scores that a mask of integers hides, unless attribute mask_filter_value says otherwise.
const maskedScore = -10000

// buildFusedAttention has the inputs x, weights and bias of the projection to queries, keys and values, a mask of integers, past
// keys and values, and a mask that is added. Output 1 is all keys and values.
func buildFusedAttention(n *graph.Node, _ int64) (evalFunc, error) {
	a, err := microsoftAttention(n)
	if err != nil {
		return nil, err
	}
	if n.AttrInt("do_rotary", 0) != 0 || n.AttrInt("past_present_share_buffer", 0) != 0 || n.Input(6) != graph.NoValue {
		return nil, fmt.Errorf("do_rotary and past_present_share_buffer are not supported")
	}
	hidden, filter := attrInts(n, "qkv_hidden_sizes"), n.AttrFloat("mask_filter_value", maskedScore)
	return func(c *call) error {
		if err := c.float32s(0, 1, 2, 4, 5); err != nil {
			return err
		}
		r := &attending[float32]{attention: a, c: c, heads: a.flat, shared: a.flat}
		if err := r.project(hidden); err != nil {
			return err
		}
		if err := r.stackPast(); err != nil {
			return err
		}
		return r.finish(3, filter, 5)
	}, nil
}

// project computes queries, keys and values of inputs 0 to 2. hidden are their widths, thirds of the weights' unless given.
func (r *attending[T]) project(hidden []int) error {
	c := r.c
	x, w := c.in(0), c.in(1)
	if len(x.Shape) != 3 || len(w.Shape) != 2 || w.Shape[0] != x.Shape[2] {
		return fmt.Errorf("input %s and weights %s", x.Type(), w.Type())
	}
	cols := w.Shape[1]
	if hidden == nil {
		hidden = []int{cols / 3, cols / 3, cols / 3}
	}
	if len(hidden) != 3 || slices.Min(hidden) < r.heads || hidden[0]+hidden[1]+hidden[2] != cols || hidden[0] != hidden[1] ||
		hidden[0]%r.heads != 0 || hidden[2]%r.heads != 0 {
		return fmt.Errorf("%v columns of weights %s for %d heads", hidden, w.Type(), r.heads)
	}
	r.batch, r.queries, r.total = x.Shape[0], x.Shape[1], x.Shape[1]
	r.size, r.width = hidden[0]/r.heads, hidden[2]/r.heads
	var ep kernels.Epilogue
	if bias := c.in(2); bias != nil {
		if bias.Len() != cols {
			return fmt.Errorf("bias %s for %d columns", bias.Type(), cols)
		}
		ep.Bias = bias.F32()
	}
	all, err := c.scratch(r.batch * r.queries * cols)
	if err != nil {
		return err
	}
	c.packB(w, w.Shape[0], cols, false).Run(c.run.s.par, all, cols, x.F32(), w.Shape[0], r.batch*r.queries, ep)
	part := func(from, size int) headRows[T] {
		return headRows[T]{any(all[min(from, len(all)):]).([]T), r.queries * cols, size, cols}
	}
	r.q, r.k, r.v = part(0, r.size), part(hidden[0], r.size), part(hidden[0]+hidden[1], r.width)
	return nil
}

// stackPast puts past keys and values, input 4, before the present ones: [2, batch, heads, length, size], as output 1 is.
func (r *attending[T]) stackPast() error {
	c := r.c
	past := c.in(4)
	if past == nil && !c.wants(1) {
		return nil
	}
	if r.size != r.width {
		return fmt.Errorf("past keys of size %d with values of size %d", r.size, r.width)
	}
	if past != nil {
		if len(past.Shape) != 5 || !slices.Equal(past.Shape, []int{2, r.batch, r.heads, past.Shape[3], r.size}) {
			return fmt.Errorf("input 4 is %s, should be [2,%d,%d,past,%d]", past.Type(), r.batch, r.heads, r.size)
		}
		r.past = past.Shape[3]
	}
	r.total += r.past
	shape := []int{2, r.batch, r.heads, r.total, r.size}
	var t *tensor.Tensor
	var err error
	if c.wants(1) {
		t, err = c.outAs(1, tensor.Float32, shape, tensor.RowMajor)
	} else {
		t, _, err = c.run.mem.alloc(tensor.Float32, shape, tensor.RowMajor)
	}
	if err != nil {
		return err
	}
	if past != nil {
		move{shape: past.Shape, dst: rowStrides(shape), src: rowStrides(past.Shape)}.run(c.parallel, t.Data, past.Data)
	}
	half := t.Len() / 2
	for i, h := range []*headRows[T]{&r.k, &r.v} {
		move{shape: []int{r.batch, r.heads, r.queries, r.size}, dst: rowStrides(shape)[1:], dstOff: i*half + r.past*r.size,
			src: []int{h.batch, h.head, h.row, 1}}.run(c.parallel, t.Data, h.data)
		*h = headRows[T]{tensor.Of[T](t)[i*half:], r.heads * r.total * r.size, r.total * r.size, r.size}
	}
	return nil
}

// finish adds the mask of integers in input keys, which is -1 where there is none, and the mask in input bias, and computes output 0.
func (r *attending[T]) finish(keys int, filter float32, bias int) error {
	if r.scale = T(r.attention.scale); r.scale == 0 {
		r.scale = T(1 / math.Sqrt(float64(r.size)))
	}
	if keys >= 0 {
		if err := r.addKeyMask(keys, filter); err != nil {
			return err
		}
	}
	if err := r.addMask(bias); err != nil {
		return err
	}
	y, err := r.c.outAs(0, tensor.Float32, []int{r.batch, r.queries, r.heads * r.width}, tensor.RowMajor)
	if err != nil {
		return err
	}
	r.compute(y)
	return nil
}

// addKeyMask makes a mask of input i: by sample how many keys count, [batch]; where they end and where they begin, [2*batch]; or
// which of them count, [batch, total] or [batch, queries, total]. What does not count has filter added to its score.
func (r *attending[T]) addKeyMask(i int, filter float32) error {
	m := r.c.in(i)
	if m == nil {
		return nil
	}
	at, err := ints(m)
	if err != nil {
		return err
	}
	rows := 1
	var counts func(b, row, key int) bool
	switch s := m.Shape; {
	case slices.Equal(s, []int{r.batch}):
		counts = func(b, _, key int) bool { return key < at[b] }
	case slices.Equal(s, []int{2 * r.batch}):
		counts = func(b, _, key int) bool { return key < at[b] && key >= at[r.batch+b] }
	case slices.Equal(s, []int{r.batch, r.total}):
		counts = func(b, _, key int) bool { return at[b*r.total+key] > 0 }
	case slices.Equal(s, []int{r.batch, r.queries, r.total}):
		rows = r.queries
		counts = func(b, row, key int) bool { return at[(b*rows+row)*r.total+key] > 0 }
	default:
		return fmt.Errorf("mask %s of %d samples, %d queries and %d keys is not supported", m.Type(), r.batch, r.queries, r.total)
	}
	t, _, err := r.c.run.mem.alloc(tensor.Float32, []int{r.batch, 1, rows, r.total}, tensor.RowMajor)
	if err != nil {
		return err
	}
	add := t.F32()
	for at := range add {
		if add[at] = 0; !counts(at/r.total/rows, at/r.total%rows, at%r.total) {
			add[at] = filter
		}
	}
	mask := scoreMask{t: t, steps: [3]int{rows * r.total}}
	if rows > 1 {
		mask.steps[2] = r.total
	}
	r.masks = append(r.masks, mask)
	return nil
}

// float32s demands that those of the inputs that are present are float32.
func (c *call) float32s(inputs ...int) error {
	for _, i := range inputs {
		if t := c.raw(i); t != nil && t.DType != tensor.Float32 {
			return badType(i, t.DType)
		}
	}
	return nil
}
