package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

func TestCodeParameters(t *testing.T) {
	for _, c := range []struct {
		file    string
		entries []string
		size    uintptr
	}{
		{"codes", []string{"map_1_1", "map_1_2", "map_2_1", "map_2_2"}, unsafe.Sizeof(mapParams{})},
		{"codes", []string{"clamp_1", "clamp_2", "recode", "recode_words"}, unsafe.Sizeof(recodeParams{})},
		{"codes", []string{"quantize_1", "quantize_2", "dequantize_1", "dequantize_2"}, unsafe.Sizeof(convertParams{})},
		{"pairs", []string{"add", "add_words", "add_float_words", "add_float", "add_fused", "add_shifted", "add_each", "add_aligned"},
			unsafe.Sizeof(addParams{})},
		{"pairs", []string{"add_half_twice", "add_half_once"}, unsafe.Sizeof(addHalfParams{})},
		{"pairs", []string{"multiply", "multiply_words", "multiply_real", "multiply_twice", "multiply_once", "multiply_float", "multiply_fixed"},
			unsafe.Sizeof(multiplyParams{})},
		{"pairs", []string{"choose", "choose_bytes"}, unsafe.Sizeof(chooseParams{})},
		{"pools", []string{"max_pool_1x16", "max_pool_1x4", "max_pool_1x1", "max_pool_2x8", "max_pool_2x1"}, unsafe.Sizeof(poolParams{})},
		{"pools", []string{"average_pool_1x4", "average_pool_1x1", "average_pool_2x1"}, unsafe.Sizeof(averagePoolParams{})},
		{"pools", []string{"reduce_max", "reduce_min"}, unsafe.Sizeof(reduceParams{})},
		{"pools", []string{"mean"}, unsafe.Sizeof(meanParams{})},
		{"pools", []string{"columns_max"}, unsafe.Sizeof(columnsParams{})},
		{"pools", []string{"columns_mean"}, unsafe.Sizeof(meanColumnsParams{})},
		{"softmax", []string{"softmax"}, unsafe.Sizeof(softmaxParams{})},
		{"softmax", []string{"softmax_bytes_integer", "softmax_bytes_gemmlowp"}, unsafe.Sizeof(softmaxBytesParams{})},
		{"gather", []string{"gather_1", "gather_2", "gather_4", "gather_8", "gather_16"}, unsafe.Sizeof(gatherParams{})},
		{"gather", []string{"stride_1", "stride_2", "stride_4", "stride_8", "stride_16"}, unsafe.Sizeof(strideParams{})},
		{"gather", []string{"turn_1", "turn_2", "turn_4", "turn_8", "turn_1x4", "turn_2x2"}, unsafe.Sizeof(turnCodesParams{})},
		{"gram", []string{"gram"}, unsafe.Sizeof(gramParams{})},
		{"gram", []string{"gram_codes"}, unsafe.Sizeof(gramCodesParams{})},
	} {
		for _, entry := range c.entries {
			assert.EqualValues(t, c.size, paramBytes(t, c.file, entry), "%s.%s", c.file, entry)
		}
	}
}
