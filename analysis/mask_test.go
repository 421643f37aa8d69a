package analysis

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Masked scores leave a network without a Softmax behind them: what is no mask is what is judged.
func TestMaskedScoresDoNotHideOthers(t *testing.T) {
	g := graphtest.Parse(t, "graph m\nopset 13\ninput x: f32[1,6]\ny = Relu(x)\noutput y\n")
	j, inf := NewJudge(g), float32(math.Inf(-1))
	loss := func(q, f []float32) float64 {
		t.Helper()
		list, err := j.Losses(&Verdict{scores: make([]*tensor.Tensor, 1), outputs: []*tensor.Tensor{tensor.FromF32(q, 1, 6)}},
			&Verdict{scores: make([]*tensor.Tensor, 1), outputs: []*tensor.Tensor{tensor.FromF32(f, 1, 6)}})
		require.NoError(t, err)
		return list[0]
	}
	for _, mask := range []float32{-1e9, -1e4 - 3, -1e4 + 30, -math.MaxFloat32} {
		require.InDelta(t, 1, loss([]float32{0, mask, 0, mask, 0, 0}, []float32{1, mask, -2, mask, 3, 1}), 1e-6, "%g: all others are lost", mask)
		require.InDelta(t, 0.01, loss([]float32{1.1, mask, -2.2, mask, 3.3, 1.1}, []float32{1, mask, -2, mask, 3, 1}), 1e-6, "%g", mask)
	}
	require.InDelta(t, 0.01, loss([]float32{1.1, inf, -2.2, inf, 3.3, 1.1}, []float32{1, inf, -2, inf, 3, 1}), 1e-6)
	require.Greater(t, loss([]float32{1, -4, -2, -4, 3, 1}, []float32{1, inf, -2, inf, 3, 1}), 0.1,
		"the quantized network shows what is masked")
	require.Less(t, loss([]float32{1, -40, -2, -40, 3, 1}, []float32{1, inf, -2, inf, 3, 1}), 0.01, "so far below that it does not matter")
	require.Greater(t, loss([]float32{1, -20, -2, -20, 3, 1}, []float32{1, -1e9, -2, -1e9, 3, 1}), 0.9, "a number may be meant")
	require.InDelta(t, 0.04, loss([]float32{8000, -2.4e4, -1.6e4, 0, 0, 0}, []float32{1e4, -3e4, -2e4, 0, 0, 0}), 1e-6,
		"large numbers are no masks")
	_, err := j.Losses(&Verdict{scores: make([]*tensor.Tensor, 1), outputs: []*tensor.Tensor{tensor.FromF32([]float32{inf, 1}, 1, 2)}},
		&Verdict{scores: make([]*tensor.Tensor, 1), outputs: []*tensor.Tensor{tensor.FromF32([]float32{2, 1}, 1, 2)}})
	require.ErrorIs(t, err, ErrNotFinite, "that is no mask of float")
}

// The scores in front of a Softmax are an output beside the probabilities: what no Softmax sees does not count there either, and rows have
// the losses of both.
func TestMaskedScoresThatAreAnOutputToo(t *testing.T) {
	g, q := rounding(t, `graph m
opset 13
input x: f32[1,6]
input k: f32[1,6]
const one: f32[] = 1
l = Mul(x, one)
m = Add(l, k)
y = Softmax(m)
output y
output m
`, map[string]float32{"l": 0.05, "m": 1})
	data := &exec.InMemory{}
	for i := range 3 {
		data.Samples = append(data.Samples, &exec.Sample{Name: "s", Feeds: map[string]*tensor.Tensor{
			"x": graphtest.Normal(uint64(i), 1, 6), "k": tensor.FromF32([]float32{0, -1e9, 0, 0, -1e9, 0}, 1, 6)}})
	}
	r, err := Analyze(t.Context(), g, q, data, Config{Layerwise: true, Outputs: true})
	require.NoError(t, err)
	require.Len(t, r.Layerwise, 2)
	byOutput := r.Layerwise[1].Parts()[:2]
	require.Equal(t, "m", r.Layerwise[1].Node)
	require.Greater(t, byOutput[1], 0.01, "rounded to whole numbers")
	require.InEpsilon(t, byOutput[1], r.Outputs[1].NSR, 0.3)
	require.InEpsilon(t, r.Together.Whole, r.Together.Sum, 0.5)
	require.NotEqual(t, graph.NoNode, NewJudge(g).masked[1].node)
}

// What a mask becomes in the quantized run, a number far below all others, is that mask where a Softmax reads the scores.
func TestMaskBeforeSoftmaxIsNoNumber(t *testing.T) {
	g := graphtest.Parse(t, "graph m\nopset 13\ninput x: f32[1,4]\nm = Relu(x)\ny = Softmax(m)\noutput y\noutput m\n")
	a, b := NewJudge(g).unmasked(1, tensor.FromF32([]float32{1, -20, 2, -300}, 1, 4), tensor.FromF32([]float32{1, -1e9, 2, -1e9}, 1, 4))
	require.Equal(t, []float32{1, -14, 2, float32(math.Inf(-1))}, a.F32())
	require.Equal(t, []float32{1, -14, 2, float32(math.Inf(-1))}, b.F32())
}

// An integer output beside a float one is no loss of the network: neither of a row nor of the sum.
func TestSumOfRowsIsOfWhatTheWholeIs(t *testing.T) {
	g, q := rounding(t, `graph k
opset 13
input x: f32[1,16]
const one: f32[] = 1
y = Mul(x, one)
k = ArgMax(y) {axis=1}
output y
output k
`, map[string]float32{"y": 0.4})
	data := &exec.InMemory{}
	for i := range 8 {
		data.Samples = append(data.Samples, &exec.Sample{Name: "s", Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(i), 1, 16)}})
	}
	r, err := Analyze(t.Context(), g, q, data, Config{Layerwise: true, Outputs: true})
	require.NoError(t, err)
	require.Greater(t, r.Outputs[1].Mismatch, 0.1)
	require.InDelta(t, r.Outputs[0].NSR, r.Together.Whole, 1e-9)
	require.InDelta(t, r.Together.Whole, r.Together.Sum, 1e-9)
}
