package qmath

import "math"

// Grid is the integer grid of one scale: real = (q - ZeroPoint) * Scale with q in [QMin, QMax].
type Grid struct {
	Scale      float32 // > 0 and finite
	ZeroPoint  int32   // in [QMin, QMax]
	QMin, QMax int32
	Rounding   Rounding
}

// Quantize returns clamp(round(x/scale) + zero point, qmin, qmax). The division is a true float32 division and rounding
// comes before the zero point is added, as in ONNX QuantizeLinear. +Inf and -Inf saturate. NaN gives the zero point;
// callers report NaN before they quantize.
func (g Grid) Quantize(x float32) int32 {
	v := float64(x / g.Scale)
	if v != v {
		return g.ZeroPoint
	}
	r := g.Rounding.Round(v)
	// Clamp while still in float64: the quotient may be far outside int32.
	if r <= float64(g.QMin)-float64(g.ZeroPoint) {
		return g.QMin
	}
	if r >= float64(g.QMax)-float64(g.ZeroPoint) {
		return g.QMax
	}
	return int32(r) + g.ZeroPoint
}

// QuantizeSlice writes Quantize(src[i]) to dst[i]. len(dst) must be at least len(src).
func (g Grid) QuantizeSlice(dst []int32, src []float32) {
	dst = dst[:len(src)]
	if g.Rounding != HalfEven {
		for i, x := range src {
			dst[i] = g.Quantize(x)
		}
		return
	}
	lo, hi := float64(g.QMin)-float64(g.ZeroPoint), float64(g.QMax)-float64(g.ZeroPoint)
	if lo > -1<<22 && hi < 1<<22 {
		g.quantizeNarrow(dst, src, float32(lo), float32(hi))
		return
	}
	for i, x := range src {
		v := float64(x / g.Scale)
		if v != v {
			dst[i] = g.ZeroPoint
			continue
		}
		dst[i] = int32(min(max(math.RoundToEven(v), lo), hi)) + g.ZeroPoint
	}
}

// quantizeNarrow is QuantizeSlice with limits before the zero point within 22 bits, where adding 1.5*2^23 leaves no room for a fraction: it
// rounds half to even.
func (g Grid) quantizeNarrow(dst []int32, src []float32, lo, hi float32) {
	for i, x := range src {
		switch v := x / g.Scale; {
		case v <= lo:
			dst[i] = g.QMin
		case v >= hi:
			dst[i] = g.QMax
		case v == v:
			dst[i] = nearestEven(v) + g.ZeroPoint
		default:
			dst[i] = g.ZeroPoint
		}
	}
}

// Dequantize returns float32(q - zero point) * scale, as ONNX DequantizeLinear does. The difference is exact before it is
// rounded to float32.
func (g Grid) Dequantize(q int32) float32 {
	return float32(float32(int64(q)-int64(g.ZeroPoint)) * g.Scale) // rounded here, not fused with what follows
}

// Nearest returns Quantize(x) and Dequantize of that. x is not NaN.
func (g *Grid) Nearest(x float32) (code int32, value float32) {
	lo, hi := g.QMin-g.ZeroPoint, g.QMax-g.ZeroPoint
	if g.Rounding != HalfEven || lo <= -1<<22 || hi >= 1<<22 || g.ZeroPoint > 1<<22 || g.ZeroPoint < -1<<22 {
		code = g.Quantize(x)
		return code, g.Dequantize(code)
	}
	v := x / g.Scale
	switch low, high := float32(lo), float32(hi); {
	case v <= low:
		return g.QMin, float32(low * g.Scale) // rounded here, as in Dequantize
	case v >= high:
		return g.QMax, float32(high * g.Scale)
	}
	code = nearestEven(v)
	return code + g.ZeroPoint, float32(float32(code) * g.Scale)
}

// Fake returns Dequantize(Quantize(x)).
func (g Grid) Fake(x float32) float32 { return g.Dequantize(g.Quantize(x)) }

// Clip returns x limited to the range the grid can represent, without rounding: the middle of the chain
// float -> clipped -> rounded. NaN stays NaN.
func (g Grid) Clip(x float32) float32 {
	lo, hi := g.Dequantize(g.QMin), g.Dequantize(g.QMax)
	switch {
	case x < lo:
		return lo
	case x > hi:
		return hi
	}
	return x
}

// ClipSlice writes Clip(src[i]) to dst[i]; dst may be src. len(dst) must be at least len(src).
func (g Grid) ClipSlice(dst, src []float32) {
	lo, hi := g.Dequantize(g.QMin), g.Dequantize(g.QMax)
	dst = dst[:len(src)]
	for i, x := range src {
		if x < lo {
			x = lo
		}
		if x > hi {
			x = hi
		}
		dst[i] = x
	}
}

// FakeSlice writes Fake(src[i]) to dst[i]; dst may be src. len(dst) must be at least len(src). It equals Fake for every
// element, bit for bit.
func (g Grid) FakeSlice(dst, src []float32) {
	if !g.Narrow() {
		for i, x := range src {
			dst[i] = g.Fake(x)
		}
		return
	}
	// Adding and subtracting 1.5*2^23 rounds a float32 of magnitude below 2^22 half to even; the clamp comes first, which
	// gives the same because its bounds are integers.
	const magic = 3 << 22
	lo, hi := float32(g.QMin-g.ZeroPoint), float32(g.QMax-g.ZeroPoint)
	s := g.Scale
	dst = dst[:len(src)]
	for i, x := range src {
		v := x / s
		if v != v {
			v = 0
		}
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		dst[i] = float32(float32(v+magic)-magic) * s
	}
}

// Narrow reports whether Fake may be computed in float32 throughout, as FakeSlice does. That is so if rounding is half to even
// and all quotients inside the grid are below 2^22.
func (g Grid) Narrow() bool {
	const limit = 1 << 20
	return g.Rounding == HalfEven && g.QMin >= -limit && g.QMax <= limit && g.ZeroPoint >= -limit && g.ZeroPoint <= limit
}

// Representable reports whether scale can be used at all: finite and greater than zero.
func Representable(scale float32) bool {
	return scale > 0 && !math.IsInf(float64(scale), 0)
}

// Workable reports whether engines compute with scale as it stands: it is representable, not subnormal (some take those for 0), and 127
// steps of it are finite in float32. ScaleFromRange gives no other.
func Workable(scale float32) bool {
	return scale >= smallestNormal && scale <= math.MaxFloat32/127
}

// PoolFactor reports whether ONNX Runtime's GlobalAveragePool on integers takes the scales of its input and its result for a mean of n
// numbers: in / (out * n) from 2^-32 to below 2^8 (CheckQLinearGlobalAveragePoolScaleAndSize); it ends with an error beyond.
func PoolFactor(in, out float32, n int) bool {
	f := in / (out * float32(n))
	return f >= 0x1p-32 && f < 256
}

// QuantizeColumns writes grids[i].Quantize(src[i]) to dst[i]: a row of a matrix whose columns have scales. dst and grids must be at least
// as long as src.
func QuantizeColumns(dst []int32, src []float32, grids []Grid) {
	const whole = 3 << 22 // see quantizeNarrow
	dst, grids = dst[:len(src)], grids[:len(src)]
	for i, x := range src {
		g := &grids[i]
		lo, hi, v := g.QMin-g.ZeroPoint, g.QMax-g.ZeroPoint, x/g.Scale
		switch {
		case g.Rounding != HalfEven || lo <= -1<<22 || hi >= 1<<22 || v != v:
			dst[i] = g.Quantize(x)
		case v <= float32(lo):
			dst[i] = g.QMin
		case v >= float32(hi):
			dst[i] = g.QMax
		default:
			dst[i] = int32(float32(v+whole)-whole) + g.ZeroPoint
		}
	}
}
