package tune

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/observers"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/overlay"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// shifted is a network whose activations have means far from zero, so that rounded weights move the means of what follows. It has a
// branch, an Add, a depthwise convolution, and a convolution without a bias.
const shifted = `opset 13
input x: f32[1,8,12,12]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.2)
const b1: f32[16] = normal(seed=2, std=0.5)
const w2: f32[16,1,3,3] = normal(seed=3, std=0.4)
const b2: f32[16] = normal(seed=4, std=0.5)
const w3: f32[16,16,1,1] = normal(seed=5, std=0.3)
const w4: f32[16,16,3,3] = normal(seed=6, std=0.1)
const b4: f32[16] = normal(seed=7, std=0.3)
const w5: f32[10,16] = normal(seed=8, std=0.3)
const b5: f32[10] = normal(seed=9, std=0.3)
c1 = Conv(x, w1, b1) {pads=[1,1,1,1]} "c1"
r1 = Relu(c1)
c2 = Conv(r1, w2, b2) {pads=[1,1,1,1], group=16} "c2"
r2 = Relu(c2)
c3 = Conv(r2, w3) "c3"
s = Add(c3, r1)
r3 = Relu(s)
c4 = Conv(r3, w4, b4) {pads=[1,1,1,1], strides=[2,2]} "c4"
r4 = Relu(c4)
g = GlobalAveragePool(r4)
f = Flatten(g)
l = Gemm(f, w5, b5) {transB=1} "fc"
y = Softmax(l)
output y
`

func sampleList(from, n int) []*exec.Sample {
	var list []*exec.Sample
	for i := range n {
		x := graphtest.Normal(uint64(from+i), 1, 8, 12, 12)
		for k := range x.F32() {
			x.F32()[k] = x.F32()[k]*0.5 + 0.7
		}
		list = append(list, &exec.Sample{Name: fmt.Sprint(i), Hash: sha256.Sum256([]byte{byte(i), byte(from)}),
			Feeds: map[string]*tensor.Tensor{"x": x}})
	}
	return list
}

// bench configures the network for a platform, with weights of few bits so that there is something to repair.
func bench(t *testing.T, platform *target.Target, fit, held int) (*Bench, map[string]bool) {
	t.Helper()
	coarse := *platform
	coarse.Weight.Bits, coarse.Weight.QMin, coarse.Weight.QMax = 4, -7, 7
	return benchOf(t, &coarse, fit, held)
}

// benchOf configures the network for a platform.
func benchOf(t *testing.T, platform *target.Target, fit, held int) (*Bench, map[string]bool) {
	t.Helper()
	return benchNet(t, shifted, platform, fit, held)
}

// benchNet configures a network whose input is that of shifted.
func benchNet(t *testing.T, network string, platform *target.Target, fit, held int) (*Bench, map[string]bool) {
	t.Helper()
	return benchWith(t, network, platform, sampleList(1000, 20), sampleList(2000, fit), sampleList(3000, held))
}

// benchWith configures a network on samples of its own.
func benchWith(t testing.TB, network string, platform *target.Target, seen, fit, held []*exec.Sample) (*Bench, map[string]bool) {
	t.Helper()
	g := graphtest.Parse(t, network)
	require.Empty(t, graph.InferShapes(g))
	stats, err := calib.Run(context.Background(), g, &exec.InMemory{Samples: seen}, calib.Config{})
	require.NoError(t, err)
	configure := func(g *graph.Graph) *tqc.Set {
		a, err := dispatch.Assign(g, platform, dispatch.Options{})
		require.NoError(t, err)
		set, _, err := quantizer.Configure(g, a, platform, quantizer.Options{})
		require.NoError(t, err)
		_, err = calib.Render(context.Background(), g, set, stats, calib.RenderConfig{})
		require.NoError(t, err)
		return set
	}
	var sums func(string) *observers.InputSums
	if stats.HasSums() {
		sums = stats.Sums
	}
	added := Prepare(g, configure(g))
	require.NoError(t, g.Check())
	b := &Bench{Sums: sums, Reference: g, Graph: g.Clone(), Set: configure(g), Fit: fit, Held: held,
		Simulate: func(h *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error) {
			return sim.New(h, set, sim.Options{Runs: g, Constants: shared})
		},
		Ranges: func(h *graph.Graph, set *tqc.Set, root tqc.SlotID) ([]calib.Candidate, error) {
			return calib.Candidates(h, set, stats, root)
		}}
	return b, added
}

func TestBiasCorrectionLowersTheErrorOfUnseenSamples(t *testing.T) {
	for _, platform := range []*target.Target{&target.TRTInt8, &target.ONNXRuntime} { // float biases, integer biases
		t.Run(platform.Name, func(t *testing.T) {
			b, added := bench(t, platform, 24, 24)
			require.Equal(t, map[string]bool{"c3": true}, added)
			reports, err := b.Tune(context.Background(), &Bias)
			require.NoError(t, err)
			r := reports[0]
			require.True(t, r.Confirmed)
			require.GreaterOrEqual(t, r.Kept, 3)
			require.Less(t, r.After.NSR, 0.6*r.Before.NSR)
			require.NotNil(t, r.ChangeError)

			o := b.Overlay(b.Set, added)
			require.Len(t, o.Entries, r.Kept)
			fresh := graphtest.Parse(t, shifted)
			o.Prepare(fresh)
			tuned, stale := o.Apply(fresh, nil)
			require.Empty(t, stale)
			for _, e := range o.Entries {
				id, _ := tuned.LookupNode(e.Node)
				own, _ := b.Graph.LookupNode(e.Node)
				require.Equal(t, b.Graph.Const(b.Graph.Node(own).Input(2)), tuned.Const(tuned.Node(id).Input(2)))
				require.Equal(t, e.Node == "c3", e.Added)
			}

			// What was measured is what an evaluator of its own finds.
			ev, err := analysis.NewEvaluator(context.Background(), b.Reference, func() exec.Iterator {
				return &exec.InMemory{Samples: b.Held}
			}, 1, 0)
			require.NoError(t, err)
			q, err := b.Simulate(b.Graph, b.Set, nil)
			require.NoError(t, err)
			losses, err := ev.Losses(context.Background(), q)
			require.NoError(t, err)
			require.InDelta(t, r.After.NSR, losses.Estimate().Mean, 0)
		})
	}
}

// The mean error of each channel at an operator's own sum is gone behind a corrected prefix, on the samples it was fitted on.
func TestSequentialMeansAreGone(t *testing.T) {
	b, _ := bench(t, &target.TRTInt8, 6, 20)
	meansAreGone(t, b, 4) // the last is float: too little work
}

// The channels of a linear layer are its last axis, whatever the rank: here 96 of a tensor whose second axis is 8.
func TestMeansOfLinearLayersAreGone(t *testing.T) {
	b, _ := benchNet(t, `opset 13
input x: f32[1,8,12,12]
const w1: f32[12,96] = normal(seed=1, std=0.3)
const b1: f32[96] = normal(seed=2, std=0.5)
const w2: f32[96,16] = normal(seed=3, std=0.3)
const b2: f32[16] = normal(seed=4, std=0.5)
a = Gemm(x, w1, b1) "one"
r = Relu(a)
y = Gemm(r, w2, b2) "two"
output y
`, &target.TRTInt8, 6, 20)
	meansAreGone(t, b, 2)
}

func meansAreGone(t *testing.T, b *Bench, operators int) {
	t.Helper()
	b.Force = true
	ls, err := layers(b.Graph, b.Set)
	require.NoError(t, err)
	require.Len(t, ls, operators)
	_, err = b.Tune(context.Background(), &Bias)
	require.NoError(t, err)
	w, err := b.walk(ls, b.Fit)
	require.NoError(t, err)
	for k, l := range ls {
		require.NoError(t, w.enter(context.Background(), k, false))
		for c := range l.channels {
			var e, n float64
			for _, s := range w.states[:w.fitting] {
				e, n = e+s.now.sums[c], n+float64(s.now.count)
			}
			require.InDelta(t, 0, e/n, 1e-5)
		}
		w.leave(false)
	}
}

func TestResultsDependNeitherOnThreadsNorOnMemory(t *testing.T) {
	var want *overlay.Overlay
	for _, o := range []struct {
		threads int
		memory  int64
	}{{1, 0}, {3, 0}, {2, 1}} {
		b, added := bench(t, &target.ONNXRuntime, 8, 20)
		b.Threads, b.Memory = o.threads, o.memory
		_, err := b.Tune(context.Background(), &Bias)
		require.NoError(t, err)
		got := b.Overlay(b.Set, added)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

func TestTooFewHeldOutSamplesConfirmNothing(t *testing.T) {
	b, added := bench(t, &target.TRTInt8, 12, analysis.MinHeldOut-1)
	reports, err := b.Tune(context.Background(), &Bias)
	require.NoError(t, err)
	require.Zero(t, reports[0].Kept)
	require.False(t, reports[0].Confirmed)
	require.Contains(t, reports[0].Note, "15 held-out samples confirm nothing")
	require.Empty(t, b.Overlay(b.Set, added).Entries)

	b.Force = true
	reports, err = b.Tune(context.Background(), &Bias)
	require.NoError(t, err)
	require.Positive(t, reports[0].Kept)
	require.False(t, reports[0].Confirmed, "force does not confirm")
	require.Contains(t, reports[0].Note, "not confirmed")

	b.Held = nil
	_, err = b.Tune(context.Background(), &Bias)
	require.ErrorContains(t, err, "12 samples to fit on and 0 held out")
}

// A correction that was fitted on samples of another kind makes the others worse, and is taken back.
func TestWhatDoesNotHelpIsTakenBack(t *testing.T) {
	b, added := bench(t, &target.TRTInt8, 12, 20)
	for _, s := range b.Fit {
		for i := range s.Feeds["x"].F32() {
			s.Feeds["x"].F32()[i] *= -6
		}
	}
	reports, err := b.Tune(context.Background(), &Bias)
	require.NoError(t, err)
	for _, l := range reports[0].Layers {
		if !l.Kept && l.Why != "" {
			require.NotNil(t, l.ChangeError)
		}
	}
	require.LessOrEqual(t, reports[0].Kept, 1)
	require.LessOrEqual(t, len(b.Overlay(b.Set, added).Entries), 1)
}

// A few samples with a large error do not hide what happens to all others, but where the mean rises nothing is confirmed.
func TestJudgeLooksAtTheTypicalSample(t *testing.T) {
	var before, better, worse, noise analysis.Losses
	for i := range 20 {
		x := 0.001 * float64(1+i%3)
		before = append(before, []float64{x})
		better = append(better, []float64{x * 0.8})
		worse = append(worse, []float64{x * 0.8})
		noise = append(noise, []float64{x * (0.8 + 0.4*float64(i%2))})
	}
	before[3][0], better[3][0], worse[3][0] = 1, 0.95, 1.01
	before[4][0], better[4][0], worse[4][0] = 1, 1.045, 1
	noise[3][0], noise[4][0] = 1.01, 0.99
	change, typical, confirmed := Judge(before, better, nil, 1)
	require.False(t, change.Below(wholeBar))
	require.Less(t, typical.Mean, -0.15)
	require.True(t, confirmed)
	_, typical, confirmed = Judge(before, worse, nil, 1)
	require.Less(t, typical.Mean, -0.15)
	require.False(t, confirmed, "the mean rises")
	_, _, confirmed = Judge(before, noise, nil, 1)
	require.False(t, confirmed)
	_, _, confirmed = Judge(before[:15], better[:15], nil, 1)
	require.False(t, confirmed, "too few samples")
}
