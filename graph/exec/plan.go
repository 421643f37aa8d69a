package exec

import (
	"slices"

	"qwb/graph/tensor"
)

// plan is where the buffers of a run lie. Buffers of one element type share an arena; those whose lives overlap do not
// overlap in it.
type plan struct {
	shapes  [][]int // of the graph inputs
	watched []bool  // by value, as in runnerState
	looks   []bool
	bufs    []buffer
	first   []int32 // by step: the first buffer allocated in it; one more entry than steps
	offset  []int
	slots   []tensor.Tensor // by buffer: the header handed out, Data boxed once
	used    int64           // counts runs, for eviction
	size    map[int]int     // of the arena, by pool
	bytes   int64           // of the arena
	arena   arena
}

// newPlan assigns offsets; place makes the memory. It takes the largest buffers first and puts each at the lowest offset where it is free
// for its whole life: for chains this is within a few percent of the lower bound (the largest sum of lives at one step).
func newPlan(bufs []buffer, steps int) *plan {
	p := &plan{bufs: slices.Clone(bufs), first: make([]int32, steps+1), offset: make([]int, len(bufs)),
		slots: make([]tensor.Tensor, len(bufs))}
	b := 0
	for s := range p.first {
		for b < len(bufs) && int(bufs[b].birth) < s {
			b++
		}
		p.first[s] = int32(b)
	}
	order := make([]int, len(bufs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bufs[b].n - bufs[a].n })
	placed := map[int][]int{} // by pool, sorted by offset
	size := map[int]int{}
	for _, i := range order {
		pool := poolOf(bufs[i].dtype)
		n := padded(bufs[i].n)
		at := 0
		for _, k := range placed[pool] {
			if bufs[k].death < bufs[i].birth || bufs[i].death < bufs[k].birth {
				continue
			}
			if at+n <= p.offset[k] {
				break
			}
			at = max(at, p.offset[k]+padded(bufs[k].n))
		}
		p.offset[i] = at
		list := placed[pool]
		pos, _ := slices.BinarySearchFunc(list, at, func(k, at int) int { return p.offset[k] - at })
		placed[pool] = slices.Insert(list, pos, i)
		size[pool] = max(size[pool], at+n)
	}
	p.size = size
	for d, n := range size {
		p.bytes += storageBytes(tensor.DType(d), n)
	}
	return p
}

// place makes the arena.
func (p *plan) place() {
	p.arena = newArena(p.size)
	for i, b := range p.bufs {
		p.slots[i] = tensor.Tensor{DType: b.dtype, Data: p.arena.cut(b.dtype, p.offset[i], b.n)}
	}
}

// slot returns the number of the nth buffer of a step, -1 if the plan has none.
func (p *plan) slot(step, nth int32) int32 {
	if s := p.first[step] + nth; s < p.first[step+1] {
		return s
	}
	return -1
}

// bind returns slot s as a tensor of the given type, nil if the plan has another size or type there.
func (p *plan) bind(s int32, d tensor.DType, shape []int, layout tensor.Layout) *tensor.Tensor {
	t := &p.slots[s]
	if p.bufs[s].dtype != d || tensor.Count(shape) != p.bufs[s].n || t.Data == nil {
		return nil
	}
	t.Layout = layout
	if !slices.Equal(t.Shape, shape) || t.Shape == nil {
		t.Shape = append(make([]int, 0, len(shape)), shape...)
	}
	return t
}

// padded rounds a number of elements up so that every buffer starts on a cache line.
func padded(n int) int { return (n + 63) &^ 63 }

// arena is one slice per Go element type.
type arena struct {
	f32 []float32
	f64 []float64
	i8  []int8
	i16 []int16
	i32 []int32
	i64 []int64
	u8  []uint8
	u16 []uint16
	u32 []uint32
	u64 []uint64
	b   []bool
}

// poolOf groups element types by the Go type that stores them; see tensor.Tensor.
func poolOf(d tensor.DType) int {
	switch d {
	case tensor.Float16, tensor.BFloat16:
		return int(tensor.Uint16)
	case tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ, tensor.Float8E8M0,
		tensor.Uint4, tensor.Int4, tensor.Float4E2M1, tensor.Uint2, tensor.Int2:
		return int(tensor.Uint8)
	}
	return int(d)
}

func newArena(size map[int]int) arena {
	return arena{
		f32: make([]float32, size[int(tensor.Float32)]), f64: make([]float64, size[int(tensor.Float64)]),
		i8: make([]int8, size[int(tensor.Int8)]), i16: make([]int16, size[int(tensor.Int16)]),
		i32: make([]int32, size[int(tensor.Int32)]), i64: make([]int64, size[int(tensor.Int64)]),
		u8: make([]uint8, size[int(tensor.Uint8)]), u16: make([]uint16, size[int(tensor.Uint16)]),
		u32: make([]uint32, size[int(tensor.Uint32)]), u64: make([]uint64, size[int(tensor.Uint64)]),
		b: make([]bool, size[int(tensor.Bool)]),
	}
}

// cut returns n elements at off as storage of type d, nil for types that are not planned (strings, complex numbers).
func (a *arena) cut(d tensor.DType, off, n int) any {
	if d.Bits() > 0 && d.Bits() < 8 {
		n = d.Bytes(n)
	}
	switch tensor.DType(poolOf(d)) {
	case tensor.Float32:
		return a.f32[off : off+n : off+n]
	case tensor.Float64:
		return a.f64[off : off+n : off+n]
	case tensor.Int8:
		return a.i8[off : off+n : off+n]
	case tensor.Int16:
		return a.i16[off : off+n : off+n]
	case tensor.Int32:
		return a.i32[off : off+n : off+n]
	case tensor.Int64:
		return a.i64[off : off+n : off+n]
	case tensor.Uint8:
		return a.u8[off : off+n : off+n]
	case tensor.Uint16:
		return a.u16[off : off+n : off+n]
	case tensor.Uint32:
		return a.u32[off : off+n : off+n]
	case tensor.Uint64:
		return a.u64[off : off+n : off+n]
	case tensor.Bool:
		return a.b[off : off+n : off+n]
	}
	return nil
}
