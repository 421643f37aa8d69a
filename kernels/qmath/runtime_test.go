package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// By hand from OCP Microscaling Formats 1.0, 6.3: the exponent is that of the largest magnitude less that of the format's largest
// power of two (4 of E2M1, 256 of E4M3, 32768 of E5M2, 64 of INT8).
func TestMXScales(t *testing.T) {
	e2m1, e4m3, e5m2, i8 := FormatOf(FloatE2M1), FormatOf(FloatE4M3), FormatOf(FloatE5M2), IntegerFormat(8, false)
	for _, c := range []struct {
		most        float32
		f           Format
		floor, ceil float32
	}{
		{0, e2m1, 1, 1}, {6, e2m1, 1, 1}, {4, e2m1, 1, 1}, {7.99, e2m1, 1, 2}, {8, e2m1, 2, 2}, {3.99, e2m1, 0.5, 1}, {3, e2m1, 0.5, 0.5},
		{448, e4m3, 1, 1}, {449, e4m3, 1, 2}, {512, e4m3, 2, 2}, {1, e4m3, 0x1p-8, 0x1p-8}, {57344, e5m2, 1, 1}, {1, e5m2, 0x1p-15, 0x1p-15},
		{1, i8, 0x1p-6, 0x1p-6}, {1.99, i8, 0x1p-6, 0x1p-5}, {0x1p-127, e2m1, 0x1p-127, 0x1p-127}, {math.MaxFloat32, e2m1, 0x1p125, 0x1p126},
	} {
		require.Equal(t, c.floor, MXScale(c.most, c.f, false), "%s of %g", c.f.FormatName(), c.most)
		require.Equal(t, c.ceil, MXScale(c.most, c.f, true), "%s of %g, up", c.f.FormatName(), c.most)
	}
}

func TestNVScales(t *testing.T) {
	require.Equal(t, float32(1), NVGlobal(0))
	g := NVGlobal(2688)
	require.Equal(t, float32(1), g)
	for _, c := range []struct {
		most, scale float32
		code        uint8
	}{
		{2688, 448, 0x7e}, {6, 1, 0x38}, {0, 1, 0x38}, {6.3, 1, 0x38}, {6.75, 1.125, 0x39}, {1e-9, 0x1p-9, 0x01}, {6 * 0x1p-8, 0x1p-8, 0x02},
		{1e9, 448, 0x7e},
	} {
		scale, code := NVScale(c.most, g)
		require.Equal(t, c.scale, scale, "%g", c.most)
		require.Equal(t, c.code, code, "%g", c.most)
	}
}

// ONNX DynamicQuantizeLinear: the examples of its tests, and symmetric schemes.
func TestRunTimeScales(t *testing.T) {
	u8 := Scheme{QMin: 0, QMax: 255}
	for _, c := range []struct {
		lo, hi, scale float32
		zero          int32
		s             Scheme
	}{
		{-3, 2, 0.0196078438, 153, u8}, {-4, -1.3, 0.0156862754, 255, u8}, {1, 4, 0.0156862754, 0, u8}, {0, 0, 1, 0, u8},
		{-1, 0.5, 1.0 / 127, 0, Scheme{Symmetric: true, QMin: -128, QMax: 127}}, {-1, 448, 1, 0, Scheme{Symmetric: true, QMin: -448, QMax: 448}},
		{-1, 100, 1, 0, Scheme{Symmetric: true, PowerOfTwo: true, QMin: -128, QMax: 127}},
		{0, 0, 1, 0, Scheme{Symmetric: true, QMin: -128, QMax: 127}},
	} {
		scale, zero := RunTimeScale(c.lo, c.hi, c.s)
		require.Equal(t, c.scale, scale, "%g to %g", c.lo, c.hi)
		require.Equal(t, c.zero, zero, "%g to %g", c.lo, c.hi)
	}
}
