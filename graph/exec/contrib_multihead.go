package exec

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// buildMultiHead has the inputs queries [batch, length, heads*size], keys and values (so too, or [batch, heads, length, size]), bias
// of all three, a mask of integers, a mask that is added, past keys and values. Outputs 1 and 2 are all keys and values.
func buildMultiHead(n *graph.Node, _ int64) (evalFunc, error) {
	a, err := microsoftAttention(n)
	if err != nil {
		return nil, err
	}
	switch {
	case n.Input(1) == graph.NoValue || n.Input(2) == graph.NoValue:
		return nil, errors.New("queries, keys and values in one input are not supported")
	case n.Input(8) != graph.NoValue || n.Input(9) != graph.NoValue:
		return nil, errors.New("past_sequence_length and cache_indirection are not supported")
	case len(n.Outputs) > 3 && n.Outputs[3] != graph.NoValue:
		return nil, errors.New("output qk is not supported")
	}
	filter := n.AttrFloat("mask_filter_value", maskedScore)
	return func(c *call) error {
		if err := c.float32s(0, 1, 2, 3, 5, 6, 7); err != nil {
			return err
		}
		r := &attending[float32]{attention: a, c: c, heads: a.flat, shared: a.flat}
		if err := r.openHeads(); err != nil {
			return err
		}
		return r.finish(4, filter, 5)
	}, nil
}

// openHeads reads queries, keys and values, adds their bias, and joins keys and values with those of the past.
func (r *attending[T]) openHeads() error {
	c := r.c
	var lengths, sizes [3]int
	var heads [3]headRows[T]
	for i := range heads {
		t := c.in(i)
		flat := len(t.Shape) == 3 && t.Shape[2]%r.heads == 0
		if !flat && (i == 0 || len(t.Shape) != 4 || t.Shape[1] != r.heads) || t.Shape[0] != c.raw(0).Shape[0] {
			return fmt.Errorf("input %d is %s for %d heads", i, t.Type(), r.heads)
		}
		heads[i], lengths[i], sizes[i] = headsOf[T](t, r.heads)
	}
	if sizes[0] == 0 || sizes[0] != sizes[1] || lengths[1] != lengths[2] {
		return fmt.Errorf("queries %s, keys %s and values %s do not fit", c.raw(0).Type(), c.raw(1).Type(), c.raw(2).Type())
	}
	r.batch, r.queries, r.total, r.size, r.width = c.raw(0).Shape[0], lengths[0], lengths[1], sizes[0], sizes[2]
	if bias := c.in(3); bias != nil {
		if bias.Len() != r.heads*(sizes[0]+sizes[1]+sizes[2]) {
			return fmt.Errorf("bias %s for %d heads of %v", bias.Type(), r.heads, sizes)
		}
		at := 0
		for i := range heads {
			n := r.heads * sizes[i]
			if len(c.in(i).Shape) == 3 { // others are projected and biased already
				sum, err := c.scratch(c.in(i).Len())
				if err != nil {
					return err
				}
				c.run.s.table.AddRow(sum, c.in(i).F32(), bias.F32()[at:][:n])
				heads[i].data = any(sum).([]T)
			}
			at += n
		}
	}
	if c.has(6) != c.has(7) {
		return errors.New("past_key and past_value belong together")
	}
	keys := r.total
	if t := c.in(6); t != nil {
		r.past = t.Shape[min(2, len(t.Shape)-1)]
		r.total += r.past
	}
	var err error
	r.q = heads[0]
	if r.k, err = r.present(1, 6, heads[1], keys, r.size); err != nil {
		return err
	}
	r.v, err = r.present(2, 7, heads[2], keys, r.width)
	return err
}

// buildTableRotary is RotaryEmbedding with the inputs x, positions ([batch, length], or the first one of all samples), and tables of
// cosines and sines by position.
func buildTableRotary(n *graph.Node, _ int64) (evalFunc, error) {
	r := rotary{n.AttrInt("interleaved", 0) != 0, int(n.AttrInt("rotary_embedding_dim", 0)), int(n.AttrInt("num_heads", 0))}
	if r.rotated < 0 || r.rotated%2 != 0 || r.heads < 0 {
		return nil, fmt.Errorf("rotary_embedding_dim %d, num_heads %d", r.rotated, r.heads)
	}
	if n.AttrInt("is_packed_batching", 0) != 0 || n.AttrFloat("scale", 1) != 1 {
		return nil, errors.New("is_packed_batching and scale are not supported")
	}
	return func(c *call) error {
		if err := c.float32s(0, 2, 3); err != nil {
			return err
		}
		x, cos, sin := c.in(0), c.in(2), c.in(3)
		if len(cos.Shape) != 2 || cos.Shape[1] < 1 || cos.Len() != sin.Len() {
			return fmt.Errorf("cosines %s and sines %s", cos.Type(), sin.Type())
		}
		r, half := r, cos.Shape[1]
		switch {
		case len(x.Shape) == 4:
			r.heads = x.Shape[1]
		case len(x.Shape) == 3 && r.heads == 0:
			r.heads = x.Shape[2] / (2 * half)
		}
		if len(x.Shape) < 3 || len(x.Shape) > 4 || r.heads < 1 || len(x.Shape) == 3 && x.Shape[2]%r.heads != 0 {
			return fmt.Errorf("%s for num_heads %d", x.Type(), r.heads)
		}
		src, length, size := headsOf[float32](x, r.heads)
		if r.rotated = 2 * half; r.rotated > size || c.node.AttrInt("rotary_embedding_dim", int64(r.rotated)) != int64(r.rotated) &&
			c.node.AttrInt("rotary_embedding_dim", 0) != 0 {
			return fmt.Errorf("cosines %s for %d features", cos.Type(), size)
		}
		at, err := c.positions(1, x.Shape[0], length, cos.Shape[0])
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		dst, _, _ := headsOf[float32](out, r.heads)
		turnHeads(c, r, dst, src, x.Shape[0], length, size, cos.F32(), sin.F32(), at)
		return nil
	}, nil
}

// positions reads the positions in input i, which tables of rows rows have.
func (c *call) positions(i, batch, length, rows int) (func(i int) int, error) {
	list, err := ints(c.in(i))
	if err != nil {
		return nil, err
	}
	at := func(k int) int { return list[k] }
	switch len(list) {
	case batch * length:
	case 1:
		at = func(k int) int { return list[0] + k%length }
	default:
		return nil, fmt.Errorf("positions %s for %d samples of length %d", c.in(i).Type(), batch, length)
	}
	return at, checkPositions(at, batch*length, rows)
}

// checkPositions demands that n positions are rows of a table.
func checkPositions(at func(i int) int, n, rows int) error {
	for i := range n {
		if p := at(i); p < 0 || p >= rows {
			return fmt.Errorf("position %d is outside of the %d in the tables", p, rows)
		}
	}
	return nil
}

// groupQuery is a GroupQueryAttention: attention of a decoder that looks at a cache of keys and values.
type groupQuery struct {
	*attention
	rotary      bool
	interleaved bool
}

// buildGroupQuery has the inputs queries [batch, length, heads*size], keys and values [batch, length, kvHeads*size] or absent (then
// they follow the queries in input 0), caches of both [batch, kvHeads, room, size], by sample the number of keys less one, the
// largest number of keys, tables of cosines and sines, positions, and a mask that is added. Outputs 1 and 2 are the caches with the
// new keys and values, which begin where those of the past end.
func buildGroupQuery(n *graph.Node, _ int64) (evalFunc, error) {
	a, err := microsoftAttention(n)
	if err != nil {
		return nil, err
	}
	a.causal, a.softcap, a.flatShared = true, float64(n.AttrFloat("softcap", 0)), int(n.AttrInt("kv_num_heads", 0))
	if a.flatShared < 1 || a.flat%a.flatShared != 0 || !(a.softcap >= 0) {
		return nil, fmt.Errorf("num_heads %d, kv_num_heads %d, softcap %g", a.flat, a.flatShared, a.softcap)
	}
	if w := n.AttrInt("local_window_size", -1); w > 0 {
		a.left = int(min(w, maxElements)) - 1
	}
	if n.AttrInt("smooth_softmax", 0) > 0 || n.AttrInt("qk_output", 0) != 0 || n.AttrInt("kv_cache_bit_width", 0) != 0 {
		return nil, errors.New("smooth_softmax, qk_output and kv_cache_bit_width are not supported")
	}
	for i := 11; i < len(n.Inputs); i++ {
		if n.Inputs[i] != graph.NoValue {
			return nil, fmt.Errorf("input %d is not supported", i)
		}
	}
	g := groupQuery{a, n.AttrInt("do_rotary", 0) != 0, n.AttrInt("rotary_interleaved", 0) != 0}
	return g.run, nil
}

func (g groupQuery) run(c *call) error {
	if err := c.float32s(0, 1, 2, 3, 4, 7, 8, 10); err != nil {
		return err
	}
	r := &attending[float32]{attention: g.attention, c: c, heads: g.flat, shared: g.flatShared}
	if err := r.openGroups(); err != nil {
		return err
	}
	if err := r.openLengths(); err != nil {
		return err
	}
	if g.rotary {
		for i, h := range []*headRows[float32]{&r.q, &r.k} {
			if err := g.turn(r, h, []int{r.heads, r.shared}[i]); err != nil {
				return err
			}
		}
	}
	var err error
	if r.k, err = r.cache(1, 3, r.k); err != nil {
		return err
	}
	if r.v, err = r.cache(2, 4, r.v); err != nil {
		return err
	}
	return r.finish(-1, 0, 10)
}

// openGroups finds queries, keys and values.
func (r *attending[T]) openGroups() error {
	c := r.c
	q, k, v := c.in(0), c.in(1), c.in(2)
	all := r.heads
	if k == nil {
		all += 2 * r.shared
	}
	if len(q.Shape) != 3 || q.Shape[2]%all != 0 || (k == nil) != (v == nil) {
		return fmt.Errorf("queries %s for %d heads", q.Type(), all)
	}
	r.q, r.queries, r.size = headsOf[T](q, all)
	r.batch, r.width = q.Shape[0], r.size
	if r.size == 0 || q.Len() == 0 {
		return fmt.Errorf("queries %s are empty", q.Type())
	}
	if k == nil {
		r.k, r.v = r.q, r.q
		r.k.data, r.v.data = r.q.data[r.heads*r.size:], r.q.data[(r.heads+r.shared)*r.size:]
		return nil
	}
	want := []int{r.batch, r.queries, r.shared * r.size}
	for i, t := range []*tensor.Tensor{k, v} {
		if len(t.Shape) != 3 || t.Shape[0] != want[0] || t.Shape[1] != want[1] || t.Shape[2] != want[2] {
			return fmt.Errorf("input %d is %s, should be %s", i+1, t.Type(), tensor.TypeString(tensor.Float32, want))
		}
	}
	r.k, _, _ = headsOf[T](k, r.shared)
	r.v, _, _ = headsOf[T](v, r.shared)
	return nil
}

// openLengths reads how many keys there are, and where the first query of each sample stands among them. The first queries of a
// text stand at its begin, those beyond its end are padding.
func (r *attending[T]) openLengths() error {
	c := r.c
	last, err := ints(c.in(5))
	if err != nil {
		return err
	}
	most, err := scalarInt(c.in(6))
	if err != nil {
		return err
	}
	if len(last) != r.batch || most < r.queries || most > maxElements {
		return fmt.Errorf("%d keys at most, of samples %v, for %d queries of %d samples", most, last, r.queries, r.batch)
	}
	if r.total = most; c.has(3) {
		r.total = max(r.total, c.in(3).Shape[min(2, len(c.in(3).Shape)-1)])
	}
	r.valid, r.first = make([]int, r.batch), make([]int, r.batch)
	for b, n := range last {
		if r.valid[b] = n + 1; most > r.queries {
			r.first[b] = n + 1 - r.queries
		}
		if n < 0 || n >= most || r.first[b] < 0 {
			return fmt.Errorf("%d keys at most, of samples %v, for %d queries", most, last, r.queries)
		}
	}
	return nil
}

// turn rotates queries or keys by their positions.
func (g groupQuery) turn(r *attending[float32], h *headRows[float32], heads int) error {
	c := r.c
	cos, sin := c.in(7), c.in(8)
	if cos == nil || sin == nil || len(cos.Shape) != 2 || cos.Len() != sin.Len() || 2*cos.Shape[1] > r.size {
		return fmt.Errorf("no tables of cosines and sines for features of %d", r.size)
	}
	at := func(i int) int { return r.first[i/r.queries] + i%r.queries }
	if c.has(9) {
		var err error
		if at, err = c.positions(9, r.batch, r.queries, cos.Shape[0]); err != nil {
			return err
		}
	} else if err := checkPositions(at, r.batch*r.queries, cos.Shape[0]); err != nil {
		return err
	}
	turned, err := c.scratch(r.batch * r.queries * heads * r.size)
	if err != nil {
		return err
	}
	dst := headRows[float32]{turned, r.queries * heads * r.size, r.size, heads * r.size}
	turnHeads(c, rotary{g.interleaved, 2 * cos.Shape[1], heads}, dst, *h, r.batch, r.queries, r.size, cos.F32(), sin.F32(), at)
	*h = dst
	return nil
}

// cache returns the keys or values of input past with h behind those of each sample; what follows is 0.
func (r *attending[T]) cache(out, past int, h headRows[T]) (headRows[T], error) {
	c := r.c
	shape := []int{r.batch, r.shared, r.total, r.size}
	old := c.in(past)
	if old != nil && (len(old.Shape) != 4 || old.Shape[0] != r.batch || old.Shape[1] != r.shared || old.Shape[3] != r.size) {
		return h, fmt.Errorf("input %d is %s, should be [%d,%d,room,%d]", past, old.Type(), r.batch, r.shared, r.size)
	}
	var t *tensor.Tensor
	var err error
	if c.wants(out) {
		t, err = c.outAs(out, tensor.Float32, shape, tensor.RowMajor)
	} else {
		t, _, err = c.run.mem.alloc(tensor.Float32, shape, tensor.RowMajor)
	}
	if err != nil {
		return h, err
	}
	joined, _, _ := headsOf[T](t, r.shared)
	clear(joined.data)
	for b := range r.batch {
		if r.first[b] > 0 && (old == nil || old.Shape[2] < r.first[b]) {
			return h, fmt.Errorf("input %d has less than %d rows", past, r.first[b])
		}
		for head := range r.shared {
			dst := joined.at(b, head, 0)
			if n := r.first[b]; n > 0 {
				from, _, _ := headsOf[T](old, r.shared)
				copy(dst[:n*r.size], from.at(b, head, 0))
			}
			for i := range r.queries {
				copy(dst[(r.first[b]+i)*r.size:][:r.size], h.at(b, head, i))
			}
		}
	}
	return joined, nil
}
