package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// The types of this file mirror the structs of operators.cuh, field by field.

// Quantizer is a qmath.Quantizer as kernels have it.
type Quantizer struct {
	Scale        float32
	Multiply     int32
	Rounding     int32
	Zero, Lo, Hi int32
	NaN          int32
	// Reciprocal is the factor by which kernels divide where they are sure of the rounding: within Near of an integer, nowhere below 0.
	Reciprocal, Near float32
}

// QuantizerOf returns q as kernels have it.
func QuantizerOf(q qmath.Quantizer) (Quantizer, error) {
	out := Quantizer{Scale: q.Scale, Rounding: int32(q.Rounding), Zero: q.ZeroPoint, Lo: q.QMin, Hi: q.QMax, NaN: q.ZeroPoint}
	if q.Reciprocal != 0 {
		out.Scale, out.Multiply, out.NaN = q.Reciprocal, 1, min(max(q.ZeroPoint, q.QMin), q.QMax)
	}
	for _, v := range [...]int32{q.ZeroPoint, q.QMin, q.QMax} {
		if v < -codeLimit || v > codeLimit {
			return out, fmt.Errorf("cuda: zero point %d with codes from %d to %d", q.ZeroPoint, q.QMin, q.QMax)
		}
	}
	if q.QMin > q.QMax {
		return out, fmt.Errorf("cuda: codes from %d to %d", q.QMin, q.QMax)
	}
	out.Reciprocal, out.Near = out.product(q.Rounding)
	return out, nil
}

// product returns the factor that stands for the division by q.Scale, and how near to an integer a product with it is sure to round as
// the quotient does. Of a quotient below 2^k the product is at most 1.5 * 2^(k-23) away, so only what lies next to a tie is not sure.
func (q *Quantizer) product(r qmath.Rounding) (factor, near float32) {
	most := max(int64(q.Zero)-int64(q.Lo), int64(q.Hi)-int64(q.Zero)) + 1
	if r == qmath.Up || r == qmath.Down || most > 1<<10 || !(q.Scale > 0x1p-100 && q.Scale < 0x1p100) {
		return 0, -1
	}
	factor = 1 / q.Scale
	fraction, _ := math.Frexp(float64(q.Scale))
	if q.Multiply != 0 {
		factor, fraction = q.Scale, 0.5
	}
	if r == qmath.HalfEven && fraction == 0.5 {
		return factor, 1 // the product is the quotient, and ties go where they should
	}
	return factor, 0.5 - float32(math.Ldexp(1, bits.Len64(uint64(most))-22))
}

// multiplier is the Multiplier of requantize.cuh.
type multiplier struct{ M, Shift int32 }

func multiplierOf(s qmath.Scaling, m qmath.Multiplier) multiplier {
	if s.Float() {
		return multiplier{int32(math.Float32bits(m.Scale)), int32(math.Float32bits(m.Bias))}
	}
	return multiplier{m.M, m.Shift}
}

// How a Rescale is computed.
const (
	rescaleSame int32 = iota
	rescaleFloat
	rescaleEighth
	rescaleScaled
)

// Rescale is a qmath.Rescale as kernels have it; the zero value leaves codes as they are.
type Rescale struct {
	Kind    int32
	Zero    int32
	Scale   float32
	Eighth  int32
	K       multiplier
	Scaling Scaling
	To      Quantizer
	_       int32
}

// RescaleOf returns r as kernels have it; nil leaves codes as they are.
func RescaleOf(r *qmath.Rescale) (Rescale, error) {
	if r == nil {
		return Rescale{}, nil
	}
	out := Rescale{Kind: rescaleScaled, Zero: r.X.ZeroPoint, Scale: r.X.Scale, Eighth: r.Eighth, K: multiplierOf(r.Scaling, r.M)}
	var err error
	switch {
	case r.Float:
		out.Kind = rescaleFloat
		out.To, err = QuantizerOf(r.Quantizer)
		return out, err
	case r.Eighth != 0:
		out.Kind = rescaleEighth
	}
	out.Scaling, err = scalingOf(r.Scaling, r.Y.ZeroPoint, r.Y.QMin, r.Y.QMax, r.M.Out)
	return out, err
}

// Sum is a qmath.Sum as kernels have it.
type Sum struct {
	Form, Subtract int32
	ZA, ZB         int32
	FA, FB, K      float32
	Left, Right    int32
	Rounding       int32
	MA, MB, MY     multiplier
	Scaling        Scaling
	To             Quantizer
	_              int32
}

// SumOf returns s as kernels have it.
func SumOf(s qmath.Sum) (Sum, error) {
	out := Sum{Form: int32(s.Form), ZA: s.A.ZeroPoint, ZB: s.B.ZeroPoint, FA: s.A.Scale, FB: s.B.Scale, Left: int32(s.Left),
		Right: int32(s.Right), Rounding: int32(s.Rounding), MA: multiplierOf(s.Scaling, s.MA), MB: multiplierOf(s.Scaling, s.MB),
		MY: multiplierOf(s.Scaling, s.MY)}
	if s.Subtract {
		out.Subtract = 1
	}
	var err error
	if s.Form == qmath.SumFloat {
		out.To, err = QuantizerOf(s.Quantizer)
		return out, err
	}
	scaling := s.Scaling
	if s.Form == qmath.SumFused {
		out.FA, out.FB, out.K = s.RA, s.RB, s.K
		scaling = qmath.Scaling{Form: qmath.FloatInside}
	}
	out.Scaling, err = scalingOf(scaling, s.Y.ZeroPoint, s.Y.QMin, s.Y.QMax, 0)
	return out, err
}

// HalfSum is a Sum of 8-bit codes in which the first operand's factor is a half.
type HalfSum struct {
	Factor       int32
	ZA, ZB       int32
	Negative     int32
	Left         int32
	Form         int32
	MB, MY       multiplier
	Zero, Lo, Hi int32
	_            int32
}

// Half returns s in that form. swapped says that the operands change places. ok is false where s has no such form: it is that of
// TFLite's additions, in which the operand with the larger scale has this factor, and the result a smaller one.
func (s *Sum) Half() (h HalfSum, swapped, ok bool) {
	half := multiplier{M: 1 << 30}
	form := qmath.Form(s.Scaling.Form)
	if qmath.SumForm(s.Form) != qmath.SumShifted || s.Left != 20 || s.MY.Shift >= 0 || form != qmath.DoubleUpAway && form != qmath.SingleUp {
		return h, false, false
	}
	h = HalfSum{Factor: 1 << 19, ZA: s.ZA, ZB: s.ZB, Negative: s.Subtract, Left: s.Left, Form: s.Scaling.Form, MB: s.MB, MY: s.MY,
		Zero: s.Scaling.Zero, Lo: s.Scaling.Lo, Hi: s.Scaling.Hi}
	switch {
	case s.MA == half && s.MB.Shift <= 0:
		return h, false, true
	case s.MB == half && s.MA.Shift <= 0:
		h.ZA, h.ZB, h.MB, h.Negative = s.ZB, s.ZA, s.MA, 0
		if s.Subtract != 0 {
			h.Factor = -h.Factor
		}
		return h, true, true
	}
	return h, false, false
}

// Product is a qmath.Product as kernels have it.
type Product struct {
	Real    int32
	ZA, ZB  int32
	FA, FB  float32
	_       int32
	K       multiplier
	Scaling Scaling
	To      Quantizer
	_       int32
}

// ProductOf returns p as kernels have it.
func ProductOf(p qmath.Product) (Product, error) {
	out := Product{ZA: p.A.ZeroPoint, ZB: p.B.ZeroPoint, FA: p.A.Scale, FB: p.B.Scale, K: multiplierOf(p.Scaling, p.M)}
	var err error
	if p.Float {
		out.Real = 1
		out.To, err = QuantizerOf(p.Quantizer)
	} else {
		out.Scaling, err = scalingOf(p.Scaling, p.Y.ZeroPoint, p.Y.QMin, p.Y.QMax, p.M.Out)
	}
	return out, err
}

// Average is a qmath.Average as kernels have it, for several numbers of codes: Multipliers is the address of the table that
// PackAverages makes, First the number of its first entry.
type Average struct {
	Multipliers     driver.Ptr
	Form            int32
	Zero            int32
	Scale, Out      float32
	Shift, Rounding int32
	Empty, First    int32
	Scaling         Scaling
	To              Quantizer
	_               int32
	Each            Rescale
}

// PackAverages returns the table of the averages of first to last codes; at(n) is that of n codes, nil where n does not occur.
func PackAverages(first, last int, at func(n int) *qmath.Average) []byte {
	out := make([]byte, 0, 8*(last-first+1))
	for n := first; n <= last; n++ {
		var k multiplier
		if a := at(n); a != nil {
			k = multiplierOf(a.Scaling, a.M)
		}
		out = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(out, uint32(k.M)), uint32(k.Shift))
	}
	return out
}

// AverageOf returns an average as kernels have it. a is that of any number of codes that occurs, table the address of what
// PackAverages makes of all from first on, empty the result of a window without codes.
func AverageOf(a *qmath.Average, table driver.Ptr, first int, empty int32) (Average, error) {
	out := Average{Multipliers: table, Form: int32(a.Form), Zero: a.X.ZeroPoint, Scale: a.X.Scale, Out: a.Y.Scale, Shift: int32(a.Shift),
		Rounding: int32(a.Rounding), Empty: empty, First: int32(first)}
	var err error
	switch a.Form {
	case qmath.AverageFloat:
		out.To, err = QuantizerOf(a.Quantizer)
		return out, err
	case qmath.AverageEach:
		if out.Each, err = RescaleOf(&a.Each); err != nil {
			return out, err
		}
	}
	out.Scaling, err = scalingOf(a.Scaling, a.Y.ZeroPoint, a.Y.QMin, a.Y.QMax, a.M.Out)
	return out, err
}

// Softmax is a qmath.Softmax as kernels have it: Table is the address of what PackSoftmax makes.
type Softmax struct {
	Table        driver.Ptr
	Inverse      int64
	Form         int32
	Rounding     int32
	Zero, Lo, Hi int32
	Fixed        int32
	K            multiplier
	Radius       int32
	PerOutput    float32
}

// PackSoftmax returns the table of s; SoftmaxGemmlowp has none.
func PackSoftmax(s *qmath.Softmax) []byte {
	var out []byte
	for _, e := range s.E {
		out = binary.LittleEndian.AppendUint32(out, uint32(e))
	}
	for _, e := range s.Terms {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(e))
	}
	if len(out) > 0 && len(out) < 4*256 {
		out = append(out, make([]byte, 4*256-len(out))...) // kernels read an entry for every byte
	}
	return out
}

// SoftmaxOf returns s as kernels have it.
func SoftmaxOf(s *qmath.Softmax, table driver.Ptr) Softmax {
	return Softmax{Table: table, Inverse: s.Inverse, Form: int32(s.Form), Rounding: int32(s.Rounding), Zero: s.Y.ZeroPoint, Lo: s.Y.QMin,
		Hi: s.Y.QMax, Fixed: int32(s.Scaling.Form), K: multiplier{s.M.M, s.M.Shift}, Radius: s.Radius, PerOutput: s.PerOutput}
}
