package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// Codes of every width come back, the first in the low bits, and what is left of the last byte is 0.
func TestCodesArePackedAndUnpacked(t *testing.T) {
	for d, c := range map[tensor.DType]struct {
		codes []int32
		data  any
	}{
		tensor.Int4:         {[]int32{-8, 7, -1}, []uint8{0x78, 0x0f}},
		tensor.Uint4:        {[]int32{15, 1, 8}, []uint8{0x1f, 0x08}},
		tensor.Int2:         {[]int32{-2, 1, -1, 0, 1}, []uint8{0b00110110, 1}},
		tensor.Uint2:        {[]int32{3, 2, 1, 0, 3}, []uint8{0b00011011, 3}},
		tensor.Float4E2M1:   {[]int32{15, 1, 8}, []uint8{0x1f, 0x08}},
		tensor.Float8E4M3FN: {[]int32{0x7e, 0xff}, []uint8{0x7e, 0xff}},
		tensor.Int8:         {[]int32{-128, 127}, []int8{-128, 127}},
		tensor.Uint16:       {[]int32{65535, 0}, []uint16{65535, 0}},
	} {
		x := tensor.New(d, len(c.codes)).WithIntegers(c.codes)
		require.Equal(t, c.data, x.Data, d.String())
		require.Equal(t, c.codes, x.Integers(), d.String())
		last := make([]int32, 1)
		x.IntegersAt(len(c.codes)-1, last)
		require.Equal(t, c.codes[len(c.codes)-1:], last, d.String())
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.Int64} {
		require.Nil(t, tensor.New(d, 2).Integers())
	}
}
