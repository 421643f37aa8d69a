package qmath

import (
	"math"
)

// HardSwish returns the table of x*min(max(x+3, 0), 6)/6 on 8-bit codes. TFLite has a form of its own, in 16-bit fixed point;
// the others compute the float32 function.
func (p Profile) HardSwish(x, y Grid) (Table, error) {
	if err := p.scales(x.Scale, y.Scale); err != nil {
		return Table{}, err
	}
	if p.Family != TFLite || p.Own {
		return p.Table(x, y, func(v float32) float32 { return float32(v*min(max(v+3, 0), 6)) / 6 }), nil
	}
	h, err := p.prepareHardSwish(x, y)
	if err != nil {
		return Table{}, err
	}
	return tableOf(x, h.at), nil
}

// hardSwish is TFLite's: the input on a scale 2^7 times finer, once on the output's scale and once where 3 is 2^15.
type hardSwish struct {
	x, y         Grid
	out, relu    int16 // multipliers of 15 bits
	outExp, rExp int32
}

func (p Profile) prepareHardSwish(x, y Grid) (hardSwish, error) {
	fine := float32(1.0/128) * x.Scale
	out, outExp := significand(float64(fine / y.Scale))
	relu, rExp := significand(float64(fine / (float32(3) / 32768)))
	if outExp > 0 || outExp < -15 || rExp > 16 {
		return hardSwish{}, scaleErrorf("profile %s: hard swish from scale %g to %g is outside TFLite's fixed point", p.Name, x.Scale, y.Scale)
	}
	if rExp < -15 {
		relu, rExp = 0, 0 // the fixed-point value rounds to 0 for every code
	}
	return hardSwish{x: x, y: y, out: narrow(out), relu: narrow(relu), outExp: outExp, rExp: rExp}, nil
}

// narrow rounds a multiplier of 31 bits to 15, half up, saturating.
func narrow(m int32) int16 {
	return int16(min((int64(m)+1<<15)>>16, math.MaxInt16))
}

func (h hardSwish) at(q int32) int32 {
	fine := int16((q - h.x.ZeroPoint) << 7)
	scaled := highMul16(fine, h.out)
	relu := fine
	if h.rExp > 0 {
		relu = shiftLeft16(relu, h.rExp-1)
	}
	relu = highMul16(relu, h.relu)
	switch {
	case h.rExp > 0:
		relu = shiftLeft16(relu, 1)
	case h.rExp < 0:
		relu = int16(DivideByPowerOfTwo(int32(relu), -h.rExp))
	}
	gate := int16((int32(relu) + 1<<15) >> 1)                 // [-1, 1) to [0, 1)
	product := int16(int32(gate) * int32(scaled) / (1 << 15)) // truncating, as TFLite does against a bias
	return min(max(DivideByPowerOfTwo(int32(product), -h.outExp)+h.y.ZeroPoint, h.y.QMin), h.y.QMax)
}

// highMul16 is DoublingHighMul of 16 bits.
func highMul16(a, b int16) int16 {
	if a == math.MinInt16 && b == math.MinInt16 {
		return math.MaxInt16
	}
	ab := int32(a) * int32(b)
	nudge := int32(1 << 14)
	if ab < 0 {
		nudge = 1 - nudge
	}
	return int16((ab + nudge) / (1 << 15))
}

func shiftLeft16(v int16, n int32) int16 {
	return int16(min(max(int64(v)<<n, math.MinInt16), math.MaxInt16))
}
