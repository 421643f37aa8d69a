package qmath

import (
	"fmt"

	"qwb/kernels/elementary"
)

// SoftmaxForm is how the softmax of a row of codes is computed.
type SoftmaxForm uint8

const (
	// SoftmaxInteger is round(E[max-q] * Inverse / (2^16 * sum(E[max-q']))) + zy with the table E[d] = exp(-d*s_x) * 2^23 and
	// Inverse = 2^16/s_y, in 64 bits: one rounding. It is qwb's own, for targets without a form that is defined everywhere.
	SoftmaxInteger SoftmaxForm = iota
	// SoftmaxGemmlowp is TFLite's reference kernel: exp and reciprocal in 32-bit fixed point. The output's scale is 1/256, its
	// zero point the smallest code.
	SoftmaxGemmlowp
	// SoftmaxMLAS is ONNX Runtime's QLinearSoftmax: a float32 table of exp, half-even(e*floor(1/s_y)/sum) + zy. Rows so
	// short that e*floor(1/s_y) overflows are refused.
	SoftmaxMLAS
)

var softmaxFormNames = [...]string{"integer", "gemmlowp", "mlas"}

func (f SoftmaxForm) String() string {
	if int(f) < len(softmaxFormNames) {
		return softmaxFormNames[f]
	}
	return fmt.Sprintf("softmax form(%d)", uint8(f))
}

// Softmax is the prepared softmax of rows of N codes. Nothing in it depends on the zero point of the input.
type Softmax struct {
	Form      SoftmaxForm
	X, Y      Grid
	N         int
	E         []int32    // SoftmaxInteger, by distance from the row's largest code
	Inverse   int64      // SoftmaxInteger
	Rounding  Rounding   // SoftmaxInteger
	Scaling   Scaling    // SoftmaxGemmlowp
	M         Multiplier // SoftmaxGemmlowp: codes to fixed point with 26 fractional bits
	Radius    int32      // SoftmaxGemmlowp: codes further below the largest are 0
	Terms     []float32  // SoftmaxMLAS, by distance from the row's largest code
	PerOutput float32    // SoftmaxMLAS: floor(1/s_y)
}

const (
	softmaxBits  = 23      // fractional bits of E
	inverseBits  = 16      // of Inverse
	softmaxTerms = 1 << 22 // with more the quotient's divisor leaves 62 bits
)

// PrepareSoftmax returns the softmax of rows of n codes on grid x, with its result on grid y. TFLite's form needs 8-bit codes
// and an output of scale 1/256 with the smallest code as zero point; other outputs, and other targets than ONNX Runtime,
// take SoftmaxInteger. TVM's own integer softmax shifts by negative amounts for input scales above 1/41 or so, which is
// undefined; it is not offered.
func (p Profile) PrepareSoftmax(x, y Grid, n int) (Softmax, error) {
	s := Softmax{X: x, Y: y, N: n, Scaling: p.Scaling, Rounding: p.Quantizer(y).Rounding}
	if err := p.scales(x.Scale, y.Scale); err != nil {
		return Softmax{}, err
	}
	bytes := wide(x) <= 8 && wide(y) <= 8
	switch {
	case p.Family == TFLite && !p.Own && bytes && y.Scale == 1.0/256 && y.ZeroPoint == y.QMin:
		return s, s.gemmlowp(p)
	case p.Family == ORT && bytes:
		return s, s.mlas(p)
	}
	return s, s.integer(p)
}

func (s *Softmax) integer(p Profile) error {
	if s.N < 1 || s.N > softmaxTerms || s.Y.Scale < 0x1p-22 {
		return scaleErrorf("profile %s: softmax of %d codes to scale %g; at most %d codes and a scale of at least 2^-22 fit", p.Name, s.N,
			s.Y.Scale, softmaxTerms)
	}
	s.Form = SoftmaxInteger
	s.E = make([]int32, s.X.QMax-s.X.QMin+1)
	for d := range s.E {
		s.E[d] = int32(HalfEven.Round(elementary.Exp(-float64(d)*float64(s.X.Scale)) * (1 << softmaxBits)))
	}
	s.Inverse = int64(HalfEven.Round((1 << inverseBits) / float64(s.Y.Scale)))
	return nil
}

// Row writes the softmax of the codes src to dst, which may be src. Both have N elements.
func (s Softmax) Row(dst, src []int32) {
	top := src[0]
	for _, q := range src {
		top = max(top, q)
	}
	switch s.Form {
	case SoftmaxGemmlowp:
		s.gemmlowpRow(dst, src, top)
	case SoftmaxMLAS:
		s.mlasRow(dst, src, top)
	default:
		s.integerRow(dst, src, top)
	}
}

func (s Softmax) integerRow(dst, src []int32, top int32) {
	sum := int64(0)
	for _, q := range src {
		sum += int64(s.E[top-q])
	}
	for i, q := range src {
		v := s.Rounding.quotient(int64(s.E[top-q])*s.Inverse, 0, sum<<inverseBits)
		dst[i] = clamp64(v+int64(s.Y.ZeroPoint), s.Y.QMin, s.Y.QMax)
	}
}
