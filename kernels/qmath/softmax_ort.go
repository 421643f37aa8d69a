package qmath

import (
	"math"

	"qwb/kernels/elementary"
)

// mlas prepares ONNX Runtime's softmax (contrib_ops/cpu/quantization/qlinear_softmax.cc): the table is scaled up as far as
// the sum of a row stays within float32.
func (s *Softmax) mlas(p Profile) error {
	s.Form = SoftmaxMLAS
	s.PerOutput = float32(math.Floor(float64(1 / s.Y.Scale)))
	if s.N < 1 || s.PerOutput < 1 {
		return scaleErrorf("profile %s: softmax of %d codes to scale %g; the scale must not exceed 1", p.Name, s.N, s.Y.Scale)
	}
	scale := float64(s.X.Scale)
	// A row of one code, the first step of a cache, is 1 whatever the code is, as in the engine: no term of it may overflow.
	room := math.Log(float64(float32(math.MaxFloat32) / float32(max(s.N, 2))))
	up := max(0, room-5) / scale
	s.Terms = make([]float32, 256)
	for d := range s.Terms {
		s.Terms[d] = float32(elementary.Exp((up - float64(d)) * scale))
	}
	if most := s.Terms[0] * s.PerOutput; math.IsInf(float64(most), 0) {
		return scaleErrorf("profile %s: softmax of %d codes to scale %g overflows float32 in ONNX Runtime, whose result is undefined", p.Name,
			s.N, s.Y.Scale)
	}
	return nil
}

func (s Softmax) mlasRow(dst, src []int32, top int32) {
	sum := float32(0)
	for _, q := range src {
		sum += s.Terms[top-q]
	}
	for i, q := range src {
		e := float64(float32(s.Terms[top-q]*s.PerOutput) / sum)
		dst[i] = clampFloat(HalfEven.Round(e), s.Y.ZeroPoint, s.Y.QMin, s.Y.QMax)
	}
}
