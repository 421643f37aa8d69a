package qmath

// AffineRule says how groups of neighbours become codes from 0 to Max with a scale above 0 and a zero point each: the code of 0, which
// every group has. Stored is a scale as it is read again.
type AffineRule struct {
	Max    int32
	Stored func(scale float32) float32
}

// Factors are the scale and the zero point of a group: those of the span of x and 0. A group of zeros, and one whose scale is stored as
// 0, has scale 0. x is finite.
func (r AffineRule) Factors(x []float32) (scale float32, zero int32) {
	return r.of(spanOf(x))
}

// spanOf is the span of x and 0.
func spanOf(x []float32) (lo, hi float32) {
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

func (r AffineRule) of(lo, hi float32) (scale float32, zero int32) {
	if scale = r.Stored((hi - lo) / float32(r.Max)); scale == 0 {
		return 0, 0
	}
	return scale, int32(min(max(HalfEven.Round(float64(-lo/scale)), 0), float64(r.Max)))
}

// shrinks is how many spans Weighted tries, each 2 % of the whole less than the one before.
const shrinks = 20

// Weighted are factors under which the sum of importance * squared error is small: those of Factors, or of the spans that are shorter on
// one side or on both, with the scale that is best for the codes that they give.
func (r AffineRule) Weighted(x []float32, importance []float64) (scale float32, zero int32) {
	lo, hi := spanOf(x)
	if scale, zero = r.of(lo, hi); scale == 0 {
		return scale, zero
	}
	least, _ := r.error(x, importance, scale, zero)
	for k := range shrinks {
		part := 1 - float32(k)*0.02
		for _, span := range [][2]float32{{lo * part, hi * part}, {lo, hi * part}, {lo * part, hi}} {
			s, z := r.of(span[0], span[1])
			if s == 0 {
				continue
			}
			_, best := r.error(x, importance, s, z)
			for _, s := range []float32{s, r.Stored(best)} {
				if s <= 0 || s-s != 0 {
					continue
				}
				if e, _ := r.error(x, importance, s, z); e < least {
					scale, zero, least = s, z, e
				}
			}
		}
	}
	return scale, zero
}

// Code is the code of an element.
func (r AffineRule) Code(x, scale float32, zero int32) int32 {
	if scale == 0 {
		return zero
	}
	return Grid{Scale: scale, ZeroPoint: zero, QMax: r.Max, Rounding: HalfEven}.Quantize(x)
}

// error is the sum of importance * squared error of a group, and the scale that is best for its codes.
func (r AffineRule) error(x []float32, importance []float64, scale float32, zero int32) (sum float64, best float32) {
	var xq, qq float64
	for i, v := range x {
		w := weightOf(importance, i)
		q := float64(r.Code(v, scale, zero) - zero)
		d := float64(v) - q*float64(scale)
		sum += d * d * w
		xq, qq = xq+float64(v)*q*w, qq+q*q*w
	}
	if qq > 0 {
		best = float32(xq / qq)
	}
	return sum, best
}
