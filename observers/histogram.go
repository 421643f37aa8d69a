package observers

import (
	"iter"
	"math"
	"unsafe"

	"qwb/kernels"
)

const (
	binsPerOctave = kernels.BinsPerOctave
	keptOctaves   = 20               // octaves below the largest that are kept apart
	deepOctaves   = 32               // of a histogram that has to tell more; see Limited
	binShift      = kernels.BinShift // float32 bits >> binShift is sign, exponent and bin
	finiteTop     = 254
)

// histogram counts float32 values on the fixed grid: per sign 1,024 equal bins in each octave of |x|. Zeros and denormals
// (|x| < 2^-126) are one count; values more than 20 octaves below the largest one are one count per sign. What is counted
// together depends on the final largest octave alone, because that only ever grows: an octave that is too low once stays
// so. The state is therefore a function of the multiset of values.
type histogram struct {
	// counts is the table of kernels.Meter.Count above octave low; it ends before the negative side as long as no value is
	// negative, and is nil as long as there is no value at all.
	counts []uint32
	// carry is how often carryUnit was taken out of a counter; nil until one needs it.
	carry []uint32
	// recent is how many increments there were since all counters were below carryUnit.
	recent uint32
	top    int  // largest exponent field seen, 0 for none
	deep   bool // keeps deepOctaves apart
	nan    uint64
	inf    [2]uint64 // positive, negative
	room   Room      // where counts lie, nil for memory
}

// Room gives place for n counters, all zero, at an address that 8 divides; it stays there as long as it is used. It may be called from
// several goroutines.
type Room func(n int) []uint32

// placed is place for n zero values of a type without pointers, in memory where there is no room.
func placed[T any](room Room, n int) []T {
	if room == nil || n == 0 {
		return make([]T, n)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room(n*int(unsafe.Sizeof(*new(T)))/4)))), n)
}

const carryUnit = 1 << 31

func newHistogram() *histogram { return new(histogram) }

// empty returns a histogram that has seen nothing and lies where h does.
func (h *histogram) empty() *histogram { return &histogram{room: h.room} }

// at returns the count of counter i, which may lie in a part of the table that is not there.
func (h *histogram) at(i int) uint64 {
	if i >= len(h.counts) {
		return 0
	}
	n := uint64(h.counts[i])
	if h.carry != nil {
		n += uint64(h.carry[i]) * carryUnit
	}
	return n
}

// next returns the first counter from i on, below end, that is not zero; where there is none a number that is not below end.
func (h *histogram) next(i, end int) int {
	counts := h.counts[:min(end, len(h.counts))]
	for ; i+4 <= len(counts); i += 4 {
		if four := counts[i : i+4 : i+4]; four[0]|four[1]|four[2]|four[3] != 0 || h.carry != nil {
			break
		}
	}
	for ; i < len(counts); i++ {
		if h.at(i) > 0 {
			return i
		}
	}
	return end
}

// increase adds n to counter i.
func (h *histogram) increase(i int, n uint64) {
	if n == 0 {
		return
	}
	h.reserve(i)
	h.set(i, h.at(i)+n)
}

// set makes n the count of counter i, which is in the table.
func (h *histogram) set(i int, n uint64) {
	h.counts[i] = uint32(n % carryUnit)
	if n >= carryUnit && h.carry == nil {
		h.carry = make([]uint32, len(h.counts))
	}
	if h.carry != nil {
		h.carry[i] = uint32(n / carryUnit)
	}
}

// octaves is how many octaves are kept apart, the largest one included; span is how many counters a sign has.
func (h *histogram) octaves() int {
	if h.deep {
		return deepOctaves
	}
	return keptOctaves + 1
}

func (h *histogram) span() int { return kernels.BinSide(h.octaves()) }

// deepen makes a histogram that has seen nothing keep more octaves apart, shallow returns one that keeps as many as others.
func (h *histogram) deepen() { h.deep = true }

func (h *histogram) shallow() *histogram {
	if !h.deep {
		return h
	}
	s := h.empty()
	s.merge(h)
	return s
}

// reserve makes the table reach to counter i.
func (h *histogram) reserve(i int) {
	if i < len(h.counts) {
		return
	}
	n := kernels.BinZeros + h.span()
	if i >= n {
		n += h.span()
	}
	if n > cap(h.counts) {
		h.counts = append(h.place(n), h.counts...)
	}
	h.counts = h.counts[:n]
	if h.carry != nil {
		h.carry = append(make([]uint32, 0, n), h.carry...)[:n]
	}
}

// place returns an empty table that can grow to n counters without moving, and to those of both signs where that takes no memory.
func (h *histogram) place(n int) []uint32 {
	if h.room == nil {
		return make([]uint32, 0, n)
	}
	return h.room(kernels.BinZeros + 2*h.span())[:0]
}

// expect prepares for n more increments, n below carryUnit.
func (h *histogram) expect(n int) {
	if h.recent += uint32(n); h.recent < carryUnit {
		return
	}
	h.recent = uint32(n)
	for i, c := range h.counts {
		if c >= carryUnit {
			h.set(i, h.at(i))
		}
	}
}

// low is the lowest exponent that is kept apart.
func (h *histogram) low() int { return lowOf(h.top, h.octaves()-1) }

func lowOf(top, octaves int) int { return max(top-octaves, 1) }

// below returns the counter of the values of a sign that are too small to be kept apart; the bins of its octaves follow.
func (h *histogram) below(sign int) int { return kernels.BinZeros + sign*h.span() }

// octave returns the first of the counters of an octave.
func (h *histogram) octave(sign, e int) int { return h.below(sign) + 1 + (e-h.low())*binsPerOctave }

// zeros is the count of zeros and denormals, folded that of values too small to be kept apart.
func (h *histogram) zeros() uint64          { return h.sum(0, kernels.BinZeros) }
func (h *histogram) folded(sign int) uint64 { return h.at(h.below(sign)) }

// sum adds up counters from to to.
func (h *histogram) sum(from, to int) uint64 {
	n := uint64(0)
	for i := h.next(from, to); i < to; i = h.next(i+1, to) {
		n += h.at(i)
	}
	return n
}

// noneIn reports whether an octave of a sign has no values.
func (h *histogram) noneIn(sign, e int) bool {
	end := h.octave(sign, e) + binsPerOctave
	return h.next(end-binsPerOctave, end) >= end
}

// add counts all elements of data, whose extremes are lo and hi. All are finite, and there are fewer than carryUnit.
func (h *histogram) add(m *kernels.Meter, data []float32, lo, hi float32) {
	h.expect(len(data))
	h.raise(int(math.Float32bits(max(-lo, hi))>>23) & 255)
	if h.reserve(0); lo < 0 {
		h.reserve(h.below(1))
	}
	if lo == hi { // equal values would wait for each other's increments
		h.counts[h.counter(math.Float32bits(lo))] += uint32(len(data))
		return
	}
	m.Count(data, h.low(), h.octaves(), h.counts)
}

// counter returns the counter of a value that is finite and no larger than top.
func (h *histogram) counter(bits uint32) int {
	sign, e := int(bits>>31), int(bits>>23&255)
	switch {
	case e == 0:
		return 0
	case e < h.low():
		return h.below(sign)
	}
	return h.octave(sign, e) + int(bits>>binShift&(binsPerOctave-1))
}

// one counts a value of any kind.
func (h *histogram) one(bits uint32) {
	e := int(bits >> 23 & 255)
	switch {
	case e <= finiteTop:
		h.expect(1)
		h.raise(e)
		i := h.counter(bits)
		h.reserve(i)
		h.counts[i]++
	case bits<<9 != 0:
		h.nan++
	default:
		h.inf[bits>>31]++
	}
}

// raise makes the largest octave at least top and folds those that are too far below it then.
func (h *histogram) raise(top int) {
	if top <= h.top {
		return
	}
	from := h.low()
	h.top = top
	moved := min(h.low()-from, h.octaves()) * binsPerOctave
	if moved == 0 {
		return
	}
	for sign := range 2 {
		first, end := h.below(sign)+1, h.below(sign)+h.span()
		if end > len(h.counts) {
			return
		}
		h.increase(h.below(sign), h.sum(first, first+moved))
		for _, table := range [][]uint32{h.counts, h.carry} {
			if table != nil {
				clear(table[first+copy(table[first:end], table[first+moved:end]) : end])
			}
		}
	}
}

// merge adds the counts of o.
func (h *histogram) merge(o *histogram) {
	h.raise(o.top)
	h.increase(0, o.zeros())
	for sign := range 2 {
		h.inf[sign] += o.inf[sign]
		h.increase(h.below(sign), o.folded(sign))
		for e := o.low(); e <= o.top; e++ {
			from, to := o.octave(sign, e), h.below(sign)
			end := from + binsPerOctave
			if e < h.low() {
				h.increase(to, o.sum(from, end))
				continue
			}
			to = h.octave(sign, e)
			for i := o.next(from, end); i < end; i = o.next(i+1, end) {
				h.increase(to+i-from, o.at(i))
			}
		}
	}
	h.nan += o.nan
}

// edges returns the bounds of |x| in bin i of octave e: [lo, hi).
func edges(e, i int) (lo, hi float64) {
	lo = float64((binsPerOctave + float64(i)) * binWidth(e))
	return lo, lo + binWidth(e)
}

// binWidth is how wide the bins of octave e are: a power of two, so that products with it are exact.
func binWidth(e int) float64 { return math.Float64frombits(uint64(e-137+1023) << 52) }

// foldEdge is the upper bound of |x| of what was folded.
func (h *histogram) foldEdge() float64 { return math.Ldexp(1, h.low()-127) }

// Bin is a number of values in an interval: Lo <= |x| < Hi towards zero, seen from either side of it.
type Bin struct {
	Lo, Hi float64 // Lo <= Hi; both 0 for the zeros
	Count  uint64  // not 0
}

// side yields the bins of one sign (0 positive, 1 negative) by ascending |x|, with bounds of |x|; zeros are not among them.
func (h *histogram) side(sign int) iter.Seq[Bin] {
	return func(yield func(Bin) bool) {
		if n := h.folded(sign); n > 0 && !yield(Bin{0, h.foldEdge(), n}) {
			return
		}
		first := h.octave(sign, h.low())
		end := h.octave(sign, h.top+1)
		for i := h.next(first, end); i < end; i = h.next(i+1, end) {
			if lo, hi := edges(h.low()+(i-first)/binsPerOctave, (i-first)%binsPerOctave); !yield(Bin{lo, hi, h.at(i)}) {
				return
			}
		}
	}
}

// bins yields all bins in ascending order of x.
func (h *histogram) bins(yield func(Bin) bool) {
	for e := h.top; e >= h.low() && h.top > 0; e-- {
		first := h.octave(1, e)
		for i := binsPerOctave - 1; i >= 0; i-- {
			if c := h.at(first + i); c > 0 {
				if lo, hi := edges(e, i); !yield(Bin{-hi, -lo, c}) {
					return
				}
			}
		}
	}
	if n := h.folded(1); n > 0 && !yield(Bin{-h.foldEdge(), 0, n}) {
		return
	}
	if n := h.zeros(); n > 0 && !yield(Bin{0, 0, n}) {
		return
	}
	for b := range h.side(0) {
		if !yield(b) {
			return
		}
	}
}

// each calls f with a value in every bin and its count; of those too small to be kept apart the largest, of zeros +0.
func (h *histogram) each(f func(bits uint32, n uint64)) {
	if n := h.zeros(); n > 0 {
		f(0, n)
	}
	for sign := range 2 {
		if n := h.folded(sign); n > 0 {
			f(uint32(sign)<<31|(uint32(h.low())<<23-1), n)
		}
		first, end := h.below(sign)+1, h.below(sign)+h.span()
		for i := h.next(first, end); i < end; i = h.next(i+1, end) {
			f(uint32(sign)<<31|uint32(h.low()*binsPerOctave+i-first)<<binShift, h.at(i))
		}
	}
}

// count is the number of finite values.
func (h *histogram) count() uint64 { return h.sum(0, len(h.counts)) }

// absolute returns the counts of |x|.
func (h *histogram) absolute() *histogram {
	a := newHistogram()
	a.merge(h)
	for i := a.below(1); i < len(a.counts); i++ {
		a.increase(i-a.span(), a.at(i))
		a.set(i, 0)
	}
	return a
}
