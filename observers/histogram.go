package observers

import (
	"iter"
	"math"
)

const (
	binsPerOctave = 1024
	keptOctaves   = 20 // octaves below the largest that are kept apart
	binShift      = 13 // float32 bits >> binShift is sign, exponent and bin
	finiteTop     = 254
)

type octave [binsPerOctave]uint64

// histogram counts float32 values on the fixed grid: per sign 1,024 equal bins in each octave of |x|. Zeros and denormals
// (|x| < 2^-126) are one count; values more than 20 octaves below the largest one are one count per sign. What is counted
// together depends on the final largest octave alone, because that only ever grows: an octave that is too low once stays
// so. The state is therefore a function of the multiset of values.
type histogram struct {
	table [512]*octave // by sign and exponent; nil: not seen yet (or not finite), else counts, zero or one of fold
	zero  *octave      // its sum is the count of zeros and denormals
	fold  [2]*octave   // positive, negative; the sum counts
	top   int          // largest exponent field seen, 0 for none
	free  []*octave
	nan   uint64
	inf   [2]uint64 // positive, negative
}

func newHistogram() *histogram {
	h := &histogram{zero: new(octave), fold: [2]*octave{new(octave), new(octave)}}
	h.table[0], h.table[256] = h.zero, h.zero
	return h
}

// add counts all elements of data. It allocates only when an octave is seen for the first time.
func (h *histogram) add(data []float32) {
	const mask = binsPerOctave - 1
	t := &h.table
	for len(data) >= 4 {
		a, b := math.Float32bits(data[0]), math.Float32bits(data[1])
		c, d := math.Float32bits(data[2]), math.Float32bits(data[3])
		data = data[4:]
		if (a|b|c|d)<<1 == 0 { // runs of zeros would all wait for one counter
			h.zero[0] += 4
			continue
		}
		oa, ob, oc, od := t[a>>23], t[b>>23], t[c>>23], t[d>>23]
		if oa == nil || ob == nil || oc == nil || od == nil {
			for _, bits := range [...]uint32{a, b, c, d} {
				h.one(bits)
			}
			continue
		}
		oa[a>>binShift&mask]++
		ob[b>>binShift&mask]++
		oc[c>>binShift&mask]++
		od[d>>binShift&mask]++
	}
	for _, x := range data {
		h.one(math.Float32bits(x))
	}
}

func (h *histogram) one(bits uint32) {
	o := h.table[bits>>23]
	if o == nil {
		h.miss(bits)
		return
	}
	o[bits>>binShift&(binsPerOctave-1)]++
}

// miss counts a value whose octave has no counters yet.
func (h *histogram) miss(bits uint32) {
	o := h.reach(bits >> 23)
	switch {
	case o != nil:
		o[bits>>binShift&(binsPerOctave-1)]++
	case bits<<9 != 0:
		h.nan++
	default:
		h.inf[bits>>31]++
	}
}

// reach returns the counters for a sign and exponent, making them if needed; nil for the exponent of infinities and NaN.
func (h *histogram) reach(index uint32) *octave {
	e := int(index & 255)
	if e > finiteTop {
		return nil
	}
	if e > h.top {
		h.raise(e)
	}
	if h.table[index] == nil {
		if n := len(h.free); n > 0 {
			h.table[index], h.free = h.free[n-1], h.free[:n-1]
		} else {
			h.table[index] = new(octave)
		}
	}
	return h.table[index]
}

// raise makes top the largest octave and folds those that are too far below it now.
func (h *histogram) raise(top int) {
	first := max(h.low(), 1)
	h.top = top
	for e := first; e < h.low(); e++ {
		for s, fold := range h.fold {
			i := s<<8 | e
			if o := h.table[i]; o != nil {
				fold[0] += sum(o)
				*o = octave{}
				h.free = append(h.free, o)
			}
			h.table[i] = fold
		}
	}
}

// low is the lowest exponent that is kept apart.
func (h *histogram) low() int { return max(h.top-keptOctaves, 1) }

func sum(o *octave) uint64 {
	n := uint64(0)
	for _, c := range o {
		n += c
	}
	return n
}

// merge adds the counts of o.
func (h *histogram) merge(o *histogram) {
	if o.top > h.top {
		h.raise(o.top)
	}
	h.zero[0] += sum(o.zero)
	for s := range h.fold {
		h.fold[s][0] += sum(o.fold[s])
		h.inf[s] += o.inf[s]
		for e := o.low(); e <= o.top; e++ {
			from := o.table[s<<8|e]
			if from == nil {
				continue
			}
			to := h.reach(uint32(s<<8 | e))
			for i, c := range from {
				to[i] += c
			}
		}
	}
	h.nan += o.nan
}

// edges returns the bounds of |x| in bin i of octave e: [lo, hi).
func edges(e, i int) (lo, hi float64) {
	return math.Ldexp(binsPerOctave+float64(i), e-137), math.Ldexp(binsPerOctave+float64(i)+1, e-137)
}

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
		if n := sum(h.fold[sign]); n > 0 && !yield(Bin{0, h.foldEdge(), n}) {
			return
		}
		for e := h.low(); e <= h.top; e++ {
			o := h.table[sign<<8|e]
			if o == nil {
				continue
			}
			for i, c := range o {
				if c > 0 {
					if lo, hi := edges(e, i); !yield(Bin{lo, hi, c}) {
						return
					}
				}
			}
		}
	}
}

// bins yields all bins in ascending order of x.
func (h *histogram) bins(yield func(Bin) bool) {
	for e := h.top; e >= h.low() && h.top > 0; e-- {
		o := h.table[256|e]
		if o == nil {
			continue
		}
		for i := binsPerOctave - 1; i >= 0; i-- {
			if c := o[i]; c > 0 {
				if lo, hi := edges(e, i); !yield(Bin{-hi, -lo, c}) {
					return
				}
			}
		}
	}
	if n := sum(h.fold[1]); n > 0 && !yield(Bin{-h.foldEdge(), 0, n}) {
		return
	}
	if n := sum(h.zero); n > 0 && !yield(Bin{0, 0, n}) {
		return
	}
	for b := range h.side(0) {
		if !yield(b) {
			return
		}
	}
}

// count is the number of finite values.
func (h *histogram) count() uint64 {
	n := uint64(0)
	for b := range h.bins {
		n += b.Count
	}
	return n
}
