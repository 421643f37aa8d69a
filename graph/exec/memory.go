package exec

import (
	"fmt"
	"slices"

	"qwb/graph/tensor"
)

// maxElements bounds one tensor, so that a shape computed from bad input cannot ask for all memory.
const maxElements = 1 << 31

// noBuf marks a tensor that does not lie in memory of the runner: a constant, a feed, what a hook returned.
const noBuf = -1

// buffer is one allocation of a run: what was asked for, and the first and last step between which it is used.
type buffer struct {
	dtype        tensor.DType
	n            int
	birth, death int32
	data         any // while it is taken from a pool
}

// memory hands out the buffers of one run. While tracing they come from the heap and bufs is the record; with a plan they
// lie in the arena, unless the run asks for something the plan does not have.
type memory struct {
	plan   *plan
	bufs   []buffer // of this run, in order of allocation, while tracing and with a pool
	live   []int32  // with a pool: the buffers that are taken
	step   int32
	nth    int32 // allocations made so far in this step
	stale  bool  // this run did not follow its plan
	pool   *pool // no plan: everything comes from here
	poison bool  // fill what is handed out with garbage, for tests
}

// begin starts step i.
func (m *memory) begin(i int) { m.step, m.nth = int32(i), 0 }

// alloc returns a tensor with undefined elements and the number of its buffer.
func (m *memory) alloc(d tensor.DType, shape []int, layout tensor.Layout) (*tensor.Tensor, int32, error) {
	n, err := checkedLen(shape)
	if err != nil {
		return nil, noBuf, err
	}
	if m.plan != nil {
		if s := m.plan.slot(m.step, m.nth); s >= 0 {
			m.nth++
			if t := m.plan.bind(s, d, shape, layout); t != nil {
				m.spoil(t)
				return t, s, nil
			}
		}
		m.stale = true
	}
	var data any
	if m.pool != nil {
		data = m.pool.take(d, n)
	} else {
		data = tensor.MakeData(d, n)
	}
	if data == nil {
		return nil, noBuf, fmt.Errorf("element type %s cannot be computed with", d)
	}
	t := &tensor.Tensor{DType: d, Layout: layout, Shape: slices.Clone(shape), Data: data}
	m.spoil(t)
	if m.plan != nil {
		return t, noBuf, nil
	}
	b := buffer{dtype: d, n: n, birth: m.step, death: m.step}
	if m.pool != nil {
		b.data = data
		m.live = append(m.live, int32(len(m.bufs)))
	}
	m.bufs = append(m.bufs, b)
	return t, int32(len(m.bufs) - 1), nil
}

// recycle gives back to the pool what nobody needs after step i.
func (m *memory) recycle(i int) {
	left := m.live[:0]
	for _, b := range m.live {
		buf := &m.bufs[b]
		if buf.death > int32(i) {
			left = append(left, b)
			continue
		}
		m.spoil(&tensor.Tensor{DType: buf.dtype, Data: buf.data})
		m.pool.put(buf.dtype, buf.n, buf.data)
		buf.data = nil
	}
	m.live = left
}

// mustAlloc is alloc for a type that exists already.
func (m *memory) mustAlloc(d tensor.DType, shape []int, layout tensor.Layout) (*tensor.Tensor, int32) {
	t, b, err := m.alloc(d, shape, layout)
	if err != nil {
		panic("exec: " + err.Error())
	}
	return t, b
}

// pool recycles memory within and between runs whose lives cannot be planned.
type pool struct {
	free map[poolKey][]any
}

type poolKey struct {
	dtype tensor.DType
	n     int
}

// take returns storage for n elements, nil for types without storage.
func (p *pool) take(d tensor.DType, n int) any {
	key := poolKey{d, n}
	if list := p.free[key]; len(list) > 0 {
		p.free[key] = list[:len(list)-1]
		return list[len(list)-1]
	}
	return tensor.MakeData(d, n)
}

// put takes back what take gave; nobody may use it any more.
func (p *pool) put(d tensor.DType, n int, data any) {
	if p.free == nil {
		p.free = map[poolKey][]any{}
	}
	key := poolKey{d, n}
	p.free[key] = append(p.free[key], data)
}

// extend says that buffer b must live until step last. It returns false if the plan ends its life before.
func (m *memory) extend(b int32, last int32) bool {
	switch {
	case b == noBuf:
		return true
	case m.plan != nil:
		return m.plan.bufs[b].death >= last
	}
	m.bufs[b].death = max(m.bufs[b].death, last)
	return true
}

// spoil makes reads of elements that nobody wrote visible in tests.
func (m *memory) spoil(t *tensor.Tensor) {
	if !m.poison {
		return
	}
	switch d := t.Data.(type) {
	case []float32:
		fill(d, float32(-1e30))
	case []int64:
		fill(d, -1<<60)
	case []uint8:
		fill(d, 0xa5)
	case []int32:
		fill(d, -1<<30)
	}
}

func fill[T any](d []T, v T) {
	for i := range d {
		d[i] = v
	}
}

func checkedLen(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", shape)
		}
		if d != 0 && n > maxElements/d {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		n *= d
	}
	return n, nil
}
