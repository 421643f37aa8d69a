package task_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis/task"
	"qwb/graph/tensor"
)

// An answer is what the metric of its kind reads, told by the shape where no metric is named.
func TestAnswersAreReadAsMetricsReadThem(t *testing.T) {
	boxes := []*tensor.Tensor{detected([][]float32{{1, 2, 3, 4, 0.3, 5}, {0, 0, 9, 9, 0.9, 2}})}
	require.Equal(t, task.Boxes, task.KindOf("", boxes, 0))
	r, err := task.Read(task.Boxes, boxes, nil)
	require.NoError(t, err)
	require.Len(t, r.Boxes, 2) // without those that fill up, by score
	assert.EqualValues(t, 2, r.Boxes[0].Class)
	assert.Equal(t, [4]float64{1, 2, 3, 4}, r.Boxes[1].Box)

	steps := []*tensor.Tensor{tensor.FromF32([]float32{0.1, 0.8, 0.1, 0.1, 0.8, 0.1, 0.9, 0.05, 0.05, 0, 0.2, 0.8}, 1, 4, 3)}
	require.Equal(t, task.Text, task.KindOf("", steps, 0))
	for alphabet, want := range map[bool]string{true: "ab", false: "1 2"} {
		var letters []string
		if alphabet {
			letters = []string{"", "a", "b"}
		}
		r, err = task.Read(task.Text, steps, letters)
		require.NoError(t, err)
		assert.Equal(t, want, *r.Text)
	}

	scores := tensor.New(tensor.Float32, 1, 2, 300, 300)
	for i := 300 * 300; i < 2*300*300; i++ {
		scores.F32()[i] = float32(i%300-150) / 300 // class 1 on the right
	}
	maps := []*tensor.Tensor{scores}
	require.Equal(t, task.Map, task.KindOf("", maps, 0))
	r, err = task.Read(task.Map, maps, nil)
	require.NoError(t, err)
	assert.Equal(t, []int{100, 100}, []int{r.Map.Height, r.Map.Width})
	classes, err := base64.StdEncoding.DecodeString(r.Map.Classes)
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 1}, []byte{classes[10], classes[90]})

	row := []*tensor.Tensor{tensor.FromF32(make([]float32, 10), 1, 10)}
	assert.Equal(t, task.Numbers, task.KindOf("", row, 0))
	assert.Equal(t, task.Map, task.KindOf("miou", row, 0)) // what is asked for, and then an error
	_, err = task.Read(task.Map, row, nil)
	assert.ErrorContains(t, err, "a map of classes is")
}
