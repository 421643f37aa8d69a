package qmath

// Quantizer turns float32 into codes at the borders of the quantized part of a graph.
type Quantizer struct {
	Grid
	// Reciprocal is 1/Scale where the target multiplies by it, 0 where it divides.
	Reciprocal float32
}

// Quantizer returns how the profile's target quantizes to grid g; g.Rounding is replaced by the target's. Dequantizing is the
// same everywhere: Grid.Dequantize.
func (p Profile) Quantizer(g Grid) Quantizer {
	q := Quantizer{Grid: g}
	switch {
	case p.Own:
		q.Rounding = p.Quantize
		return q
	case p.Family == TFLite, p.Family == TVM:
		q.Rounding = HalfAwayFromZero
	case p.Family == PowerOfTwo, p.Form == FloatTwice, p.Form == FloatAfter && p.Family == FloatFamily:
		q.Rounding = p.Rounding
	default:
		q.Rounding = HalfEven
	}
	if p.Family == XNNPACK || p.Form == FloatTwice {
		q.Reciprocal = 1 / g.Scale
	}
	if p.Form == FloatTwice {
		q.QMin = max(q.QMin, -127)
	}
	return q
}

// At returns the code of x. Infinities saturate, NaN gives the zero point.
func (q Quantizer) At(x float32) int32 {
	if q.Reciprocal == 0 {
		return q.Quantize(x)
	}
	v := q.Rounding.Round(float64(float32(x * q.Reciprocal)))
	return clampFloat(v, q.ZeroPoint, q.QMin, q.QMax)
}
