package analysis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower/lowertest"
)

// A part that is small beside another shows in its own causes what the output's hide, and so do indices that a user names.
func TestTheLossIsSplitByPart(t *testing.T) {
	g, set, _ := lowertest.Configured(t, `input x: f32[1,8]
const w: f32[8,4] = normal(seed=1, std=3)
const v: f32[8,4] = normal(seed=2, std=0.01)
a = MatMul(x, w) "large"
b = MatMul(x, v) "small"
y = Concat(a, b) {axis=1} "join"
output y
`, "qnn")
	require.Empty(t, graph.InferShapes(g))
	var feeds []map[string]*tensor.Tensor
	for i := range 3 {
		x := tensor.New(tensor.Float32, 1, 8)
		for k := range x.F32() {
			x.F32()[k] = float32((k*7+i*5)%11)/5 - 1
		}
		feeds = append(feeds, map[string]*tensor.Tensor{"x": x})
	}
	x := explainedOn(t, g, set, "qnn", "tflite2", feeds...)
	require.Len(t, x.Outputs, 1)
	o := x.Outputs[0]
	by := map[string]analysis.SliceLoss{}
	for _, s := range o.Slices {
		by[s.Name] = s
		sum := s.Rest
		for _, p := range parts(s.Loss) {
			require.GreaterOrEqual(t, p, 0.0)
			sum += p
		}
		require.InDelta(t, s.NSR, sum, 1e-12*s.NSR)
	}
	require.Contains(t, by, "a")
	require.Contains(t, by, "b")
	require.InEpsilon(t, o.NSR, by["a"].NSR, 0.5, "the large part is the output but for some noise")
	require.Greater(t, by["b"].NSR, 20*o.NSR)
	require.Greater(t, by["b"].Round, 20*o.Round, "the grid of the join is too coarse for it")
	require.Equal(t, analysis.SignalLost, by["b"].Finding)
	require.Empty(t, by["a"].Finding)
}
