package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// What was joined falls into the same parts again.
func TestJoinAndPart(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Float32, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Int8, tensor.Bool} {
		var parts []*tensor.Tensor
		for k := range 3 {
			p := tensor.New(d, 2, 3)
			switch data := p.Data.(type) {
			case []float32:
				data[k] = 1.5
			case []int64:
				data[k] = -7
			case []int32:
				data[k] = 7
			case []uint8:
				data[k] = 200
			case []int8:
				data[k] = -3
			case []bool:
				data[k] = true
			}
			parts = append(parts, p)
		}
		all, err := tensor.Join(parts)
		require.NoError(t, err)
		require.Equal(t, []int{6, 3}, all.Shape)
		for k, want := range parts {
			got, err := all.Part(k, 3)
			require.NoError(t, err)
			require.True(t, tensor.Equal(want, got), "%s, part %d", d, k)
		}
	}
	_, err := tensor.Join([]*tensor.Tensor{tensor.New(tensor.Float32, 2), tensor.New(tensor.Float32, 3)})
	require.ErrorContains(t, err, "f32[3] beside f32[2]")
	_, err = tensor.Join([]*tensor.Tensor{tensor.New(tensor.Float32)})
	require.Error(t, err)
	_, err = tensor.Join([]*tensor.Tensor{tensor.New(tensor.String, 1)})
	require.ErrorContains(t, err, "batches")
	_, err = tensor.New(tensor.Float32, 5).Part(0, 2)
	require.ErrorContains(t, err, "2 parts")
}
