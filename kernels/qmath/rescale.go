package qmath

// Rescale moves codes from one grid to another: what concatenation, data movement and a Q/DQ pair between two quantized
// tensors need.
type Rescale struct {
	X, Y    Grid
	Scaling Scaling
	M       Multiplier // of y = (q - zx) * M + zy; unused where Float
	// Float says: dequantize, then quantize with Quantizer.
	Float     bool
	Quantizer Quantizer
	// Eighth is XNNPACK's multiplier, in units of 2^-8, 0 elsewhere: ((q - zx)*Eighth + 128) >> 8 + zy.
	Eighth int32
}

// PrepareRescale returns the requantization from grid x to grid y. y.QMin and y.QMax clamp.
func (p Profile) PrepareRescale(x, y Grid) (Rescale, error) {
	r := Rescale{X: x, Y: y, Scaling: p.Scaling, Quantizer: p.Quantizer(y)}
	if err := p.scales(x.Scale, y.Scale); err != nil {
		return Rescale{}, err
	}
	switch p.Family {
	case FloatFamily, ORT:
		r.Float = true
		return r, nil
	case XNNPACK:
		f := x.Scale / y.Scale
		if f < 0x1p-8 || f > 0x1p7 {
			return Rescale{}, scaleErrorf("profile %s: rescaling by %g (from %g to %g) is outside [2^-8, 2^7]", p.Name, f, x.Scale, y.Scale)
		}
		r.Eighth = int32(HalfEven.Round(float64(256 * f)))
		return r, nil
	}
	m, err := p.multiplier(float64(x.Scale)/float64(y.Scale), x.Scale, y.Scale)
	r.M = m
	return r, err
}

// At returns the code on grid Y of code q on grid X.
func (r Rescale) At(q int32) int32 {
	switch {
	case r.Float:
		return r.Quantizer.At(r.X.Dequantize(q))
	case r.Eighth != 0:
		return clamp64((int64(q-r.X.ZeroPoint)*int64(r.Eighth)+128)>>8+int64(r.Y.ZeroPoint), r.Y.QMin, r.Y.QMax)
	}
	return r.Scaling.Requantize(q-r.X.ZeroPoint, r.M, r.Y.ZeroPoint, r.Y.QMin, r.Y.QMax)
}
