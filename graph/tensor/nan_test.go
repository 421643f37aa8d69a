package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// In every float format the codes around NaN are numbers or infinite.
func TestNaNOfEveryFormat(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		dtype      tensor.DType
		none, some any
	}{
		{tensor.Float32, []float32{1, float32(math.Inf(1)), 0}, []float32{0, nan}},
		{tensor.Float64, []float64{1, math.Inf(-1)}, []float64{0, math.NaN()}},
		{tensor.Float16, []uint16{0x7c00, 0xfc00, 0x8000}, []uint16{0x7c00, 0xfe00}},
		{tensor.BFloat16, []uint16{0x7f80, 0xff80, 0x7c01}, []uint16{0, 0x7f81}},
		{tensor.Float8E4M3FN, []uint8{0x7e, 0xfe, 0x80}, []uint8{0x7e, 0xff}},
		{tensor.Float8E5M2, []uint8{0x7c, 0xfc, 0x80}, []uint8{0x7c, 0x7d}},
		{tensor.Float8E4M3FNUZ, []uint8{0x7f, 0xff, 0}, []uint8{0, 0x80}},
		{tensor.Float8E5M2FNUZ, []uint8{0x7f, 0xff, 0}, []uint8{0, 0x80}},
		{tensor.Float8E8M0, []uint8{0xfe, 0, 0x7f}, []uint8{0, 0xff}},
		{tensor.Uint8, []uint8{0x7f, 0xff, 0x80}, nil},
	} {
		of := func(data any) int { return (&tensor.Tensor{DType: c.dtype, Data: data}).NaN() }
		require.Equal(t, -1, of(c.none), c.dtype)
		if c.some != nil {
			require.Equal(t, 1, of(c.some), c.dtype)
		}
	}
}
