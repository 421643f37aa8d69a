package qmath

import (
	"fmt"
	"math"
)

// Channel is what the multiplier of one output channel is made of: the stored scales of input, weight and output.
type Channel struct {
	X, W, Y float32
	Bias    float32 // of the layer, in its own unit; read by profiles with FloatBias only
	// Dense says: Gemm or MatMul with one weight scale for all channels. TFLite multiplies its scales in float32 there.
	Dense bool
	// Connected says: Gemm or MatMul by constant weights. Profiles with Double have a form of their own for it.
	Connected bool
}

// Multiplier is the prepared factor x*w/y of one channel. An integer form uses M and Shift, a float form Scale, Bias and Out;
// the others are zero.
type Multiplier struct {
	M     int32 // 0, or in [2^30, 2^31)
	Shift int32 // the factor is M * 2^(Shift-31)
	Scale float32
	Bias  float32 // in units of acc*Scale
	Out   float32 // FloatDivide: the divisor y; FloatTwice: the second factor 1/y
	// Double, where it is not 0, takes the place of M and Shift: float64(acc)*Double is rounded half away from zero.
	Double float64
}

// Prepare returns the multiplier of a channel, computed in the operations and the order that the profile states. A scale
// that is not positive and finite, and a factor that the form cannot hold, are errors. A factor too small for M and Shift
// becomes 0, as in TFLite.
func (p Profile) Prepare(c Channel) (Multiplier, error) {
	if err := p.scales(c.X, c.W, c.Y); err != nil {
		return Multiplier{}, err
	}
	var m Multiplier
	switch p.Form {
	case FloatAfter, FloatInside:
		m = Multiplier{Scale: float32(c.X*c.W) / c.Y}
		if p.FloatBias() {
			m.Bias = c.Bias / c.Y
		}
	case FloatDivide:
		m = Multiplier{Scale: float32(c.X * c.W), Bias: c.Bias, Out: c.Y}
	case FloatTwice:
		rx, rw := 1/c.X, 1/c.W
		m = Multiplier{Scale: 1 / float32(rx*rw), Bias: c.Bias, Out: 1 / c.Y}
	default:
		var err error
		if m, err = p.multiplier(p.factor(c), c.X, c.W, c.Y); err == nil && p.Double && c.Connected {
			m.Double = float64(c.X) * float64(c.W) / float64(c.Y)
		}
		return m, err
	}
	return m, p.finite(m.Scale, c.X, c.W, c.Y)
}

// multiplier returns M and Shift of the factor f of an integer form; scales are named in its errors.
func (p Profile) multiplier(f float64, scales ...float32) (Multiplier, error) {
	if !(f < 1<<29) {
		return Multiplier{}, scaleErrorf("profile %s: the factor %g of the scales %g is too large", p.Name, f, scales)
	}
	if p.Bits != 0 {
		m, err := p.narrow(f)
		if err != nil {
			err = fmt.Errorf("profile %s: scales %g: %w", p.Name, scales, err)
		}
		return m, err
	}
	m, shift := significand(f)
	wrong := ""
	switch {
	case p.Form == ShiftOnly && m != 1<<30:
		wrong = "not a power of two"
	case p.Form == ShiftOnly && shift < -60:
		wrong = "too small"
	case p.Form != ShiftOnly && shift < -31:
		m, shift = 0, 0
	}
	if wrong != "" {
		return Multiplier{}, scaleErrorf("profile %s: the factor %g of the scales %g is %s", p.Name, f, scales, wrong)
	}
	return Multiplier{M: m, Shift: shift}, nil
}

// factor returns x*w/y as the integer form computes it, in float64.
func (p Profile) factor(c Channel) float64 {
	switch {
	case p.Family == XNNPACK:
		return float64(float32(c.X*c.W) / c.Y)
	case p.Family == TVM, c.Dense && p.Family == TFLite:
		return float64(float32(c.X*c.W)) / float64(c.Y)
	}
	return float64(c.X) * float64(c.W) / float64(c.Y)
}

// significand returns M and Shift with f = M * 2^(Shift-31) nearly, M rounded half away from zero: TFLite's
// QuantizeMultiplier before it limits the shift. f must be positive and finite.
func significand(f float64) (m, shift int32) {
	frac, exp := math.Frexp(f)
	q := int64(math.Round(frac * (1 << 31)))
	if q == 1<<31 {
		q, exp = q/2, exp+1
	}
	return int32(q), int32(exp)
}

// finite reports a float factor that is 0 or infinite.
func (p Profile) finite(m float32, scales ...float32) error {
	if !Representable(m) {
		return scaleErrorf("profile %s: the scales %g give the factor %g", p.Name, scales, m)
	}
	return nil
}

// scales reports scales that no operator can use.
func (p Profile) scales(all ...float32) error {
	for _, s := range all {
		if !Representable(s) {
			return scaleErrorf("profile %s: scale %g is not a positive number", p.Name, s)
		}
	}
	return nil
}
