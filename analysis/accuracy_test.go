package analysis

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/graphtest"
	"qwb/graph/tensor"
)

func TestBestOrdersScoresAndBreaksTiesByClass(t *testing.T) {
	top, err := best([]*tensor.Tensor{tensor.FromF32([]float32{1, 7, 3, 7, 0, 5, 4, 3}, 1, 8)}, 0)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3, 5, 6, 2}, top)
	top, err = best([]*tensor.Tensor{tensor.FromF32([]float32{2, 1}, 1, 2)}, 1)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, top)
	_, err = best([]*tensor.Tensor{tensor.FromF32([]float32{2, 1}, 1, 2)}, 2)
	require.ErrorContains(t, err, "label-offset")
	_, err = best([]*tensor.Tensor{tensor.FromF32([]float32{float32(math.NaN()), 1}, 1, 2)}, 0)
	require.ErrorContains(t, err, "NaN")
}

func TestScoreCountsPairs(t *testing.T) {
	right, wrong := []int{1, 2}, []int{2, 1}
	answers := []answer{{"a", 1, right, right}, {"b", 1, right, wrong}, {"c", 1, right, wrong}, {"d", 1, wrong, right}, {"e", 1, wrong, wrong}, {"f", 0, wrong, right}}
	r := score(answers, true)
	require.Equal(t, []int{2, 5, 3, 4}, []int{r.Top1, r.Top5, r.FloatTop1, r.Flips})
	require.Equal(t, Answer{"b", 1, 2}, r.Answers[1])
	require.InDelta(t, 100.0/6, r.Drop, 1e-12)
	require.InDelta(t, 100*math.Sqrt(3-1.0/6)/6, r.DropError, 1e-12)
}

func TestEvalInFloat(t *testing.T) {
	g := graphtest.Parse(t, "opset 13\ninput x: f32[1,3]\ny = Relu(x)\noutput y\n")
	data := &replay{samples: []*exec.Sample{
		{Label: 0, Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{3, 2, 1}, 1, 3)}},
		{Label: 2, Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{3, 2, 1}, 1, 3)}}}}
	for threads := range 3 {
		data.at = 0
		r, err := Eval(context.Background(), g, data, AccuracyConfig{Threads: threads})
		require.NoError(t, err)
		require.Equal(t, &Accuracy{Mode: "fp32", Backend: "cpu", N: 2, Top1: 1, Top5: 2, Answers: []Answer{{"", 0, 0}, {"", 2, 0}}}, r)
	}
}
