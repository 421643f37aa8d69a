package observers

import (
	"math"

	"qwb/kernels/qmath"
)

// moments answers, for one sign, how many values lie below a magnitude and what their sum and sum of squares are, in
// constant time. Inside a bin values are taken as evenly spread.
type moments struct {
	low   int // lowest exponent kept apart
	limit float64
	bins  []binMoments // from the lowest bin of octave low on; one more at the end
}

type binMoments struct {
	lo      float64 // lower bound
	density float64
	below   sums // of all values below lo
}

// sums are a count, a sum and a sum of squares.
type sums struct{ n, x, xx float64 }

func (s sums) minus(o sums) sums { return sums{s.n - o.n, s.x - o.x, s.xx - o.xx} }

// between returns the sums of values spread evenly over [a, b) with the given density.
func between(a, b, density float64) sums {
	d := float64(density * (b - a))
	aa, ab, bb := float64(a*a), float64(a*b), float64(b*b)
	return sums{d, float64(d*(a+b)) / 2, float64(d*(aa+ab+bb)) / 3}
}

// newMoments sums up one sign; largest is the exact largest magnitude of that sign.
func newMoments(h *histogram, sign int, largest float64) *moments {
	m := &moments{low: h.low(), limit: largest}
	var at sums
	if n := h.folded(sign); n > 0 {
		w := h.foldEdge()
		at = between(0, w, float64(n)/w)
	}
	m.bins = make([]binMoments, 0, (h.top-m.low+1)*binsPerOctave+1)
	for e := m.low; e <= h.top; e++ {
		first, width := h.octave(sign, e), binWidth(e)
		for i := range binsPerOctave {
			lo := float64((binsPerOctave + float64(i)) * width)
			hi := lo + width
			b := binMoments{lo: lo, below: at}
			if n := h.at(first + i); n > 0 {
				if largest < hi { // the last one; a single value still needs some width
					hi = max(largest, math.Nextafter(lo, hi))
				}
				b.density = float64(n) / (hi - lo)
				in := between(lo, hi, b.density)
				at = sums{at.n + in.n, at.x + in.x, at.xx + in.xx}
			}
			m.bins = append(m.bins, b)
		}
	}
	m.bins = append(m.bins, binMoments{lo: math.Inf(1), below: at})
	return m
}

// all returns the sums over all values of the sign.
func (m *moments) all() sums { return m.bins[len(m.bins)-1].below }

// none is the bin below all others. What was folded is far below any step; it counts with the first bin.
var none binMoments

// find returns the bin that t lies in. Float32 bits truncated are the bits of the float64 without its last ones, so t need
// not be rounded.
func (m *moments) find(t float64) *binMoments {
	if t >= m.limit {
		return &m.bins[len(m.bins)-1]
	}
	i := int(math.Float64bits(t)>>(52-10)) - (m.low+1023-127)*binsPerOctave
	if i < 0 {
		return &none
	}
	return &m.bins[min(i, len(m.bins)-1)]
}

// countBelow returns how many values have a magnitude less than t.
func (m *moments) countBelow(t float64) float64 {
	b := m.find(t)
	if b.density == 0 {
		return b.below.n
	}
	return b.below.n + float64(b.density*(t-b.lo))
}

// below returns the sums over the values of magnitude less than t.
func (m *moments) below(t float64) sums {
	b := m.find(t)
	if b.density == 0 {
		return b.below
	}
	in := between(b.lo, t, b.density)
	return sums{b.below.n + in.n, b.below.x + in.x, b.below.xx + in.xx}
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
		at := m.below(edge)
		total += max(distance(at.minus(last), float64(float64(k)*scale)), 0)
		last = at
		if edge >= m.limit || before+total > most {
			break
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
