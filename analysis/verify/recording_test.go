package verify

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// Recorded integers come in any type that holds them, and are the program's in each of its types; one that does not fit is an error.
func TestTyped(t *testing.T) {
	codes := lower.Encoding{Scale: 1, QMin: 0, QMax: 1}
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32} {
		to := &lower.Tensor{Name: "y", DType: d, Encoding: &codes}
		for _, got := range []*tensor.Tensor{tensor.FromI64([]int64{7, 0, 100}, 3), tensor.FromF32([]float32{7, 0, 100}, 3)} {
			x, err := typed(got, to)
			require.NoError(t, err, d)
			require.Equal(t, d, x.DType)
			require.Equal(t, []int32{7, 0, 100}, x.Integers(), "%s", d)
		}
		_, err := typed(tensor.FromI64([]int64{7, math.MaxInt64, 1}, 3), to)
		require.ErrorContains(t, err, "element 1 is 9223372036854775807", d)
	}
	_, err := typed(tensor.FromI64([]int64{1}, 1), &lower.Tensor{Name: "y", DType: tensor.Float64, Encoding: &codes})
	require.ErrorContains(t, err, "element 0 is 1", "no type of codes")
}
