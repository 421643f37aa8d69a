package analysis_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// The loss of a sample is that of the part that loses most in it, over the mean square of the part in all samples; where a whole output
// loses more it is that.
func TestLossOfSamplesByPart(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[1,4]\ninput z: f32[1,4]\na = Relu(x)\nb = Relu(z)\ny = Concat(a, b) {axis=1} \"join\"\noutput y\n")
	require.Empty(t, graph.InferShapes(g))
	p := analysis.SampleParts{Judge: analysis.NewJudge(g, analysis.Slice{Name: "b", Axis: 1, From: 4, To: 8, Part: true})}
	row := func(list ...float32) *analysis.Verdict {
		v := &analysis.Verdict{}
		v.Outputs([]*tensor.Tensor{tensor.FromF32(list, 1, 8)})
		return v
	}
	large := []float32{100, 200, 300, 400}
	require.NoError(t, p.Add(row(append(large, 0.5, 0, 0.25, 0)...), row(append(large, 1, 0, 0.5, 0)...)))
	require.NoError(t, p.Add(row(0, 200, 300, 400, 0, 1, 0, 0.5), row(append(large, 0, 1, 0, 0.5)...)))
	list := p.Losses()
	require.Len(t, list, 2)
	require.Equal(t, "b", list[0].Part)
	require.InEpsilon(t, 0.25, list[0].NSR, 1e-6)
	require.Empty(t, list[1].Part)
	require.InEpsilon(t, 1./30, list[1].NSR, 1e-4)
	require.Error(t, p.Add(row(append(large, float32(math.NaN()), 0, 0, 0)...), row(append(large, 1, 0, 0, 0)...)))
}

// Class scores are judged by what the last Softmax reads, whatever hands its elements on to the output. Which class ArgMax gives has no
// error but another class.
func TestScoresBehindTheOutput(t *testing.T) {
	for end, classes := range map[string]bool{
		"y = Softmax(x) {axis=1}":                                  true,
		"s = Softmax(x) {axis=1}; y = Transpose(s) {perm=[0,2,1]}": true,
		"s = LogSoftmax(x) {axis=1}; y = Dropout(s)":               true,
		"y = ArgMax(x) {axis=1}":                                   false,
		"s = Softmax(x) {axis=1}; y = Relu(s)":                     false,
	} {
		g := graphtest.Parse(t, "opset 17\ninput x: f32[1,3,4]\n"+end+"\noutput y")
		require.Empty(t, graph.InferShapes(g))
		require.Equal(t, classes, analysis.NewJudge(g).Classes(), end)
	}
}
