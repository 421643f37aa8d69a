package bench_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/bench"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
)

// The network has the layers, the parameters and the work of ResNet-50, and its activations neither vanish nor grow beyond measure.
func TestResNet50(t *testing.T) {
	g, err := bench.ResNet50(8, 32, 1)
	require.NoError(t, err)
	count := map[string]int{}
	for _, id := range g.Nodes() {
		count[g.Node(id).Op]++
	}
	assert.Equal(t, map[string]int{"Conv": 53, "Relu": 49, "Add": 16, "MaxPool": 1, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}, count)

	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(1, 2, 3, 32, 32)}, nil)
	require.NoError(t, err)
	require.Equal(t, []int{2, 125}, out[0].Shape)
	var sum float64
	for _, v := range out[0].F32() {
		sum += float64(v) * float64(v)
	}
	rms := math.Sqrt(sum / 250)
	assert.Greater(t, rms, 0.1)
	assert.Less(t, rms, 20.0)

	again, err := bench.ResNet50(8, 32, 1)
	require.NoError(t, err)
	assert.Equal(t, graph.Format(g), graph.Format(again))
	other, err := bench.ResNet50(8, 32, 2)
	require.NoError(t, err)
	assert.NotEqual(t, graph.Format(g), graph.Format(other))
}

func TestResNet50AsLargeAsReal(t *testing.T) {
	longtest.Need(t, "makes 25 million weights")
	g, err := bench.ResNet50(64, 224, 1)
	require.NoError(t, err)
	var macs, parameters int64
	for _, id := range g.Nodes() {
		n, _ := g.MACs(id)
		macs += n
		for _, v := range g.Node(id).Inputs {
			if c := g.Const(v); c != nil {
				parameters += int64(c.Len())
			}
		}
	}
	assert.EqualValues(t, 25_530_472, parameters)
	assert.InDelta(t, 4.09e9, float64(macs), 0.05e9)
}
