package qmath

import (
	"math"
)

// Product is a prepared elementwise multiplication of codes.
type Product struct {
	A, B, Y Grid
	Scaling Scaling
	M       Multiplier // of y = (a - za)*(b - zb) * M + zy; unused where Float
	// Float says: dequantize both, multiply in float32, quantize with Quantizer.
	Float     bool
	Quantizer Quantizer
}

// PrepareProduct returns the multiplication of codes on grid a by codes on grid b, with its result on grid y. y.QMin and
// y.QMax clamp: a fused activation narrows them.
//
// The factor is s_a*s_b/s_y: with TFLite (s_a*s_b)/s_y in float32 throughout, although its convolutions use float64. ONNX
// Runtime adds the zero point inside the rounding here, and has only 8-bit codes: others are computed in float32. So are, everywhere,
// codes of 16 bits with zero points whose products may leave int32, which no engine multiplies; between powers of two they are an error.
func (p Profile) PrepareProduct(a, b, y Grid) (Product, error) {
	m := Product{A: a, B: b, Y: y, Scaling: p.Scaling, Quantizer: p.Quantizer(y)}
	if err := p.scales(a.Scale, b.Scale, y.Scale); err != nil {
		return Product{}, err
	}
	product := float32(a.Scale * b.Scale)
	var err error
	switch fits := a.reach()*b.reach() <= math.MaxInt32; {
	case !fits && p.Family == PowerOfTwo:
		return Product{}, scaleErrorf("profile %s: products of codes %g and %g from their zero points do not fit into int32", p.Name,
			a.reach(), b.reach())
	case !fits:
		m.Float = true
		return m, nil
	}
	switch p.Family {
	case FloatFamily:
		m.Float = true
	case ORT:
		if m.Float = wide(a) > 8 || wide(b) > 8; m.Float {
			break
		}
		m.Scaling = Scaling{Form: FloatInside}
		m.M = Multiplier{Scale: product / y.Scale}
		err = p.finite(m.M.Scale, a.Scale, b.Scale, y.Scale)
	case TFLite, XNNPACK:
		m.M, err = p.multiplier(float64(product/y.Scale), a.Scale, b.Scale, y.Scale)
	default:
		m.M, err = p.multiplier(float64(product)/float64(y.Scale), a.Scale, b.Scale, y.Scale)
	}
	return m, err
}

// At returns the code of the product of codes a and b.
func (m Product) At(a, b int32) int32 {
	if m.Float {
		return m.Quantizer.At(float32(m.A.Dequantize(a) * m.B.Dequantize(b)))
	}
	return m.Scaling.Requantize((a-m.A.ZeroPoint)*(b-m.B.ZeroPoint), m.M, m.Y.ZeroPoint, m.Y.QMin, m.Y.QMax)
}
