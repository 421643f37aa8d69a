package analysis

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
)

const twoConvs = `graph two
opset 13
input x: f32[1,4,8,8]
const w1: f32[8,4,3,3] = normal(seed=1, std=0.2)
const w2: f32[4,8,3,3] = normal(seed=2, std=0.2)
c1 = Conv(x, w1) {pads=[1,1,1,1]}
r1 = Relu(c1)
y = Conv(r1, w2) {pads=[1,1,1,1]}
output y
`

// sampleOf is a sample of nothing but one small value.
func sampleOf(x float32, shape ...int) *exec.Sample {
	list := make([]float32, tensor.Count(shape))
	for i := range list {
		list[i] = x
	}
	return &exec.Sample{Name: "empty", Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32(list, shape...)}}
}

func TestEmptySamplesDoNotRuinMeans(t *testing.T) {
	data := samplesOf(20, 1, 4, 8, 8)
	g, q := configured(t, twoConvs, &target.ONNXRuntime, data, 0.9)
	run := func(data *exec.InMemory) *Report {
		r, err := Analyze(context.Background(), g, q, &exec.InMemory{Samples: data.Samples},
			Config{Outputs: true, Graphwise: true, Layerwise: true, Split: true})
		require.NoError(t, err)
		return r
	}
	want := run(data)
	assert.Empty(t, want.Headlines)
	for _, x := range []float32{0, 3e-4} {
		with := &exec.InMemory{Samples: slices.Insert(slices.Clone(data.Samples), 18, sampleOf(x, 1, 4, 8, 8))}
		r := run(with)
		assert.InEpsilon(t, want.Outputs[0].NSR, r.Outputs[0].NSR, 1e-9)
		assert.InEpsilon(t, *want.Outputs[0].NSRError, *r.Outputs[0].NSRError, 1e-9)
		assert.Equal(t, 1, r.Outputs[0].EmptySamples)
		assert.Equal(t, []string{"output y: no signal in 1 of 21 samples: their ratio to nothing is left out of means"}, r.Headlines)
		for i := range want.Layerwise {
			a, b := &want.Layerwise[i], &r.Layerwise[i]
			assert.InEpsilon(t, a.NSR, b.NSR, 1e-9, a.Node)
			assert.InEpsilon(t, a.Local, b.Local, 1e-9, a.Node)
			assert.InEpsilon(t, *a.Weight, *b.Weight, 1e-9, a.Node)
			assert.InEpsilon(t, want.Graphwise[i].NSR, r.Graphwise[i].NSR, 1e-9, a.Node)
		}
		losses := lossesOf(t, g, with, q)
		assert.InEpsilon(t, want.Outputs[0].NSR, losses.Estimate().Mean, 1e-9)
		assert.Zero(t, losses[18][0])
	}
}

func lossesOf(t *testing.T, g *graph.Graph, data *exec.InMemory, q *sim.Simulator) Losses {
	t.Helper()
	e, err := NewEvaluator(context.Background(), g, func() exec.Iterator { return &exec.InMemory{Samples: data.Samples} }, 2, 0)
	require.NoError(t, err)
	all, err := e.LossesWhile(context.Background(), q, func(Losses) bool { return true })
	require.NoError(t, err)
	return all
}

func TestWhatIsEmpty(t *testing.T) {
	assert.Nil(t, emptyOf([]float64{1, 2, 0.01}))
	assert.Nil(t, emptyOf([]float64{0, 0}), "then nothing is, see OutputError.NoSignal")
	e := emptyOf([]float64{0, 1, 1.9 / 512, 2, 2.1 / 512})
	assert.Equal(t, empty{true, false, true, false, false}, e)
	assert.Equal(t, []float64{0, 5.0 / 3}, []float64{e.weight(0), e.weight(1)})
	l := logits{axis: -1}
	assert.Zero(t, l.reach(tensor.FromF32([]float32{3, 3, 5, 5}, 2, 2)), "what all scores share is no signal")
	assert.Equal(t, 2.0, l.reach(tensor.FromF32([]float32{3, 1, 5, 5}, 2, 2)))
}
