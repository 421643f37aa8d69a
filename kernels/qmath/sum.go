package qmath

import (
	"fmt"
	"math"
)

// SumForm is how two codes are added. Formulas leave out the final clamp; za, zb and zy are the zero points.
type SumForm uint8

const (
	// SumFloat dequantizes both, adds in float32 and quantizes.
	SumFloat SumForm = iota
	// SumShifted is TFLite's: scale(scale((a-za) << Left, A) + scale((b-zb) << Left, B), Y) + zy.
	SumShifted
	// SumEach is TVM's: scale(a-za, A) + scale(b-zb, B) + zy, two roundings.
	SumEach
	// SumAligned is ((a-za)*MA + (b-zb)*MB) / 2^Right in 64 bits, rounded once, + zy: XNNPACK's, half up, with 21-bit
	// multipliers, and that of power-of-two scales, where they are powers of two and nothing is lost.
	SumAligned
	// SumFused is ONNX Runtime's on x64 with AVX2 and FMA: fma(a, RA, fma(b, RB, K)), half to even; K holds zy - za*RA - zb*RB,
	// so that the zero point is inside the rounding.
	SumFused
)

var sumFormNames = [...]string{"float", "shifted", "each", "aligned", "fused"}

func (f SumForm) String() string {
	if int(f) < len(sumFormNames) {
		return sumFormNames[f]
	}
	return fmt.Sprintf("sum form(%d)", uint8(f))
}

// Sum is a prepared elementwise addition or subtraction of codes.
type Sum struct {
	Form     SumForm
	A, B, Y  Grid
	Subtract bool

	Scaling   Scaling    // SumShifted, SumEach
	MA, MB    Multiplier // SumShifted, SumEach; in SumAligned M is the factor
	MY        Multiplier // SumShifted
	Left      int        // SumShifted
	Right     int        // SumAligned
	Rounding  Rounding   // SumAligned
	RA, RB, K float32    // SumFused
	Quantizer Quantizer  // SumFloat
}

// PrepareSum returns the addition of codes on grids a and b, or the subtraction a - b, with its result on grid y. y.QMin and
// y.QMax clamp: a fused activation narrows them. ONNX Runtime has no quantized subtraction: it is SumFloat there, and so are
// codes of more than 8 bits. TFLite's 16-bit codes have no zero point; those further from theirs than 2^15 are SumFloat.
func (p Profile) PrepareSum(a, b, y Grid, subtract bool) (Sum, error) {
	s := Sum{A: a, B: b, Y: y, Subtract: subtract, Scaling: p.Scaling, Rounding: p.Rounding, Quantizer: p.Quantizer(y)}
	if err := p.scales(a.Scale, b.Scale, y.Scale); err != nil {
		return Sum{}, err
	}
	var err error
	switch p.Family {
	case TFLite:
		if max(a.reach(), b.reach()) <= 1<<15 {
			err = s.shifted(p)
		}
	case TVM:
		s.Form = SumEach
		if s.MA, err = p.multiplier(float64(a.Scale)/float64(y.Scale), a.Scale, y.Scale); err == nil {
			s.MB, err = p.multiplier(float64(b.Scale)/float64(y.Scale), b.Scale, y.Scale)
		}
	case XNNPACK:
		err = s.aligned(p)
	case PowerOfTwo:
		err = s.exact(p)
	case ORT:
		if !subtract && wide(a) <= 8 && wide(b) <= 8 {
			s.fused()
		}
	}
	return s, err
}

// wide returns the bits of the codes of a grid.
func wide(g Grid) int {
	if g.QMin < -128 || g.QMax > 255 {
		return 16
	}
	return 8
}

// shifted prepares TFLite's addition: both operands on the scale 2*max(sa, sb), 2^Left times finer, which leaves a bit for
// the sum.
func (s *Sum) shifted(p Profile) (err error) {
	s.Form, s.Left = SumShifted, 20
	if wide(s.A) > 8 || wide(s.B) > 8 {
		s.Left = 15
	}
	twice := 2 * max(float64(s.A.Scale), float64(s.B.Scale))
	if s.MA, err = p.multiplier(float64(s.A.Scale)/twice, s.A.Scale, s.B.Scale); err != nil {
		return err
	}
	if s.MB, err = p.multiplier(float64(s.B.Scale)/twice, s.A.Scale, s.B.Scale); err != nil {
		return err
	}
	f := twice / (float64(int64(1)<<s.Left) * float64(s.Y.Scale))
	if f >= 1 {
		return scaleErrorf("profile %s: adding scales %g and %g for scale %g: the factor %g is not below 1", p.Name, s.A.Scale,
			s.B.Scale, s.Y.Scale, f)
	}
	s.MY, err = p.multiplier(f, s.A.Scale, s.B.Scale, s.Y.Scale)
	return err
}

// aligned prepares XNNPACK's addition: the larger factor has 21 bits.
func (s *Sum) aligned(p Profile) error {
	fa, fb := s.A.Scale/s.Y.Scale, s.B.Scale/s.Y.Scale
	if min(fa, fb) < 0x1p-10 || max(fa, fb) >= 0x1p8 {
		return scaleErrorf("profile %s: adding scales %g and %g for scale %g: the factors %g and %g are outside [2^-10, 2^8)",
			p.Name, s.A.Scale, s.B.Scale, s.Y.Scale, fa, fb)
	}
	_, exp := math.Frexp(float64(max(fa, fb)))
	s.Form, s.Rounding, s.Right = SumAligned, HalfUp, 21-exp
	s.MA.M = int32(HalfEven.Round(math.Ldexp(float64(fa), s.Right)))
	s.MB.M = int32(HalfEven.Round(math.Ldexp(float64(fb), s.Right)))
	return nil
}

// exact prepares the addition on power-of-two scales: both operands on the finer scale, nothing lost before the shift.
func (s *Sum) exact(p Profile) error {
	ma, err := p.multiplier(float64(s.A.Scale)/float64(s.Y.Scale), s.A.Scale, s.Y.Scale)
	if err != nil {
		return err
	}
	mb, err := p.multiplier(float64(s.B.Scale)/float64(s.Y.Scale), s.B.Scale, s.Y.Scale)
	if err != nil {
		return err
	}
	finer := min(ma.Shift, mb.Shift)
	if max(ma.Shift, mb.Shift)-finer > 30 {
		return scaleErrorf("profile %s: adding scales %g and %g: more than 2^30 apart", p.Name, s.A.Scale, s.B.Scale)
	}
	s.Form, s.Right = SumAligned, int(1-finer)
	s.MA.M, s.MB.M = 1<<(ma.Shift-finer), 1<<(mb.Shift-finer)
	return nil
}

// fused prepares ONNX Runtime's addition. Its compiler fuses the first product of K.
func (s *Sum) fused() {
	s.Form = SumFused
	s.RA, s.RB = s.A.Scale/s.Y.Scale, s.B.Scale/s.Y.Scale
	s.K = float32(s.Y.ZeroPoint) - FMA(s.RA, float32(s.A.ZeroPoint), float32(s.RB*float32(s.B.ZeroPoint)))
}

// At returns the code of the sum, or the difference, of codes a and b.
func (s Sum) At(a, b int32) int32 {
	if s.Form == SumFused {
		v := FMA(float32(a), s.RA, FMA(float32(b), s.RB, s.K))
		return clampFloat(HalfEven.Round(float64(v)), 0, s.Y.QMin, s.Y.QMax)
	}
	if s.Form == SumFloat {
		x, y := s.A.Dequantize(a), s.B.Dequantize(b)
		if s.Subtract {
			y = -y
		}
		return s.Quantizer.At(x + y)
	}
	a, b = a-s.A.ZeroPoint, b-s.B.ZeroPoint
	var va, vb int64
	switch s.Form {
	case SumShifted:
		va, vb = int64(s.Scaling.scale(a<<s.Left, s.MA)), int64(s.Scaling.scale(b<<s.Left, s.MB))
	case SumEach:
		va, vb = int64(s.Scaling.scale(a, s.MA)), int64(s.Scaling.scale(b, s.MB))
	case SumAligned:
		va, vb = int64(a)*int64(s.MA.M), int64(b)*int64(s.MB.M)
	}
	if s.Subtract {
		vb = -vb
	}
	v := va + vb
	switch s.Form {
	case SumShifted:
		v = int64(s.Scaling.scale(int32(v), s.MY))
	case SumAligned:
		v = s.Rounding.shift(v, -s.Right)
	}
	return clamp64(v+int64(s.Y.ZeroPoint), s.Y.QMin, s.Y.QMax)
}
