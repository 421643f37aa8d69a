package exec

import (
	"fmt"

	"qwb/graph/tensor"
)

// wide is 1 where an int has 64 bits, 0 where it has 32.
const wide = ^uint(0) >> 63

// maxElements bounds one tensor, so that products of shapes cannot overflow: 2^31, or 2^26 where an int has 32 bits.
const maxElements = 1 << (26 + 5*wide)

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
	bufs   []buffer // of this run, in order of allocation: all while tracing and with a pool, with a plan what it does not have
	live   []int32  // with a pool: the buffers that are taken
	step   int32
	nth    int32 // allocations made so far in this step
	stale  bool  // this run did not follow its plan
	pool   *pool // no plan: everything comes from here
	poison bool  // fill what is handed out with garbage, for tests
	budget
}

// begin starts step i.
func (m *memory) begin(i int) {
	m.step, m.nth = int32(i), 0
	m.reach(i)
}

// alloc returns a tensor with undefined elements and the number of its buffer. It refuses what is beyond the budget.
func (m *memory) alloc(d tensor.DType, shape []int, layout tensor.Layout) (*tensor.Tensor, int32, error) {
	n, err := checkedLen(shape)
	if err != nil {
		return nil, noBuf, err
	}
	if t, s := m.fromPlan(d, shape, layout); t != nil {
		return t, s, nil
	}
	if err := m.check(d, shape, n); err != nil {
		return nil, noBuf, err
	}
	return m.fresh(d, shape, n, layout)
}

// fromPlan returns the tensor that the plan has for the next allocation, nil if it has none like that.
func (m *memory) fromPlan(d tensor.DType, shape []int, layout tensor.Layout) (*tensor.Tensor, int32) {
	if m.plan != nil {
		if s := m.plan.slot(m.step, m.nth); s >= 0 {
			m.nth++
			if t := m.plan.bind(s, d, shape, layout); t != nil {
				m.spoil(t)
				return t, s
			}
		}
		m.stale = true
	}
	return nil, noBuf
}

// fresh returns a tensor of n elements that the plan does not have.
func (m *memory) fresh(d tensor.DType, shape []int, n int, layout tensor.Layout) (*tensor.Tensor, int32, error) {
	var data any
	if m.pool != nil {
		data = m.pool.take(d, n)
	} else {
		data = tensor.MakeData(d, n)
	}
	if data == nil {
		return nil, noBuf, fmt.Errorf("element type %s cannot be computed with", d)
	}
	own := &struct { // one piece of memory, as small networks make many
		tensor.Tensor
		dims [4]int
	}{}
	t := &own.Tensor
	t.DType, t.Layout, t.Shape, t.Data = d, layout, append(own.dims[:0], shape...), data
	m.spoil(t)
	b := buffer{dtype: d, n: n, birth: m.step, death: m.step}
	if m.pool != nil {
		b.data = data
		m.live = append(m.live, int32(len(m.bufs)))
		m.held += storageBytes(d, n)
	} else {
		m.take(storageBytes(d, n), m.step)
	}
	m.bufs = append(m.bufs, b)
	return t, int32(m.planned() + len(m.bufs) - 1), nil
}

// planned is how many buffers the plan has; the numbers of others follow.
func (m *memory) planned() int {
	if m.plan == nil {
		return 0
	}
	return len(m.plan.bufs)
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
		m.held -= storageBytes(buf.dtype, buf.n)
		buf.data = nil
	}
	m.live = left
}

// mustAlloc is alloc for a copy of a tensor that exists already, which the budget counts and does not refuse.
func (m *memory) mustAlloc(d tensor.DType, shape []int, layout tensor.Layout) (*tensor.Tensor, int32) {
	if t, s := m.fromPlan(d, shape, layout); t != nil {
		return t, s
	}
	t, b, err := m.fresh(d, shape, tensor.Count(shape), layout)
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
	planned := m.planned()
	switch {
	case b == noBuf:
		return true
	case int(b) < planned:
		return m.plan.bufs[b].death >= last
	}
	buf := &m.bufs[int(b)-planned]
	if last > buf.death {
		if m.pool == nil {
			m.prolong(storageBytes(buf.dtype, buf.n), buf.death, last)
		}
		buf.death = last
	}
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
