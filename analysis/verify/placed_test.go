package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
)

// What a file computes in float may have its channels elsewhere than the plan: it gets the plan's numbers all the same.
func TestNumbersArePlacedWhereTheOtherHasThem(t *testing.T) {
	own := []*tensor.Tensor{tensor.FromF32([]float32{1, 2, 3, 4, 5, 6}, 1, 2, 3)}
	got := placed(own, []*tensor.Tensor{tensor.New(tensor.Float32, 1, 3, 2)})
	require.Len(t, got, 1)
	require.Equal(t, []float32{1, 4, 2, 5, 3, 6}, got[0].F32())
	require.Equal(t, own, placed(own, []*tensor.Tensor{tensor.New(tensor.Float32, 1, 2, 3)}))
	require.Nil(t, placed(own, []*tensor.Tensor{tensor.New(tensor.Float32, 1, 6, 1)}))
	require.Nil(t, placed(nil, []*tensor.Tensor{tensor.New(tensor.Float32, 1)}))
}
