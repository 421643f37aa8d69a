package cprogram_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// Functions of int16 by lines: C keeps the 513 entries, and every code, those between the points too, is the reference's.
func TestLinesInC(t *testing.T) {
	tg := lowertest.Int16(target.ONNX)
	g, set, _ := lowertest.ConfiguredFor(t, `
input x: f32[1,1,256,256]
const w: f32[1,1,1,1] = normal(1)
c: f32[1,1,256,256] = Conv(x, w) "conv"
t: f32[1,1,256,256] = Tanh(c) "tanh"
e: f32[1,1,256,256] = HardSwish(t) "hard"
output e
`, &tg)
	for _, profile := range []string{"tflite2", "ort"} {
		pr, err := qmath.ProfileNamed(profile)
		require.NoError(t, err)
		p, err := lower.Compile(g, set, &tg, pr)
		require.NoError(t, err)
		scale := float32(0)
		for _, x := range p.Tensors {
			if x.Quantized() && scale == 0 {
				scale = x.Encoding.Scale
			}
		}
		x := tensor.New(tensor.Float32, 1, 1, 256, 256)
		for i := range x.F32() {
			x.F32()[i] = scale * float32(i-1<<15)
		}
		require.Positive(t, compared(t, p, map[string]*tensor.Tensor{"x": x}, nil, sanitized))
	}
}
