package grad

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// attentions are the operators that have softmax(q k') v in one.
var attentions = map[string]rule{"Attention": attention}

// heads are the operands of an Attention as products see them: [batch, heads of k, heads of q that share one, length, size], in k and v
// the third is 1.
type heads struct {
	*tape
	q, k, v       graph.ValueID
	qs, ks, vs    []int // shapes
	kvHeads, past int
	scale         float64
}

// attention computes the probabilities anew, and differentiates the two products and what is between them.
func attention(t *tape, dy []graph.ValueID) []graph.ValueID {
	h, err := t.heads()
	if err != nil || t.Err != nil {
		t.fail(err)
		return nil
	}
	for i, d := range dy {
		if d != graph.NoValue && i > 0 {
			t.fail(fmt.Errorf("output %d has no gradient", i))
		}
	}
	scores := slices.Clone(h.qs)
	scores[4] = h.ks[3]
	s := t.scale(t.op("MatMul", h.q, t.swapped(h.k, 5)), h.scale)
	var capped graph.ValueID
	top := float64(t.n.AttrFloat("softcap", 0))
	if top > 0 {
		capped = t.op("Tanh", t.scale(s, 1/top))
		s = t.scale(capped, top)
	}
	s, keep := h.masked(s, scores)
	p := t.with("Softmax", []graph.Attr{graph.Int("axis", -1)}, s)
	if keep != graph.NoValue {
		p = t.where(keep, p, t.scalar(0)) // rows of which nothing is seen are 0
	}
	list := t.only(0, graph.NoValue)
	d := t.parts(dy[0], h.vs[4], h.kvHeads, h.qs[2])
	dv := t.like(t.op("MatMul", t.swapped(p, 5), d), append(slices.Clone(scores[:3]), h.vs[3:]...), h.vs)
	dp := t.op("MatMul", d, t.swapped(h.v, 5))
	ds := t.mul(p, t.op("Sub", dp, t.total(t.mul(dp, p), 4)))
	if t.wants(3) {
		list[3] = t.reshape(t.like(ds, scores, h.maskShape()), t.shape(t.x(3)))
	}
	if top > 0 {
		ds = t.mul(ds, t.oneMinus(t.mul(capped, capped)))
	}
	ds = t.scale(ds, h.scale)
	dk := t.like(t.op("MatMul", t.swapped(ds, 5), h.q), append(slices.Clone(scores[:3]), h.ks[3:]...), h.ks)
	list[0] = t.joined(t.op("MatMul", ds, h.k), h.qs, t.x(0))
	for i, x := range [2]graph.ValueID{dk, dv} {
		shape := [2][]int{h.ks, h.vs}[i]
		if h.past > 0 {
			if t.wants(4 + i) {
				list[4+i] = t.reshape(t.slice(x, []int{0}, []int{h.past}, []int{3}, []int{1}), t.shape(t.x(4+i)))
			}
			x = t.slice(x, []int{h.past}, []int{shape[3]}, []int{3}, []int{1})
			shape = slices.Clone(shape)
			shape[3] -= h.past
		}
		list[1+i] = t.joined(x, shape, t.x(1+i))
	}
	return list
}

// parts reads [batch, heads, length, size], or [batch, length, heads*size], as heads are read.
func (t *tape) parts(x graph.ValueID, size, kvHeads, each int) graph.ValueID {
	if len(t.shape(t.x(0))) == 4 {
		return t.reshape(x, []int{0, kvHeads, each, -1, size})
	}
	return t.transpose(t.reshape(x, []int{0, 0, kvHeads, each, size}), 0, 2, 3, 1, 4)
}

// joined is the other way, to the shape of an input.
func (t *tape) joined(x graph.ValueID, shape []int, like graph.ValueID) graph.ValueID {
	if len(t.shape(like)) == 3 {
		x = t.transpose(x, 0, 3, 1, 2, 4)
	}
	return t.reshape(x, t.shape(like))
}

// heads reads the operands.
func (t *tape) heads() (*heads, error) {
	q, k, v := t.shape(t.x(0)), t.shape(t.x(1)), t.shape(t.x(2))
	if t.Err != nil {
		return nil, t.Err
	}
	if t.x(6) != graph.NoValue {
		return nil, fmt.Errorf("nonpad_kv_seqlen has no rule")
	}
	n, kv, lengths := int(t.n.AttrInt("q_num_heads", 0)), int(t.n.AttrInt("kv_num_heads", 0)), 1
	if len(q) == 4 {
		n, kv, lengths = q[1], k[1], 2
	}
	if kv < 1 || n%kv != 0 {
		return nil, fmt.Errorf("%d heads of q and %d of k", n, kv)
	}
	size, width := q[len(q)-1], v[len(v)-1]
	if len(q) == 3 {
		size, width = size/n, width/kv
	}
	h := &heads{tape: t, kvHeads: kv, qs: []int{q[0], kv, n / kv, q[lengths], size}, ks: []int{q[0], kv, 1, k[lengths], size},
		vs: []int{q[0], kv, 1, k[lengths], width}, scale: float64(t.n.AttrFloat("scale", 0))}
	if h.scale == 0 {
		h.scale = 1 / math.Sqrt(float64(size))
	}
	h.q, h.k, h.v = t.parts(t.x(0), size, kv, n/kv), t.parts(t.x(1), size, kv, 1), t.parts(t.x(2), width, kv, 1)
	if t.x(4) != graph.NoValue {
		h.past = t.shape(t.x(4))[2]
		h.ks[3] += h.past
		h.vs[3] += h.past
		join := func(past, now graph.ValueID, size int) graph.ValueID {
			return t.with("Concat", []graph.Attr{graph.Int("axis", 3)}, t.reshape(past, []int{0, kv, 1, -1, size}), now)
		}
		h.k, h.v = join(t.x(4), h.k, size), join(t.x(5), h.v, width)
	}
	return h, nil
}

// maskShape is that of input 3 as scores [batch, heads of k, heads that share one, queries, keys] read it.
func (h *heads) maskShape() []int {
	m := h.shape(h.x(3))
	four := append(slices.Repeat([]int{1}, max(4-len(m), 0)), m...)
	if four[1] == 1 {
		return []int{four[0], 1, 1, four[2], four[3]}
	}
	return []int{four[0], h.qs[1], h.qs[2], four[2], four[3]}
}

// masked are the scores with the mask added, the lowest number in place of those that are not seen; keep says which are, NoValue: all.
func (h *heads) masked(s graph.ValueID, scores []int) (masked, keep graph.ValueID) {
	keep = h.window(scores[3], scores[4])
	if m := h.x(3); m != graph.NoValue {
		shape := h.maskShape()
		if shape[4] != scores[4] {
			h.fail(fmt.Errorf("a mask of %d of %d keys", shape[4], scores[4]))
		}
		seen := h.reshape(m, shape)
		if h.G.Value(m).DType != tensor.Bool {
			s, seen = h.op("Add", s, seen), h.op("Greater", seen, h.scalar(math.Inf(-1)))
		}
		if keep != graph.NoValue {
			seen = h.op("And", seen, keep)
		}
		keep = seen
	}
	if keep != graph.NoValue {
		s = h.where(keep, s, h.scalar(-math.MaxFloat32))
	}
	return s, keep
}

// window is which keys a query looks at by its position [queries, keys]; NoValue: all.
func (h *heads) window(queries, keys int) graph.ValueID {
	left, right := int(h.n.AttrInt("left_window_size", -1)), int(h.n.AttrInt("right_window_size", -1))
	if h.n.AttrInt("is_causal", 0) != 0 {
		right = 0
	}
	if left < 0 && right < 0 {
		return graph.NoValue
	}
	seen := tensor.New(tensor.Bool, queries, keys)
	for i := range queries {
		for k := range keys {
			at := i + h.past
			seen.Data.([]bool)[i*keys+k] = (left < 0 || k >= at-left) && (right < 0 || k <= at+right)
		}
	}
	return h.G.AddConst(h.G.FreshName(h.Name+"_window"), seen)
}
