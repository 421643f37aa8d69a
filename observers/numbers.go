package observers

import (
	"slices"

	"qwb/kernels/qmath"
)

// numbers are the magnitudes that a format which is no integer has on each side of zero, ascending from 0.
type numbers struct{ pos, neg []float64 }

// numbersOf returns nil for integers.
func numbersOf(f qmath.Format) *numbers {
	if f.Integer() {
		return nil
	}
	n := &numbers{pos: []float64{0}, neg: []float64{0}}
	c := qmath.Codec{Format: f, Scale: 1}
	for code := range int32(1) << f.Bits {
		switch v := float64(c.Dequantize(code)); {
		case v-v != 0: // infinity and NaN have codes too
		case v > 0:
			n.pos = append(n.pos, v)
		case v < 0:
			n.neg = append(n.neg, -v)
		}
	}
	slices.Sort(n.pos)
	slices.Sort(n.neg)
	return n
}

// errorTo is the summed squared error of taking the magnitudes to the nearest of list times scale; limit is that of clipError, before and
// most those of error.
func (m *moments) errorTo(list []float64, scale, limit, before, most float64) float64 {
	if len(m.bins) == 1 || m.limit == 0 {
		return m.all().xx
	}
	top := float64(list[len(list)-1] * scale)
	total := m.clipError(top, limit)
	var last sums
	for k, v := range list {
		edge := top
		if k+1 < len(list) {
			edge = float64((v + list[k+1]) / 2 * scale)
		}
		at := m.below(edge)
		total += max(distance(at.minus(last), float64(v*scale)), 0)
		last = at
		if edge >= m.limit || before+total > most {
			break
		}
	}
	return total
}
