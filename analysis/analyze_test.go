package analysis

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// residualNet has what makes restarting hard: a branch, a residual Add, a Concat, fused activations and two outputs.
const residualNet = `graph residual
opset 13
input x: f32[1,8,10,10]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.15)
const b1: f32[16] = normal(seed=2, std=0.1)
const w2: f32[16,16,3,3] = normal(seed=3, std=0.1)
const w3: f32[16,16,1,1] = normal(seed=4, std=0.25)
const w4: f32[8,32,1,1] = normal(seed=5, std=0.2)
const wf: f32[6,8] = normal(seed=6, std=0.4)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1]}
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[1,1,1,1]}
s = Add(c2, r1)
r2 = Relu(s)
c3 = Conv(r2, w3)
r3 = Relu(c3)
cat = Concat(r2, r3) {axis=1}
c4 = Conv(cat, w4)
g = GlobalAveragePool(c4)
f = Flatten(g)
y = Gemm(f, wf) {transB=1}
output y, r3
`

func samplesOf(n int, shape ...int) *exec.InMemory {
	s := &exec.InMemory{}
	for i := range n {
		s.Samples = append(s.Samples, &exec.Sample{Name: fmt.Sprint(i),
			Feeds: map[string]*tensor.Tensor{"x": graphtest.Normal(uint64(100+i), shape...)}})
	}
	return s
}

// configured gives every slot min-max scales measured on the samples, narrowed so that clipping occurs.
func configured(t *testing.T, text string, tgt *target.Target, data *exec.InMemory, narrow float64) (*graph.Graph, *sim.Simulator) {
	t.Helper()
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	q, _ := quantized(t, g, tgt, extents(t, g, data), narrow)
	return g, q
}

// extents runs the graph in float and returns the range of every float activation.
func extents(t testing.TB, g *graph.Graph, data *exec.InMemory) map[graph.ValueID]observers.Extent {
	t.Helper()
	ranges := map[graph.ValueID]observers.Extent{}
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	for _, sample := range data.Samples {
		values, err := s.NewRunner().RunAll(context.Background(), sample.Feeds, nil, nil)
		require.NoError(t, err)
		for v, x := range values {
			if x != nil && x.DType == tensor.Float32 {
				all, seen := ranges[graph.ValueID(v)]
				if !seen {
					all = observers.NoExtent
				}
				one, err := observers.New().Observe(x, -1)
				require.NoError(t, err)
				ranges[graph.ValueID(v)] = all.Union(one)
			}
		}
	}
	return ranges
}

// quantized configures a graph with the forced nodes in float. Biases stay float: what borrows a product of scales is
// calibration's business.
func quantized(t testing.TB, g *graph.Graph, tgt *target.Target, ranges map[graph.ValueID]observers.Extent, narrow float64,
	forced ...graph.NodeID) (*sim.Simulator, *dispatch.Assignment) {
	t.Helper()
	a, err := dispatch.Assign(g, tgt, dispatch.Options{Forced: []dispatch.Forced{dispatch.Forced{Nodes: forced, Who: dispatch.BySearch}}})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, tgt, quantizer.Options{})
	require.NoError(t, err)
	for id := range tqc.SlotID(set.NumSlots()) {
		slot := set.Slot(id)
		if slot.State() != tqc.Initial || set.Root(id) != id {
			continue
		}
		var p tqc.Params
		add := func(x observers.Extent, share float64) {
			scale, zp, _, err := qmath.ScaleFromRange(float64(x.Min)*share, float64(x.Max)*share, slot.Config.Scheme())
			require.NoError(t, err)
			p.Scale, p.ZeroPoint = append(p.Scale, scale), append(p.ZeroPoint, zp)
		}
		st := observers.New()
		switch w := g.Const(slot.Value); {
		case w == nil:
			add(ranges[slot.Value], narrow)
		case slot.Config.Policy.Has(tqc.PerChannel):
			_, err := st.Observe(w, slot.Config.Axis)
			require.NoError(t, err)
			for _, x := range st.Channels() {
				add(x, 1)
			}
		default:
			x, err := st.Observe(w, -1)
			require.NoError(t, err)
			add(x, 1)
		}
		require.NoError(t, set.Render(id, p))
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		if set.Slot(id).State() == tqc.PassiveInit {
			require.NoError(t, set.Advance(id, tqc.FP32))
		}
	}
	q, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	return q, a
}

func analyze(t *testing.T, g *graph.Graph, q *sim.Simulator, data *exec.InMemory, cfg Config) *Report {
	t.Helper()
	data = &exec.InMemory{Samples: data.Samples}
	r, err := Analyze(context.Background(), g, q, data, cfg)
	require.NoError(t, err)
	return r
}

func TestPartsSumToTheLocalError(t *testing.T) {
	data := samplesOf(2, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.TRTInt8, data, 0.5)
	r := analyze(t, g, q, data, Config{Layerwise: true, Split: true})
	clipped := 0
	for _, l := range r.Layerwise {
		require.InDelta(t, l.Local, l.Clip+l.Round, 1e-9*l.Local, l.Node)
		require.InDelta(t, l.Local, *l.Weight+*l.Activation, 1e-6*l.Local, l.Node)
		if l.Clip > l.Round {
			clipped++
		}
	}
	require.Positive(t, clipped, "with half the range, clipping dominates somewhere")
}

func TestThreadsAndMemoryCapChangeNoNumber(t *testing.T) {
	data := samplesOf(5, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.ONNXRuntime, data, 0.8)
	all := Config{Layerwise: true, Graphwise: true, Statistical: true, Split: true}
	want := analyze(t, g, q, data, all)
	for _, cfg := range []Config{{Threads: 2}, {Threads: 7}, {Threads: 1, Memory: 1}, {Threads: 2, Memory: 40_000}} {
		c := all
		c.Threads, c.Memory = cfg.Threads, cfg.Memory
		got := analyze(t, g, q, data, c)
		got.Forwards = want.Forwards // less memory costs more work
		require.Equal(t, want, got, "%+v", cfg)
	}
}

func TestGraphwiseEndsInTheOutputError(t *testing.T) {
	data := samplesOf(2, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.ONNXRuntime, data, 1)
	r := analyze(t, g, q, data, Config{Graphwise: true})
	var names []string
	for _, p := range r.Graphwise {
		names = append(names, p.Node)
	}
	require.Equal(t, []string{"c1", "c2", "s", "c3", "cat", "c4", "g", "y"}, names, "Flatten puts nothing on a grid of its own")
	last := r.Graphwise[len(r.Graphwise)-1]
	require.Equal(t, "y", last.Tensor)
	require.Equal(t, r.Outputs[0].Error, last.Error)
}

func TestStatisticsOfKnownTensors(t *testing.T) {
	g := graphtest.Parse(t, "opset 13\ninput x: f32[1,2,4]\ny = Relu(x)\noutput y\n")
	graph.InferShapes(g)
	q, err := sim.New(g, tqc.NewSet(g), sim.Options{})
	require.NoError(t, err)
	data := &exec.InMemory{Samples: []*exec.Sample{
		{Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{-1, 2, 3, 4, -1, -1, -1, -1}, 1, 2, 4)}},
		{Feeds: map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{5, 6, 7, 8, -2, -3, -4, -5}, 1, 2, 4)}}}}
	r := analyze(t, g, q, data, Config{Statistical: true})
	require.Len(t, r.Statistical, 2)
	y := r.Statistical[1]
	require.Equal(t, []any{"y", "activation", 0.0, 8.0, int64(16)}, []any{y.Tensor, y.Kind, y.Min, y.Max, y.Count})
	require.InDelta(t, 35.0/16, y.Mean, 1e-12)
	require.InDelta(t, math.Sqrt(203.0/16-math.Pow(35.0/16, 2)), y.Std, 1e-12)
	require.InDelta(t, 9.0/16, y.Zeros, 1e-12)
	require.Equal(t, []int{1}, y.Dead)
	var n int64
	for _, c := range y.Histogram {
		n += c
	}
	require.Equal(t, y.Count, n)
}

func TestMomentsJoinAsIfInOnePiece(t *testing.T) {
	x := graphtest.Normal(3, 1000).F32()
	for i := range x {
		x[i] = x[i]*x[i] + 10
	}
	whole := momentsOf(x)
	require.Equal(t, whole, momentsOf(append([]float32{float32(math.Inf(1)), float32(math.Inf(-1))}, x...)))
	var joined moments
	for lo := 0; lo < len(x); lo += 137 {
		joined = joined.join(momentsOf(x[lo:min(lo+137, len(x))]))
	}
	require.InDelta(t, whole.mean, joined.mean, 1e-12)
	require.InDelta(t, whole.std(), joined.std(), 1e-10)
	require.InDelta(t, whole.skewness(), joined.skewness(), 1e-8)
	require.InDelta(t, whole.kurtosis(), joined.kurtosis(), 1e-7)
	require.InDelta(t, math.Sqrt(8), whole.skewness(), 1, "a chi-squared distribution is skewed by sqrt(8)")
}

func TestAnalyzeRefusesNoDataAndStopsOnError(t *testing.T) {
	data := samplesOf(1, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.TRTInt8, data, 1)
	_, err := Analyze(context.Background(), g, q, &exec.InMemory{}, Config{})
	require.ErrorContains(t, err, "empty")
	_, err = Analyze(context.Background(), g, q, samplesOf(3, 1, 8, 5, 5), Config{Threads: 2, Layerwise: true})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Analyze(ctx, g, q, samplesOf(3, 1, 8, 10, 10), Config{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestCompare(t *testing.T) {
	f := tensor.FromF32([]float32{3, 4}, 2)
	e, err := Compare(tensor.FromF32([]float32{3, 5}, 2), f)
	require.NoError(t, err)
	require.InDelta(t, 1/25.0, e.NSR, 1e-8)
	require.InDelta(t, 0.5, e.MSE, 1e-12)
	require.InDelta(t, 29/(5*math.Sqrt(34)), e.Cosine, 1e-12)
	_, err = Compare(tensor.FromF32([]float32{1}, 1), f)
	require.Error(t, err)
	zero := tensor.FromF32([]float32{0, 0}, 2)
	e, err = Compare(zero, zero)
	require.NoError(t, err)
	require.Equal(t, Error{Cosine: 1}, e)
}
