package qmath

// Skip is a prepared residual: what RequantizeAdd adds to the scaled accumulator.
type Skip struct {
	Scale     float32 // of one step of the residual, in units of acc*Multiplier.Scale
	ZeroPoint int32
}

// PrepareSkip returns the residual with codes on grid g for a layer whose output has scale y. Only profiles that FusesAdd
// have it.
func (p Profile) PrepareSkip(g Grid, y float32) Skip {
	s := Skip{Scale: g.Scale, ZeroPoint: g.ZeroPoint}
	if p.Form == FloatAfter {
		s.Scale = g.Scale / y
	}
	return s
}

// RequantizeAdd is Requantize with the residual code q added, dequantized, before the one rounding.
func (p Profile) RequantizeAdd(acc int32, m Multiplier, q int32, s Skip, zp, lo, hi int32) int32 {
	return p.RequantizeAdd64(int64(acc), m, q, s, zp, lo, hi)
}

// RequantizeAdd64 is RequantizeAdd for accumulators of 64 bits.
func (p Profile) RequantizeAdd64(acc int64, m Multiplier, q int32, s Skip, zp, lo, hi int32) int32 {
	v := p.scaleFloat(float32(acc), m) + float32(float32(q-s.ZeroPoint)*s.Scale)
	return p.roundFloat(v, m, zp, lo, hi)
}

// Accumulated returns the float32 value of an accumulator whose output is not quantized: float32(acc)*float32(x*w) + bias.
func (c Channel) Accumulated(acc int32) float32 {
	return c.Accumulated64(int64(acc))
}

// Accumulated64 is Accumulated for accumulators of 64 bits.
func (c Channel) Accumulated64(acc int64) float32 {
	return float32(float32(acc)*float32(c.X*c.W)) + c.Bias
}
