package observers

import (
	"math"
	"slices"
	"sync"

	"qwb/kernels/qmath"
)

// moments answers, for one sign, how many values lie below a magnitude and what their sum and sum of squares are, in
// constant time. Inside a bin values are taken as evenly spread. Use newMoments, and free when done.
type moments struct {
	first int // binOf the lower bound of the first bin
	limit float64
	bins  []binMoments // of all octaves from the first to the last with values; one more at the end
}

// binMoments is what lies below a bin and in it. Of a bin without values density is the lower bound of the next one that has some,
// negative: -Inf at the end.
type binMoments struct {
	density float64
	below   sums // of all values below the lower bound
}

// sums are a count, a sum and a sum of squares.
type sums struct{ n, x, xx float64 }

func (s sums) minus(o sums) sums { return sums{s.n - o.n, s.x - o.x, s.xx - o.xx} }

func (s sums) plus(o sums) sums { return sums{s.n + o.n, s.x + o.x, s.xx + o.xx} }

// between returns the sums of values spread evenly over [a, b) with the given density.
func between(a, b, density float64) sums {
	d := float64(density * (b - a))
	aa, ab, bb := float64(a*a), float64(a*b), float64(b*b)
	return sums{d, float64(d*(a+b)) / 2, float64(d*(aa+ab+bb)) / 3}
}

// momentsMemory has the bins of moments that were freed: half a megabyte for a tensor's sign, and an observer asks for it anew each time.
var momentsMemory sync.Pool

// newMoments sums up one sign; largest is the exact largest magnitude of that sign.
func newMoments(h *histogram, sign int, largest float64) *moments {
	m, _ := momentsMemory.Get().(*moments)
	if m == nil {
		m = &moments{}
	}
	var at sums
	low, top := h.low(), h.top
	if n := h.folded(sign); n > 0 {
		w := h.foldEdge()
		at = between(0, w, float64(n)/w)
	} else {
		for low <= top && h.noneIn(sign, low) {
			low++
		}
		for low < top && h.noneIn(sign, top) {
			top--
		}
	}
	m.limit, m.first, m.bins = largest, (low+1023-127)*binsPerOctave, slices.Grow(m.bins[:0], max(top-low+1, 0)*binsPerOctave+1)
	for e := low; e <= top; e++ {
		first, width := h.octave(sign, e), binWidth(e)
		for i := range binsPerOctave {
			b := binMoments{below: at}
			if n := h.at(first + i); n > 0 {
				lo := float64((binsPerOctave + float64(i)) * width)
				hi := lo + width
				if largest < hi { // the last one; a single value still needs some width
					hi = max(largest, math.Nextafter(lo, hi))
				}
				b.density = float64(n) / (hi - lo)
				at = at.plus(between(lo, hi, b.density))
			}
			m.bins = append(m.bins, b)
		}
	}
	m.bins = append(m.bins, binMoments{below: at})
	next := math.Inf(-1)
	for i := len(m.bins) - 1; i >= 0; i-- {
		if b := &m.bins[i]; b.density == 0 {
			b.density = next
		} else {
			next = -binAt(m.first + i)
		}
	}
	return m
}

// free gives the memory of moments back, which nobody uses any more.
func (m *moments) free() { momentsMemory.Put(m) }

// all returns the sums over all values of the sign.
func (m *moments) all() sums { return m.bins[len(m.bins)-1].below }

// binBits are those of a float64 that a bin's number does not have. Float32 bits truncated are the bits of the float64 without its last
// ones, so what lies in a bin need not be rounded.
const binBits = 52 - 10

func binOf(t float64) int { return int(math.Float64bits(t) >> binBits) }

// binAt is the lower bound of a bin, floorOf that of the bin that a magnitude lies in.
func binAt(bin int) float64 { return math.Float64frombits(uint64(bin) << binBits) }
func floorOf(t float64) float64 {
	return math.Float64frombits(math.Float64bits(t) >> binBits << binBits)
}

// none is the bin below all others. What was folded is far below any step; it counts with the first bin.
var none binMoments

// find returns the bin that t lies in.
func (m *moments) find(t float64) *binMoments {
	if t >= m.limit {
		return &m.bins[len(m.bins)-1]
	}
	i := binOf(t) - m.first
	if i < 0 {
		return &none
	}
	return &m.bins[min(i, len(m.bins)-1)]
}

// countBelow returns how many values have a magnitude less than t.
func (m *moments) countBelow(t float64) float64 {
	b := m.find(t)
	if b.density <= 0 {
		return b.below.n
	}
	return b.below.n + float64(b.density*(t-floorOf(t)))
}

// below returns the sums over the values of magnitude less than t.
func (m *moments) below(t float64) sums {
	b := m.find(t)
	if b.density <= 0 {
		return b.below
	}
	return b.below.plus(between(floorOf(t), t, b.density))
}

// exactLevels is up to how many levels per sign the error is summed level by level. With more, a step is no wider than two
// bins of the largest octave and the error inside a bin is that of an even spread.
const exactLevels = 512

// clipError is the summed squared distance of the values above top to it, of no value more than limit^2; +Inf is no limit.
func (m *moments) clipError(top, limit float64) float64 {
	all := m.all()
	clipped := max(distance(all.minus(m.below(top)), top), 0)
	if top+limit >= m.limit {
		return clipped
	}
	far := all.minus(m.below(top + limit))
	return max(clipped-distance(far, top), 0) + float64(float64(limit*limit)*far.n)
}

// distance is the sum of (x-c)^2.
func distance(s sums, c float64) float64 { return s.xx - float64(2*c*s.x) + float64(float64(c*c)*s.n) }

// error is the summed squared error of quantizing the magnitudes to scale*k for k in [0, levels]; limit is that of clipError.
// Where that and before are more than most together it is less than it should be, but still more than that.
func (m *moments) error(scale float64, levels int, limit, before, most float64) float64 {
	if len(m.bins) == 1 || m.limit == 0 {
		return m.all().xx
	}
	top := float64(float64(levels) * scale)
	total := m.clipError(top, limit)
	if levels > exactLevels {
		return total + float64(m.countBelow(top)*float64(scale*scale))/12
	}
	var last sums
	for k := 0; k <= levels; k++ {
		edge := float64((float64(k) + 0.5) * scale)
		if k == levels {
			edge = top
		}
		b := m.find(edge)
		at := b.below
		if b.density > 0 {
			at = at.plus(between(floorOf(edge), edge, b.density))
		}
		total += max(distance(at.minus(last), float64(float64(k)*scale)), 0)
		last = at
		if edge >= m.limit || before+total > most {
			break
		}
		if next := -b.density; next > edge+scale { // levels whose edges lie before the next value add nothing
			k = max(k, min(int(min(next/scale-0.5, exactLevels)), levels)-1)
		}
	}
	return total
}

// quantizer is what a candidate range comes to: the scale and how many levels lie on each side of zero.
type quantizer struct {
	scale    float64
	neg, pos int
}

// quantizerOf asks qmath.
func quantizerOf(r Range, s qmath.Scheme) (quantizer, error) {
	scale, zp, _, err := qmath.ScaleFromRange(r.Lo, r.Hi, s)
	return quantizer{float64(scale), int(zp) - int(s.QMin), int(s.QMax) - int(zp)}, err
}
