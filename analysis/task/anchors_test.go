package task_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/tensor"
)

// TestBoxesAreSetAgainstAnchors: the same boxes from one pair of outputs for both grids and from a pair for each, in the pixels of the
// picture, the better of two that overlap.
func TestBoxesAreSetAgainstAnchors(t *testing.T) {
	score, offset := make([]float32, 896), make([]float32, 896*16)
	for i := range score {
		score[i] = -50
	}
	put := func(i int, logit float32, x, y, w, h float32) {
		score[i] = logit
		copy(offset[16*i:], []float32{x, y, w, h})
	}
	fine := 2 * (3*16 + 5) // cell 5 of row 3 of 16: its middle is at 44, 28 of 128
	put(fine, 4, 1, -2, 20, 10)
	put(fine+1, 2, 1, -1, 20, 10) // the same object, less sure
	coarse := 512 + 6*(7*8+0)     // cell 0 of row 7 of 8: 8, 120
	put(coarse, 1, 0, 0, 4, 6)
	at := func(logit float64) float64 { return 1 / (1 + math.Exp(-logit)) }
	want := []float64{35, 21, 55, 31, at(4), 0, 6, 117, 10, 123, at(1), 0}
	for name, outputs := range map[string][]*tensor.Tensor{
		"together": {tensor.FromF32(offset, 1, 896, 16), tensor.FromF32(score, 1, 896, 1)},
		"apart": {tensor.FromF32(score[:512], 1, 512, 1), tensor.FromF32(score[512:], 1, 384, 1),
			tensor.FromF32(offset[:512*16], 1, 512, 16), tensor.FromF32(offset[512*16:], 1, 384, 16)},
	} {
		got, ok := task.Anchored(outputs, 128, 128)
		require.True(t, ok, name)
		require.Equal(t, []int{2, 6}, got.Shape, name)
		for i, v := range got.F32() {
			require.InDelta(t, want[i], v, 1e-5, "%s, %d", name, i)
		}
	}
	score[coarse] = float32(math.NaN())
	got, ok := task.Anchored([]*tensor.Tensor{tensor.FromF32(offset, 1, 896, 16), tensor.FromF32(score, 1, 896, 1)}, 128, 128)
	require.True(t, ok)
	require.Equal(t, []int{1, 6}, got.Shape)
	none := tensor.FromF32(make([]float32, 12), 2, 6)
	for name, outputs := range map[string][]*tensor.Tensor{
		"boxes already": {none}, "nothing": nil, "no scores": {tensor.FromF32(offset, 1, 896, 16)},
		"another output": {tensor.FromF32(offset, 1, 896, 16), tensor.FromF32(score, 1, 896, 1), none},
		"no such grid":   {tensor.FromF32(make([]float32, 100), 1, 100, 1), tensor.FromF32(make([]float32, 400), 1, 100, 4)},
	} {
		_, ok := task.Anchored(outputs, 128, 128)
		require.False(t, ok, name)
	}
}
