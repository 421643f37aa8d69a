package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ties, signs and the one saturation of the primitives, from their definitions.
func TestFixedPoint(t *testing.T) {
	for _, c := range [][3]int32{
		{1, 1 << 30, 1}, {-1, 1 << 30, 0}, {3, 1 << 30, 2}, {-3, 1 << 30, -1}, {math.MinInt32, math.MinInt32, math.MaxInt32},
		{math.MinInt32, math.MaxInt32, -math.MaxInt32}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		assert.Equal(t, c[2], DoublingHighMul(c[0], c[1]), "%d * %d", c[0], c[1])
	}
	for _, c := range [][3]int32{
		{5, 0, 5}, {5, 1, 3}, {-5, 1, -3}, {4, 3, 1}, {-4, 3, -1}, {3, 3, 0}, {-3, 3, 0}, {math.MinInt32, 31, -1}, {math.MaxInt32, 31, 1},
		{1 << 30, 31, 1},
	} {
		assert.Equal(t, c[2], DivideByPowerOfTwo(c[0], c[1]), "%d / 2^%d", c[0], c[1])
	}
	for _, c := range [][3]int16{{1, 1 << 14, 1}, {-1, 1 << 14, 0}, {-3, 1 << 14, -1}, {math.MinInt16, math.MinInt16, math.MaxInt16}} {
		assert.Equal(t, c[2], highMul16(c[0], c[1]), "%d * %d", c[0], c[1])
	}
	assert.Equal(t, []int16{1<<14 + 1, 1 << 14, math.MaxInt16}, []int16{narrow(1<<30 + 1<<15), narrow(1<<30 + 1<<15 - 1),
		narrow(math.MaxInt32)})
	assert.Equal(t, []int16{math.MaxInt16, math.MinInt16, -6}, []int16{shiftLeft16(20000, 1), shiftLeft16(-20000, 1), shiftLeft16(-3, 1)})
}

// The functions of the fixed-point softmax are as accurate as their polynomials.
func TestFixedPointFunctions(t *testing.T) {
	// The remainder of the series, (1/8)^5/5!, is below 2^-21.
	for a := int32(0); a > -21<<26; a -= 1234567 {
		want := math.Exp(float64(a)/(1<<26)) * (1 << 31)
		require.InDelta(t, want, float64(expNegative(a)), 3+want*0x1p-21, "exp(%g)", float64(a)/(1<<26))
	}
	for x := int32(1 << 19); x > 0 && x < 1<<31-1e7; x += 7654321 {
		r, over := reciprocal(x)
		require.InDelta(t, float64(1<<19)/float64(x), math.Ldexp(float64(r), int(-31-over)), math.Exp2(float64(-28-over)), "1/%d", x)
	}
	s, err := named(t, "tflite2").PrepareSoftmax(Grid{Scale: 1, QMax: 255}, Grid{Scale: 1.0 / 256, QMax: 255}, 10)
	require.NoError(t, err)
	assert.Equal(t, Multiplier{M: 1 << 30, Shift: 27}, s.M, "1 is 2^26")
	assert.Equal(t, int32(15), s.Radius, "31 * 2^26 / 2^27, rounded down")
}

// Ties of 64-bit accumulators go where those of 32 bits go, TFLite's once and up.
func TestRequantize64Ties(t *testing.T) {
	want := map[string][2]int32{"tflite2": {-2, 3}, "tflite1": {-2, 3}, "tvm-upward": {-2, 3}, "tvm-nearest": {-3, 3}, "tvm-a64": {-2, 3},
		"rndnu": {-2, 3},
		"pow2":  {-2, 3}, "pow2-floor": {-3, 2}, "pow2-half-away": {-3, 3}, "pow2-half-even": {-2, 2}, "ort": {-2, 2}, "onnx": {-2, 2},
		"trt": {-2, 2}}
	for name, w := range want {
		p := named(t, name)
		m, err := p.Prepare(Channel{X: 0.25, W: 1, Y: 1})
		require.NoError(t, err)
		assert.Equal(t, w, [2]int32{p.Requantize64(-10, m, 0, -128, 127), p.Requantize64(10, m, 0, -128, 127)}, name)
	}
	// The reduced multiplier of TFLite: 0x7fff at the top, rounded half up below.
	p := named(t, "tflite2")
	assert.Equal(t, int32(32767), p.Requantize64(1<<30, Multiplier{M: math.MaxInt32, Shift: -15}, 0, 0, 1<<20))
	assert.Equal(t, int32(16385), p.Requantize64(1<<30, Multiplier{M: 1<<30 + 1<<15, Shift: -15}, 0, 0, 1<<20))
}

// The order of operations decides the last bits of M: 1+2^-12 squared is a tie of float32.
func TestFactorOrder(t *testing.T) {
	x := float32(1 + 0x1p-12)
	for name, want := range map[string][2]int32{ // of a convolution, of a matrix product with one weight scale
		"tflite2": {1<<30 + 1<<19 + 1<<6, 1<<30 + 1<<19}, "tflite1": {1<<30 + 1<<19 + 1<<6, 1<<30 + 1<<19},
		"tvm-upward": {1<<30 + 1<<19, 1<<30 + 1<<19}, "tvm-nearest": {1<<30 + 1<<19, 1<<30 + 1<<19}, "rndnu": {1<<30 + 1<<19, 1<<30 + 1<<19},
	} {
		for i, dense := range []bool{false, true} {
			m, err := named(t, name).Prepare(Channel{X: x, W: x, Y: 1, Dense: dense})
			require.NoError(t, err)
			assert.Equal(t, Multiplier{M: want[i], Shift: 1}, m, "%s, dense %v", name, dense)
		}
	}
	// A mean's multiplier is shifted up by the bits of n, as far as the exponent allows.
	m := Multiplier{M: 1 << 30, Shift: -1}
	assert.Equal(t, Multiplier{M: 1 << 30 * 4 / 5, Shift: -3}, m.divided(5))
	m.Shift = -28
	assert.Equal(t, Multiplier{M: 1 << 30 * 8 / 100, Shift: -31}, m.divided(100))
	// Tables of TFLite multiply by a reciprocal.
	g := Grid{Scale: 0.1, QMax: 255}
	for _, p := range Profiles() {
		switch {
		case p.Family == TFLite:
			assert.Equal(t, []float32{1 / g.Scale, 0}, []float32{p.TableQuantizer(g).Reciprocal, p.Quantizer(g).Reciprocal})
		default:
			assert.Equal(t, p.Quantizer(g), p.TableQuantizer(g))
		}
	}
}
