package cpu

import (
	"cmp"
	"slices"

	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// memory hands out the values of a run. The first run of a set of shapes takes them from the heap and is the record of what is
// needed when; later ones find them in one arena. A run that asks for something else takes it from the heap.
type memory struct {
	mode  memoryMode
	slots []slot
	next  int
	step  int
	bytes []uint8
	reals []float32
	back  []*tensor.Tensor // outputs that the caller gave back
}

type memoryMode uint8

const (
	recording memoryMode = iota // from the heap, with a record
	planned                     // from the arena
	loose                       // from the heap, without
)

// slot is one value of a run.
type slot struct {
	value        value
	kind         slotKind
	size         int // elements
	birth, death int
	offset       int
	given        bool // to the caller, by every run: it is not in the arena
}

type slotKind uint8

const (
	byteSlot slotKind = iota
	realSlot
	aliasSlot // of memory that another slot or nobody has
)

// begin starts a run, from the arena if there is one; hooked runs may keep and replace values, and stay away from it.
func (m *memory) begin(hooked bool) {
	m.next, m.step = 0, 0
	switch {
	case hooked:
		*m = memory{mode: loose}
	case m.mode != planned:
		*m = memory{}
	}
}

// end ends a run: what a recorded one needed is placed in the arena.
func (m *memory) end() {
	if m.mode == recording {
		m.place()
	}
}

// use says that v is needed in the current step.
func (m *memory) use(v *value) {
	if v != nil && v.slot != noSlot && m.mode == recording {
		s := &m.slots[v.slot]
		s.death = max(s.death, m.step)
	}
}

// give returns the tensor of an output, which is the caller's from then on: others are those that this run has given.
func (m *memory) give(v *value, others []*tensor.Tensor) *tensor.Tensor {
	t := v.tensor()
	switch {
	case v.t == nil: // made of codes
		return t
	case v.slot == noSlot || m.mode == loose || slices.Contains(others, t): // an input, a constant, a kernel's own
		return t.Clone()
	}
	s := &m.slots[v.slot]
	if s.given = s.given || m.mode == recording; s.given {
		return t
	}
	return t.Clone()
}

// take returns the next slot; nil in a run without plan and record, which one becomes that does not follow its plan.
func (m *memory) take(kind slotKind, size int) *slot {
	switch m.mode {
	case planned:
		if m.next < len(m.slots) {
			if s := &m.slots[m.next]; s.kind == kind && s.size == size && s.birth == m.step {
				m.next++
				return s
			}
		}
		*m = memory{mode: loose, step: m.step} // values keep alive what was handed out
	case recording:
		m.slots = append(m.slots, slot{kind: kind, size: size, birth: m.step, death: m.step})
		m.next++
		return &m.slots[m.next-1]
	}
	return nil
}

// current is the number of the slot taken last.
func (m *memory) current() int {
	if m.mode == loose {
		return noSlot
	}
	return m.next - 1
}

// codes returns a value of 8-bit integers with undefined elements.
func (m *memory) codes(d tensor.DType, shape []int, last bool) *value {
	n := tensor.Count(shape)
	s := m.take(byteSlot, n)
	if m.mode == planned {
		v := &s.value
		if !slices.Equal(v.shape, shape) {
			v.shape = slices.Clone(shape)
		}
		v.dtype, v.last, v.view, v.summed = d, last, nil, false
		return v
	}
	v := &value{dtype: d, shape: slices.Clone(shape), last: last, slot: m.current(), codes: make([]uint8, n)}
	if s != nil {
		s.value = *v
	}
	return v
}

// floats returns a value of float32 numbers with undefined elements.
func (m *memory) floats(shape []int) *value {
	n := tensor.Count(shape)
	s := m.take(realSlot, n)
	if m.mode == planned {
		v := &s.value
		if !slices.Equal(v.shape, shape) {
			v.shape = slices.Clone(shape)
		}
		if s.given {
			v.t = m.output(shape)
		} else {
			v.t.Shape = v.shape
		}
		return v
	}
	v := &value{dtype: tensor.Float32, shape: slices.Clone(shape), slot: m.current()}
	v.t = tensor.New(tensor.Float32, v.shape...)
	if s != nil {
		s.value = *v
	}
	return v
}

// output returns a tensor for the caller, with undefined elements.
func (m *memory) output(shape []int) *tensor.Tensor {
	for i, t := range m.back {
		if t != nil && t.DType == tensor.Float32 && slices.Equal(t.Shape, shape) {
			m.back[i] = nil
			return t
		}
	}
	return tensor.New(tensor.Float32, slices.Clone(shape)...)
}

// alias returns v with another shape and layout.
func (m *memory) alias(v *value, shape []int, last bool) *value {
	s := m.take(aliasSlot, len(v.codes))
	next := value{dtype: v.dtype, codes: v.codes, last: last, slot: v.slot}
	if m.mode == planned {
		if next.shape = s.value.shape; !slices.Equal(next.shape, shape) {
			next.shape = slices.Clone(shape)
		}
		s.value = next
		return &s.value
	}
	next.shape = slices.Clone(shape)
	if s != nil {
		s.value.shape = next.shape
	}
	return &next
}

// place lays the slots of a run into the arena: the largest first, each at the lowest place that is free while it lives.
func (m *memory) place() {
	const line = 64
	order := make([]int, len(m.slots))
	for i := range order {
		order[i] = i
	}
	arrange.Stable(order, func(a, b int) int { return cmp.Compare(m.slots[b].size, m.slots[a].size) })
	var placed []int
	var total [2]int
	for _, i := range order {
		s := &m.slots[i]
		if s.kind == aliasSlot || s.size == 0 || s.given {
			continue
		}
		s.offset = 0
		for _, j := range placed { // by offset
			o := &m.slots[j]
			if o.kind != s.kind || o.birth > s.death || s.birth > o.death {
				continue
			}
			if s.offset+s.size <= o.offset {
				break
			}
			s.offset = max(s.offset, (o.offset+o.size+line-1)&^(line-1))
		}
		at, _ := slices.BinarySearchFunc(placed, s.offset, func(j, offset int) int { return cmp.Compare(m.slots[j].offset, offset) })
		placed = slices.Insert(placed, at, i)
		total[s.kind] = max(total[s.kind], s.offset+s.size)
	}
	m.bytes, m.reals, m.mode = make([]uint8, total[byteSlot]), make([]float32, total[realSlot]), planned
	for i := range m.slots {
		s := &m.slots[i]
		switch s.kind {
		case byteSlot:
			s.value.codes = m.bytes[s.offset:][:s.size:s.size]
		case realSlot:
			if s.value.t = nil; !s.given {
				s.value.t = &tensor.Tensor{DType: tensor.Float32, Shape: s.value.shape, Data: m.reals[s.offset:][:s.size:s.size]}
			}
		}
	}
}
