package exec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/elementary"
)

// attentionEvals are attention and what stands around it in a decoder.
var attentionEvals = []evaluator{
	{op: "Attention", build: buildAttention},
	{op: "RotaryEmbedding", build: buildRotary},
	{op: "TensorScatter", build: buildTensorScatter},
	{op: "SwiGLU", build: buildSwiGLU},
}

// What the fourth output of Attention holds (qk_matmul_output_mode).
const (
	scoresScaled = iota // Q*K' * scale
	scoresCapped        // after softcap
	scoresBiased        // after the mask
	scoresSoft          // after the softmax
)

// attention is softmax(softcap(Q*K' * scale) + mask) * V per head. A head of K and V serves heads/kvHeads heads of Q. Products
// are those of MatMul, rows of the softmax those of Softmax; a row in which everything is masked is 0.
type attention struct {
	scale            float64 // 0 is 1/sqrt(size)
	softcap          float64 // 0 is none
	causal           bool
	left, right      int // how far back and ahead a query looks, -1 is without limit
	mode             int
	flat, flatShared int       // heads of Q, and of K and V, where they have rank 3
	spare            sync.Pool // of []float32 and []float64: scores
}

func buildAttention(n *graph.Node, _ int64) (evalFunc, error) {
	a := &attention{
		scale: float64(n.AttrFloat("scale", 0)), softcap: float64(n.AttrFloat("softcap", 0)),
		causal: n.AttrInt("is_causal", 0) != 0, mode: int(n.AttrInt("qk_matmul_output_mode", 0)),
		left: int(min(n.AttrInt("left_window_size", -1), maxElements)), right: int(min(n.AttrInt("right_window_size", -1), maxElements)),
		flat: int(n.AttrInt("q_num_heads", 0)), flatShared: int(n.AttrInt("kv_num_heads", 0)),
	}
	if a.mode < scoresScaled || a.mode > scoresSoft {
		return nil, fmt.Errorf("qk_matmul_output_mode %d", a.mode)
	}
	if !(a.softcap >= 0) || math.IsNaN(a.scale) || a.left < -1 || a.right < -1 {
		return nil, fmt.Errorf("scale %g, softcap %g, left_window_size %d, right_window_size %d", a.scale, a.softcap, a.left, a.right)
	}
	switch d := tensor.DType(n.AttrInt("softmax_precision", int64(tensor.Float32))); d {
	case tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16: // rows are summed in float64 whatever it says
	default:
		return nil, fmt.Errorf("softmax_precision %s", d)
	}
	return func(c *call) error {
		return c.inFloat(3, func() error { return attend[float32](c, a) }, func() error { return attend[float64](c, a) })
	}, nil
}

// headRows is Q, K, V or Y: where the row of a head and a position begins.
type headRows[T float] struct {
	data             []T
	batch, head, row int // strides
}

func (h headRows[T]) at(b, head, row int) []T { return h.data[b*h.batch+head*h.head+row*h.row:] }

// headsOf reads [batch, heads, length, size], or [batch, length, heads*size].
func headsOf[T float](t *tensor.Tensor, count int) (h headRows[T], length, size int) {
	h.data = tensor.Of[T](t)
	if len(t.Shape) == 4 {
		length, size = t.Shape[2], t.Shape[3]
		return headRows[T]{h.data, count * length * size, length * size, size}, length, size
	}
	length, size = t.Shape[1], t.Shape[2]/count
	return headRows[T]{h.data, length * count * size, size, count * size}, length, size
}

// attending is one run of an attention.
type attending[T float] struct {
	*attention
	c                           *call
	batch, heads, shared        int
	queries, total, size, width int // width is the size of a head of V
	q, k, v, y                  headRows[T]
	scale                       T
	past                        int   // keys before those of K
	valid                       []int // by sample, how many keys are not padding; nil is all
	first                       []int // by sample, the position of its first query among the keys; nil: see position
	masks                       []scoreMask
	scores                      []T // output 3, nil if nobody wants it
}

// scoreMask is what is added to scores, or with bool, which of them count. Keys beyond its last axis are masked.
type scoreMask struct {
	t     *tensor.Tensor
	steps [3]int // along sample, head and query
}

func attend[T float](c *call, a *attention) error {
	r := &attending[T]{attention: a, c: c}
	if err := r.open(); err != nil {
		return err
	}
	if err := r.addMask(3); err != nil {
		return err
	}
	y, err := c.out(0)
	if err != nil {
		return err
	}
	if c.wants(3) {
		t, err := c.out(3)
		if err != nil {
			return err
		}
		r.scores = tensor.Of[T](t)
	}
	r.compute(y)
	return nil
}

// compute writes y, and the scores where they are wanted.
func (r *attending[T]) compute(y *tensor.Tensor) {
	c := r.c
	r.y, _, _ = headsOf[T](y, r.heads)
	if r.total == 0 {
		clear(r.y.data)
		return
	}
	if y.Len() == 0 && len(r.scores) == 0 {
		return
	}
	each := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			r.group(i/r.shared, i%r.shared, r.batch*r.shared >= manyProducts)
		}
	}
	if n := r.batch * r.shared; n >= manyProducts {
		c.parallel(n, r.heads/r.shared*r.queries*r.total*(r.size+r.width)/8, each)
	} else {
		each(0, n)
	}
}

// open reads the shapes of the inputs, and joins past and present keys and values.
func (r *attending[T]) open() error {
	c := r.c
	q, k, v := c.in(0), c.in(1), c.in(2)
	r.heads, r.shared = r.flat, r.flatShared
	if len(q.Shape) == 4 {
		r.heads, r.shared = q.Shape[1], k.Shape[1]
	}
	bad := func() error {
		return fmt.Errorf("queries %s, keys %s and values %s do not fit", q.Type(), k.Type(), v.Type())
	}
	if r.heads < 1 || r.shared < 1 || r.heads%r.shared != 0 {
		return fmt.Errorf("%d heads of Q for %d of K and V", r.heads, r.shared)
	}
	if q.Shape[0] != k.Shape[0] || k.Shape[0] != v.Shape[0] || len(q.Shape) == 4 && v.Shape[1] != r.shared ||
		len(q.Shape) == 3 && (q.Shape[2]%r.heads != 0 || k.Shape[2]%r.shared != 0 || v.Shape[2]%r.shared != 0) {
		return bad()
	}
	r.batch = q.Shape[0]
	var keys, values, keySize int
	r.q, r.queries, r.size = headsOf[T](q, r.heads)
	r.k, keys, keySize = headsOf[T](k, r.shared)
	r.v, values, r.width = headsOf[T](v, r.shared)
	if keys != values || keySize != r.size || r.size == 0 {
		return bad()
	}
	r.scale = T(r.attention.scale)
	if r.scale == 0 {
		r.scale = T(1 / math.Sqrt(float64(r.size)))
	}
	r.total = keys
	if c.has(4) != c.has(5) {
		return errors.New("past_key and past_value belong together")
	}
	if c.has(4) {
		r.past = c.in(4).Shape[min(2, len(c.in(4).Shape)-1)]
		r.total += r.past
	}
	var err error
	if r.k, err = r.present(1, 4, r.k, keys, r.size); err != nil {
		return err
	}
	if r.v, err = r.present(2, 5, r.v, keys, r.width); err != nil {
		return err
	}
	return r.openValid()
}

// openValid reads nonpad_kv_seqlen.
func (r *attending[T]) openValid() error {
	t := r.c.in(6)
	if t == nil {
		return nil
	}
	if r.c.has(4) {
		return errors.New("nonpad_kv_seqlen and past_key exclude each other")
	}
	var err error
	if r.valid, err = ints(t); err != nil {
		return err
	}
	if len(r.valid) != r.batch || slices.ContainsFunc(r.valid, func(n int) bool { return n < 0 || n > r.total }) {
		return fmt.Errorf("nonpad_kv_seqlen %v for %d samples of %d keys", r.valid, r.batch, r.total)
	}
	return nil
}

// present returns the keys or values h with those of input past, if there is one, before them. They are written to output out
// where it is wanted: [batch, heads, past+length, size].
func (r *attending[T]) present(out, past int, h headRows[T], length, size int) (headRows[T], error) {
	c := r.c
	if !c.has(past) && !c.wants(out) {
		return h, nil
	}
	shape := []int{r.batch, r.shared, r.total, size}
	if t := c.in(past); t != nil && (t.DType != c.raw(0).DType || !slices.Equal(t.Shape, []int{r.batch, r.shared, r.past, size})) {
		return h, fmt.Errorf("input %d is %s, should be %s", past, t.Type(),
			tensor.TypeString(c.raw(0).DType, []int{r.batch, r.shared, r.past, size}))
	}
	var t *tensor.Tensor
	var err error
	if c.wants(out) {
		t, err = c.outAs(out, c.raw(0).DType, shape, tensor.RowMajor)
	} else {
		t, _, err = c.run.mem.alloc(c.raw(0).DType, shape, tensor.RowMajor)
	}
	if err != nil {
		return h, err
	}
	rows := rowStrides(shape)
	if p := c.in(past); p != nil {
		part := []int{r.batch, r.shared, r.past, size}
		move{shape: part, dst: rows, src: rowStrides(part)}.run(c.parallel, t.Data, p.Data)
	}
	move{shape: []int{r.batch, r.shared, length, size}, dst: rows, dstOff: r.past * size,
		src: []int{h.batch, h.head, h.row, 1}}.run(c.parallel, t.Data, h.data)
	joined, _, _ := headsOf[T](t, r.shared)
	return joined, nil
}

// addMask reads a mask in input i: bool or of Q's type, broadcast to [batch, heads, queries, total]. Its last axis may be shorter.
func (r *attending[T]) addMask(i int) error {
	m := r.c.in(i)
	if m == nil {
		return nil
	}
	if m.DType != tensor.Bool && m.DType != r.c.raw(0).DType {
		return badType(i, m.DType)
	}
	full := []int{r.batch, r.heads, r.queries, r.total}
	rank := len(m.Shape)
	fits := rank >= 1 && rank <= 4 && m.Shape[rank-1] <= r.total
	for i := 0; fits && i < rank-1; i++ {
		fits = m.Shape[i] == 1 || m.Shape[i] == full[4-rank+i]
	}
	if !fits {
		return fmt.Errorf("mask %s for scores %s", m.Type(), tensor.TypeString(r.c.raw(0).DType, full))
	}
	mask := scoreMask{t: m}
	own := rowStrides(m.Shape)
	for i := range rank - 1 {
		if m.Shape[i] != 1 {
			mask.steps[4-rank+i] = own[i]
		}
	}
	r.masks = append(r.masks, mask)
	return nil
}

// tileElements is about how many scores are computed at once: few enough to stay in the cache between the two products.
const tileElements = 1 << 16

// group computes the heads of Q that share one head of K and V. alone says that others are computed at the same time.
func (r *attending[T]) group(b, shared int, alone bool) {
	c, par := r.c, r.c.run.s.par
	rows := min(r.queries, max(32, tileElements/r.total))
	if alone {
		par = nil
	} else {
		rows = min(r.queries, max(256, tileElements/r.total))
	}
	buf, _ := r.spare.Get().(*[]T)
	if buf == nil || len(*buf) < rows*r.total {
		fresh := make([]T, rows*r.total)
		buf = &fresh
	}
	var keys, values *factor[T]
	packed, each := 0, r.heads/r.shared
	for lo := 0; lo < r.queries; lo += rows {
		m := min(rows, r.queries-lo)
		if n := r.reach(b, lo, m); n != packed {
			if keys != nil {
				keys.drop(c)
				values.drop(c)
			}
			keys = newFactor(c, r.k.at(b, shared, 0), r.size, n, r.k.row, true)
			values = newFactor(c, r.v.at(b, shared, 0), n, r.width, r.v.row, false)
			packed = n
		}
		for h := shared * each; h < (shared+1)*each; h++ {
			s := (*buf)[:m*packed]
			keys.times(par, s, packed, r.q.at(b, h, lo), r.q.row, m)
			r.soften(s, packed, b, h, lo)
			values.times(par, r.y.at(b, h, lo), r.y.row, s, packed, m)
		}
	}
	if keys != nil {
		keys.drop(c)
		values.drop(c)
	}
	r.spare.Put(buf)
}

// leastReach is the least number of keys that are computed with at once.
const leastReach = 64

// reach returns how many keys m queries from lo on are computed with. Those behind the last one that any of them may look at have
// probabilities of 0, which add nothing, and are left out by quarters: each choice is packed anew.
func (r *attending[T]) reach(b, lo, m int) int {
	if r.scores != nil {
		return r.total
	}
	most := 1
	for i := lo; i < lo+m; i++ {
		_, to := r.window(b, i)
		most = max(most, to)
	}
	step := max(leastReach, (r.total+63)/64*16)
	return min(r.total, (most+step-1)/step*step)
}

// soften makes probabilities of the products of queries from lo on with the first n keys.
func (r *attending[T]) soften(s []T, n, b, h, lo int) {
	scaleBy(r.c, s, r.scale)
	r.show(scoresScaled, s, b, h, lo)
	if r.softcap > 0 {
		capAt(r.c, s, T(r.softcap))
	}
	r.show(scoresCapped, s, b, h, lo)
	ends := make([]int, len(s)/n)
	for i := range ends {
		ends[i] = r.hide(s[i*n:][:n], b, h, lo+i)
	}
	r.show(scoresBiased, s, b, h, lo)
	for i, end := range ends {
		row := s[i*n:][:n]
		if !slices.ContainsFunc(row[:end], func(v T) bool { return !math.IsInf(float64(v), -1) }) {
			end = 0
		}
		softRows(r.c, row[:end], end)
		clear(row[end:])
	}
	r.show(scoresSoft, s, b, h, lo)
}

// show copies the scores to output 3 if it is the one they are shown by.
func (r *attending[T]) show(mode int, s []T, b, h, lo int) {
	if r.scores != nil && r.mode == mode {
		copy(r.scores[((b*r.heads+h)*r.queries+lo)*r.total:], s)
	}
}

// hide adds the masks to the scores of one query, those of all keys or of the first ones, and returns behind which of them all are
// hidden.
func (r *attending[T]) hide(s []T, b, h, query int) int {
	from, to := r.window(b, query)
	to = min(to, len(s))
	none := T(math.Inf(-1))
	for _, mask := range r.masks {
		at := b*mask.steps[0] + h*mask.steps[1] + query*mask.steps[2]
		n := min(len(s), mask.t.Shape[len(mask.t.Shape)-1])
		to = min(to, n)
		switch m := mask.t.Data.(type) {
		case []bool:
			for j, take := range m[at:][:n] {
				if !take {
					s[j] = none
				}
			}
		case []T:
			for j, v := range m[at:][:n] {
				if s[j] += v; v == none { // whatever the score is, NaN too
					s[j] = none
				}
			}
		}
	}
	from = min(from, to)
	fill(s[:from], none)
	fill(s[to:], none)
	return to
}

// position returns where a query stands among the keys: after those of the past, or as one of the last of those that are not
// padding.
func (r *attending[T]) position(b, query int) int {
	switch {
	case r.first != nil:
		return r.first[b] + query
	case r.valid != nil:
		return query + r.valid[b] - r.queries
	}
	return query + r.past
}

// window returns the range of keys that a query may look at, whatever the masks say.
func (r *attending[T]) window(b, query int) (from, to int) {
	p, to := r.position(b, query), r.total
	if r.valid != nil {
		to = r.valid[b]
	}
	if r.causal {
		to = min(to, p+1)
	}
	if r.right >= 0 {
		to = min(to, p+r.right+1)
	}
	if r.left >= 0 {
		from = max(0, p-r.left)
	}
	to = max(to, 0)
	return min(from, to), to
}

func scaleBy[T float](c *call, s []T, scale T) {
	if s32, ok := any(s).([]float32); ok {
		c.run.s.table.MulScalar(s32, s32, float32(scale))
		return
	}
	for i := range s {
		s[i] *= scale
	}
}

// capAt is top*tanh(s/top).
func capAt[T float](c *call, s []T, top T) {
	if s32, ok := any(s).([]float32); ok {
		t := c.run.s.table
		t.DivScalar(s32, s32, float32(top))
		t.Tanh(s32, s32)
		t.MulScalar(s32, s32, float32(top))
		return
	}
	for i, v := range s {
		s[i] = T(float64(top) * elementary.Tanh(float64(v/top)))
	}
}

// softRows is the softmax of rows of n elements, in place.
func softRows[T float](c *call, s []T, n int) {
	if s32, ok := any(s).([]float32); ok {
		c.run.s.table.Softmax(nil, s32, s32, n)
		return
	}
	for ; len(s) > 0; s = s[n:] {
		top, sum := slices.Max(s[:n]), 0.0
		for i, v := range s[:n] {
			s[i] = T(elementary.Exp(float64(v - top)))
			sum += float64(s[i])
		}
		for i := range s[:n] {
			s[i] = T(float64(s[i]) / sum)
		}
	}
}
