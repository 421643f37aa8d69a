package analysis

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// pairNet multiplies two copies of its input, and lets through only what is above 0.7.
const pairNet = `graph pair
opset 13
input x: f32[1,64]
const one: f32[] = 1
const low: f32[] = 0.7
const high: f32[] = 1e9
a = Mul(x, one)
b = Mul(x, one)
m = Mul(a, b)
c = Clip(m, low, high)
d = Sub(c, low)
y = Add(d, x)
output y
`

// rounding is a plan in which the outputs of the nodes named are rounded to steps.
func rounding(t *testing.T, text string, steps map[string]float32) (*graph.Graph, *sim.Simulator) {
	t.Helper()
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	set := tqc.NewSet(g)
	for name, step := range steps {
		id, ok := g.LookupNode(name)
		require.True(t, ok)
		set.Domains[id] = tqc.DomainInt
		slot := set.Output(id, 0)
		require.NoError(t, set.Configure(slot, tqc.Config{Policy: tqc.Linear | tqc.PerTensor | tqc.Symmetric,
			Format: qmath.Format{Bits: 16, QMin: -32767, QMax: 32767}}))
		require.NoError(t, set.Render(slot, tqc.Params{Scale: []float32{step}, ZeroPoint: []int32{0}}))
	}
	q, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	return g, q
}

// Values of 0.55 to 0.65 are rounded to 1. With one of the factors their product stays below what is let through, with both it does not.
// The other rows make a small error each.
func TestTogetherFindsThePair(t *testing.T) {
	data := &exec.InMemory{}
	for i := range 3 {
		x := graphtest.Uniform(uint64(i), 0.55, 0.65, 1, 64)
		data.Samples = append(data.Samples, &exec.Sample{Name: fmt.Sprint(i), Feeds: map[string]*tensor.Tensor{"x": x}})
	}
	g, q := rounding(t, pairNet, map[string]float32{"a": 1, "b": 1, "c": 1. / 1024, "y": 1. / 1024})
	r := analyze(t, g, q, data, Config{Layerwise: true, Outputs: true})
	require.Len(t, r.Layerwise, 4)
	require.NotNil(t, r.Together)
	require.True(t, r.Together.Apart())
	require.Equal(t, []string{"a", "b"}, r.Together.Nodes)
	require.Greater(t, r.Together.NSR, far*r.Together.Alone)
	require.Equal(t, 2, r.Together.Samples)
}

// Where rows add up nothing is looked for, and nothing said.
func TestRowsThatAddUpAreNotApart(t *testing.T) {
	data := &exec.InMemory{}
	for i := range 3 {
		data.Samples = append(data.Samples, &exec.Sample{Name: fmt.Sprint(i),
			Feeds: map[string]*tensor.Tensor{"x": graphtest.Uniform(uint64(i), 0.9, 2, 1, 64)}})
	}
	g, q := rounding(t, pairNet, map[string]float32{"a": 1. / 64, "b": 1. / 64, "y": 1. / 64})
	r := analyze(t, g, q, data, Config{Layerwise: true, Outputs: true})
	require.NotNil(t, r.Together)
	require.False(t, r.Together.Apart())
	require.Nil(t, r.Together.Nodes)
	require.Nil(t, analyze(t, g, q, data, Config{Layerwise: true}).Together)
}

// A row whose error is small on the first samples and large on another one is not bounded there: its local error is larger.
func TestRowsAreBoundedWhereTheyAreSmall(t *testing.T) {
	steps := map[string]float32{"a": 1. / 64, "d": 1. / 4096, "y": 1. / 8}
	var all []*exec.Sample
	for i := range 6 {
		x := graphtest.Uniform(uint64(i), 0.9, 2, 1, 64)
		all = append(all, &exec.Sample{Name: fmt.Sprint(i), Feeds: map[string]*tensor.Tensor{"x": x}})
	}
	g, q := rounding(t, pairNet, steps)
	whole := analyze(t, g, q, &exec.InMemory{Samples: all}, Config{Layerwise: true})
	require.Equal(t, []int{5, 6, 0}, []int{whole.Layerwise[0].Bounded, whole.Layerwise[1].Bounded, whole.Layerwise[2].Bounded})
	var exact [3]float64 // each sample by itself is measured
	for _, s := range all {
		r := analyze(t, g, q, &exec.InMemory{Samples: []*exec.Sample{s}}, Config{Layerwise: true})
		for i := range exact {
			require.Zero(t, r.Layerwise[i].Bounded)
			exact[i] += r.Layerwise[i].NSR / float64(len(all))
		}
	}
	require.InEpsilon(t, exact[0], whole.Layerwise[0].NSR, 0.5)
	require.InEpsilon(t, exact[1], whole.Layerwise[1].NSR, 0.5)
	require.InEpsilon(t, exact[2], whole.Layerwise[2].NSR, 1e-12)

	far := graphtest.Uniform(9, 700, 900, 1, 64) // beyond the range of a: clipped
	all = append(all, &exec.Sample{Name: "far", Feeds: map[string]*tensor.Tensor{"x": far}})
	r := analyze(t, g, q, &exec.InMemory{Samples: all}, Config{Layerwise: true})
	require.Equal(t, 5, r.Layerwise[0].Bounded, "the last sample was run")
	require.Greater(t, r.Layerwise[0].NSR, 0.01)
}

// What clipping and what weights make of an operator's error is measured on two samples of sixteen, and is near what it is on all of them;
// the error itself is that of all.
func TestSharesOfTheLocalErrorAreThoseOfAllSamples(t *testing.T) {
	data := samplesOf(16, 1, 8, 10, 10)
	for _, tgt := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime} {
		g, q := configured(t, residualNet, tgt, data, 0.6)
		r := analyze(t, g, q, data, Config{Layerwise: true, Split: true})
		want := make([]LayerError, len(r.Layerwise))
		single := 0.0
		for _, s := range data.Samples {
			one := analyze(t, g, q, &exec.InMemory{Samples: []*exec.Sample{s}}, Config{Layerwise: true, Split: true})
			single += one.Forwards / 16
			for i, l := range one.Layerwise {
				w := &want[i]
				w.Local, w.Clip, w.NSR = w.Local+l.Local/16, w.Clip+l.Clip/16, w.NSR+l.NSR/16
				if w.Weight == nil {
					w.Weight = new(float64)
				}
				*w.Weight += *l.Weight / 16
			}
		}
		for i, l := range r.Layerwise {
			require.InEpsilon(t, want[i].Local, l.Local, 1e-9, l.Node)
			require.InDelta(t, want[i].Clip, l.Clip, 0.1*want[i].Local, l.Node)
			require.InDelta(t, *want[i].Weight, *l.Weight, 0.1*want[i].Local, l.Node)
			require.InDelta(t, l.Local, *l.Weight+*l.Activation, 1e-12, l.Node)
			if l.Bounded == 0 {
				require.InEpsilon(t, want[i].NSR, l.NSR, 1e-9, l.Node)
			}
		}
		require.Less(t, r.Forwards, single-1, "one run to choose what is kept is all that they would share")
	}
}

// A sample of which clipping takes away more than of the first ones is measured: one that is a hundred times as large.
func TestASampleThatClipsMoreIsMeasured(t *testing.T) {
	data := samplesOf(6, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.TRTInt8, data, 0.95)
	far := samplesOf(1, 1, 8, 10, 10).Samples[0]
	for i, x := range far.Feeds["x"].F32() {
		far.Feeds["x"].F32()[i] = 100 * x
	}
	data.Samples = append(data.Samples, far)
	r := analyze(t, g, q, data, Config{Layerwise: true, Split: true})
	one := analyze(t, g, q, &exec.InMemory{Samples: []*exec.Sample{far}}, Config{Layerwise: true})
	for i, l := range r.Layerwise {
		require.InDelta(t, one.Layerwise[i].Clip/7, l.Clip, 0.01, l.Node)
	}
}
