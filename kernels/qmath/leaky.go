package qmath

import "math"

// LeakyRelu returns the table of x for x >= 0 and alpha*x below, on 8-bit codes. TFLite scales by one of two multipliers,
// (s_x/s_y) and (s_x*alpha)/s_y in float32; the others compute the float32 function.
func (p Profile) LeakyRelu(x, y Grid, alpha float32) (Table, error) {
	if err := p.scales(x.Scale, y.Scale); err != nil {
		return Table{}, err
	}
	if p.Family != TFLite || p.Own {
		return p.Table(x, y, func(v float32) float32 {
			if v >= 0 {
				return v
			}
			return alpha * v
		}), nil
	}
	above, err := p.multiplier(float64(x.Scale/y.Scale), x.Scale, y.Scale)
	if err != nil {
		return Table{}, err
	}
	below, err := p.multiplier(math.Abs(float64(float32(x.Scale*alpha)/y.Scale)), x.Scale, alpha, y.Scale)
	if err != nil {
		return Table{}, err
	}
	if alpha < 0 {
		below.M = -below.M
	}
	return tableOf(x, func(q int32) int32 {
		m := above
		if q < x.ZeroPoint {
			m = below
		}
		return p.Requantize(q-x.ZeroPoint, m, y.ZeroPoint, y.QMin, y.QMax)
	}), nil
}
