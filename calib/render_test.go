package calib_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

func render(t testing.TB, g *graph.Graph, set *tqc.Set, s *calib.Stats, cfg calib.RenderConfig) *calib.Outcome {
	t.Helper()
	out, err := calib.Render(context.Background(), g, set, s, cfg)
	require.NoError(t, err)
	return out
}

func slotOf(t testing.TB, g *graph.Graph, set *tqc.Set, node string, k tqc.Kind, i int) *tqc.Slot {
	t.Helper()
	id, ok := g.LookupNode(node)
	require.True(t, ok, node)
	if k == tqc.Input {
		return set.Slot(set.Input(id, i))
	}
	return set.Slot(set.Output(id, i))
}

// After Render nothing waits for a scale, for any target and method, and scales are what qmath makes of the ranges.
func TestRenderEverything(t *testing.T) {
	g := parse(t, network)
	stats := run(t, g, images(11, 10), calib.Config{Threads: 2})
	for _, platform := range []string{"trt_int8", "onnxruntime"} {
		for _, o := range append([]tqc.Observer{tqc.ObserverNone, tqc.ObserverAuto}, tqc.Observers...) {
			if o == tqc.ObserverIsotone {
				continue
			}
			set := configure(t, g, platform, quantizer.Options{})
			out := render(t, g, set, stats, calib.RenderConfig{Observer: o})
			quantizing := 0
			for i := range set.NumSlots() {
				sl := set.Slot(tqc.SlotID(i))
				require.NotContains(t, []tqc.State{tqc.Initial, tqc.PassiveInit}, sl.State(), "%s %s: %s of node %s", platform, o, sl.Kind,
					g.Node(sl.Node).Name)
				if sl.State().Quantizes() {
					quantizing++
				}
			}
			require.Greater(t, quantizing, 6)
			for _, c := range out.Choices {
				if c.Observer == tqc.ObserverFixed {
					continue
				}
				sl := set.Slot(c.Slot)
				scale, zp, _, err := qmath.ScaleFromRange(c.Range.Lo, c.Range.Hi, sl.Config.Scheme())
				require.NoError(t, err)
				require.Equal(t, tqc.Params{Scale: []float32{scale}, ZeroPoint: []int32{zp}}, *set.Params(c.Slot))
				if o != tqc.ObserverNone && o != tqc.ObserverAuto {
					require.Equal(t, o, c.Observer)
				}
			}
		}
	}
}

func TestRenderMinMaxAgainstStatistics(t *testing.T) {
	g := parse(t, network)
	stats := run(t, g, images(12, 4), calib.Config{})
	set := configure(t, g, "onnxruntime", decided(t, g, decision.Properties{Observer: tqc.ObserverMinMax}))
	out := render(t, g, set, stats, calib.RenderConfig{})
	by := map[string]calib.Choice{}
	for _, c := range out.Choices {
		by[c.Tensor] = c
	}
	x := stats.Tensor("x").State.Extent()
	require.Equal(t, observers.Range{Lo: float64(x.Min), Hi: float64(x.Max)}, by["x"].Range)
	require.NotContains(t, by, "c1", "the convolution's own output is overlapped by its ReLU's")
	require.NotContains(t, by, "s", "the last Softmax is float there")

	prescribed := configure(t, g, "tflite_int8", decided(t, g, decision.Properties{Observer: tqc.ObserverMinMax}))
	for _, c := range render(t, g, prescribed, stats, calib.RenderConfig{}).Choices {
		if c.Tensor == "s" {
			by["s"] = c
		}
	}
	require.Equal(t, tqc.ObserverFixed, by["s"].Observer, "the target prescribes the scale of Softmax")
	require.Equal(t, float32(1)/256, prescribed.Params(by["s"].Slot).Scale[0])

	// Weights: per channel, absmax/127; bias: int32 with the product of the scales.
	w := slotOf(t, g, set, "c1", tqc.Input, 1)
	p, bias := set.Params(w.ID), slotOf(t, g, set, "c1", tqc.Input, 2)
	data := g.Const(w.Value).F32()
	for c := range 4 {
		top := 0.0
		for _, v := range data[c*27 : (c+1)*27] {
			top = max(top, math.Abs(float64(v)))
		}
		require.Equal(t, float32(top/127), p.Scale[c])
		in := set.Params(slotOf(t, g, set, "c1", tqc.Input, 0).ID).Scale[0]
		require.Equal(t, in*p.Scale[c], set.Params(bias.ID).Scale[c])
	}
	require.Equal(t, tqc.Passive, bias.State())
}

// A group that shares one scale is calibrated on all its tensors, but not on what is overlapped.
func TestGroupsShareOneRange(t *testing.T) {
	g := parse(t, `
input x: f32[1,2,2,2]
const w: f32[2,2,1,1] = [1, 0, 0, 1]
a = Conv(x, w)
b = Conv(x, w)
s = Sub(a, b)
y = Conv(s, w)
output y: f32[1,2,2,2]`)
	set := tqc.NewSet(g)
	cfg := tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -128, QMax: 127},
		Observer: tqc.ObserverMinMax}
	sub := slotOf(t, g, set, "s", tqc.Output, 0)
	for _, n := range []string{"a", "b"} { // both inputs borrow the scale of the difference, which is all zeros
		sl := slotOf(t, g, set, n, tqc.Output, 0)
		require.NoError(t, set.Configure(sl.ID, cfg))
	}
	require.NoError(t, set.Configure(sub.ID, cfg))
	require.NoError(t, set.Borrow(slotOf(t, g, set, "a", tqc.Output, 0).ID, sub.ID))
	require.NoError(t, set.Borrow(slotOf(t, g, set, "b", tqc.Output, 0).ID, sub.ID))
	stats := run(t, g, []*exec.Sample{sampleOf("x", []float32{1, 2, -3, 4, 5, 6, 7, 8}, 1, 2, 2, 2)}, calib.Config{})
	out := render(t, g, set, stats, calib.RenderConfig{})
	require.Equal(t, observers.Range{Lo: -3, Hi: 8}, out.Choices[0].Range)
	require.Equal(t, tqc.Passive, slotOf(t, g, set, "a", tqc.Output, 0).State())
}

// The automatic choice is the method with the least error at the consumer's output, found here by plain executions.
// What a Memo remembers is what would have been found again, whatever was rendered before with it.
func TestMemoChangesNoScale(t *testing.T) {
	g := parse(t, network)
	stats := run(t, g, images(11, 10), calib.Config{Threads: 2})
	var memo calib.Memo
	for range 2 {
		for _, platform := range []string{"trt_int8", "onnxruntime"} {
			for _, o := range []tqc.Observer{tqc.ObserverMSE, tqc.ObserverKL, tqc.ObserverAuto} {
				want, got := configure(t, g, platform, quantizer.Options{}), configure(t, g, platform, quantizer.Options{})
				a := render(t, g, want, stats, calib.RenderConfig{Observer: o})
				b := render(t, g, got, stats, calib.RenderConfig{Observer: o, Memo: &memo, Threads: 2})
				require.Equal(t, a, b)
				require.Equal(t, want, got)
			}
		}
	}
}

func TestAutoAgainstPlainSearch(t *testing.T) {
	// Heavy tails before a weighted operator: methods differ.
	g := parse(t, `
input x: f32[1,4,8,8]
const w: f32[3,4,3,3] = normal(1)
y = Conv(x, w)
output y: f32[1,3,6,6]`)
	r := rand.New(rand.NewPCG(13, 1))
	var samples []*exec.Sample
	for range 12 {
		v := make([]float32, 4*64)
		for i := range v {
			v[i] = float32(math.Pow(r.NormFloat64(), 3))
		}
		samples = append(samples, sampleOf("s", v, 1, 4, 8, 8))
	}
	stats := run(t, g, samples, calib.Config{})
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	for _, threads := range []int{0, 3} {
		set := configure(t, g, "trt_int8", quantizer.Options{})
		out := render(t, g, set, stats, calib.RenderConfig{Observer: tqc.ObserverAuto, Threads: threads})
		require.Len(t, out.Choices, 1)
		c := out.Choices[0]
		require.Equal(t, tqc.ObserverAuto, c.Asked)
		require.GreaterOrEqual(t, len(c.Errors), 4)
		best := c.Errors[0]
		for _, e := range c.Errors {
			m := observers.Find(e.Method)
			rg, _, err := m.Range(stats.Tensor("x").State, set.Slot(c.Slot).Config, 0)
			require.NoError(t, err)
			scale, zp, _, err := qmath.ScaleFromRange(rg.Lo, rg.Hi, set.Slot(c.Slot).Config.Scheme())
			require.NoError(t, err)
			grid := qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: set.Slot(c.Slot).Config.QMin, QMax: set.Slot(c.Slot).Config.QMax}
			var sum, power float64
			for _, k := range stats.Kept() {
				f, err := session.NewRunner().Run(context.Background(), k.Feeds, nil)
				require.NoError(t, err)
				x := k.Feeds["x"].Clone()
				for i, v := range x.F32() {
					x.F32()[i] = grid.Fake(v)
				}
				q, err := session.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
				require.NoError(t, err)
				for i, v := range f[0].F32() {
					d := float64(q[0].F32()[i]) - float64(v)
					sum, power = sum+d*d, power+float64(v)*float64(v)
				}
			}
			require.InEpsilon(t, sum/power, e.Error, 1e-9, e.Method)
			if e.Error < best.Error {
				best = e
			}
		}
		require.Equal(t, best.Method, c.Observer)
	}
}

// Where methods give the same scale the simplest wins.
func TestAutoTie(t *testing.T) {
	g := parse(t, `
input x: f32[1,1,2,2]
const w: f32[1,1,1,1] = [2]
y = Conv(x, w)
output y: f32[1,1,2,2]`)
	stats := run(t, g, []*exec.Sample{sampleOf("s", []float32{127, -127, 1, 2}, 1, 1, 2, 2)}, calib.Config{})
	set := configure(t, g, "trt_int8", quantizer.Options{})
	out := render(t, g, set, stats, calib.RenderConfig{Observer: tqc.ObserverAuto})
	require.Equal(t, tqc.ObserverMinMax, out.Choices[0].Observer)
}

// A bias too large for its scale raises the weight scale of its channel and says so.
func TestBiasOverflow(t *testing.T) {
	g := parse(t, `
input x: f32[1,1,2,2]
const w: f32[2,1,1,1] = [1, 1e-9]
const b: f32[2] = [1, 100]
y = Conv(x, w, b)
output y: f32[1,2,2,2]`)
	stats := run(t, g, []*exec.Sample{sampleOf("s", []float32{1, -1, 0.5, 0.1}, 1, 1, 2, 2)}, calib.Config{})
	set := configure(t, g, "onnxruntime", decided(t, g, decision.Properties{Observer: tqc.ObserverMinMax}))
	out := render(t, g, set, stats, calib.RenderConfig{})
	var text []string
	for _, w := range out.Warnings {
		text = append(text, w.Text)
	}
	require.Contains(t, strings.Join(text, "\n"), "does not fit into 32 bits")
	b := set.Params(slotOf(t, g, set, "y", tqc.Input, 2).ID)
	for c, v := range []float32{1, 100} {
		_, fits := qmath.QuantizeBias(v, b.Scale[c])
		require.True(t, fits)
	}
}

// Parameters: every granularity and method against a plain computation.
func TestParameters(t *testing.T) {
	g := parse(t, `
input x: f32[1,6]
const w: f32[6,4] = normal(1)
y = MatMul(x, w)
output y: f32[1,4]`)
	data := g.Const(slotOf(t, g, tqc.NewSet(g), "y", tqc.Input, 1).Value).F32()
	stats := run(t, g, nil, calib.Config{})
	absmax := func(at func(r, c int) bool) float32 {
		m := 0.0
		for i, v := range data {
			if at(i/4, i%4) {
				m = max(m, math.Abs(float64(v)))
			}
		}
		return float32(m / 127)
	}
	base := tqc.Config{Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127}, Observer: tqc.ObserverMinMax}
	try := func(c tqc.Config) ([]float32, error) {
		set := tqc.NewSet(g)
		sl := slotOf(t, g, set, "y", tqc.Input, 1)
		sl.Weight = true
		require.NoError(t, set.Configure(sl.ID, c))
		_, err := calib.Render(context.Background(), g, set, stats, calib.RenderConfig{Threads: 2})
		return set.Params(sl.ID).Scale, err
	}
	c := base
	c.Policy = tqc.Symmetric | tqc.PerTensor | tqc.Linear
	s, err := try(c)
	require.NoError(t, err)
	require.Equal(t, []float32{absmax(func(_, _ int) bool { return true })}, s)

	c.Policy, c.Axis = tqc.Symmetric|tqc.PerChannel|tqc.Linear, -1
	s, err = try(c)
	require.NoError(t, err)
	require.Len(t, s, 4)
	for k := range s {
		require.Equal(t, absmax(func(_, c int) bool { return c == k }), s[k])
	}
	for _, o := range []tqc.Observer{tqc.ObserverMSE, tqc.ObserverPercentile, tqc.ObserverKL} { // such channels have six values each
		c.Observer = o
		m, err := try(c)
		require.NoError(t, err)
		for k := range m {
			require.LessOrEqual(t, m[k], s[k]*1.0001)
		}
	}
	c.Policy, c.Axis, c.GroupSize, c.Observer = tqc.Symmetric|tqc.PerGroup|tqc.Linear, 0, 3, tqc.ObserverMinMax
	s, err = try(c)
	require.NoError(t, err)
	require.Len(t, s, 8)
	for k := range s {
		require.Equal(t, absmax(func(r, c int) bool { return c == k%4 && r/3 == k/4 }), s[k])
	}
	c.GroupSize = 4
	s, err = try(c)
	require.NoError(t, err)
	require.Len(t, s, 8)
	for k := range s {
		require.Equal(t, absmax(func(r, c int) bool { return c == k%4 && r/4 == k/4 }), s[k], "the last group is shorter")
	}

	data[5] = nan
	c.Policy, c.Axis = tqc.Symmetric|tqc.PerChannel|tqc.Linear, 1
	_, err = try(c)
	require.EqualError(t, err, `calibrate: node "y" (MatMul, f32[1,6], f32[6,4]): tensor "w": range contains NaN`)
}

func TestRenderRefuses(t *testing.T) {
	g := parse(t, network)
	stats := run(t, g, images(14, 2), calib.Config{})
	empty := run(t, g, nil, calib.Config{})
	for want, f := range map[string]func() error{
		`unknown observer "best"`: func() error {
			_, err := calib.Render(context.Background(), g, configure(t, g, "trt_int8", quantizer.Options{}), stats,
				calib.RenderConfig{Observer: "best"})
			return err
		},
		"percentile 2": func() error {
			_, err := calib.Render(context.Background(), g, configure(t, g, "trt_int8", quantizer.Options{}), stats,
				calib.RenderConfig{Observer: "percentile(2)"})
			return err
		},
		`the statistics have nothing on`: func() error {
			_, err := calib.Render(context.Background(), g, configure(t, g, "trt_int8", quantizer.Options{}), empty, calib.RenderConfig{})
			return err
		},
		"isotone": func() error {
			_, err := calib.Render(context.Background(), g, configure(t, g, "trt_int8", quantizer.Options{}), stats,
				calib.RenderConfig{Observer: tqc.ObserverIsotone})
			return err
		},
	} {
		require.ErrorContains(t, f(), want)
	}
}

func TestThresholds(t *testing.T) {
	stats := run(t, parse(t, network), images(15, 3), calib.Config{})
	cfg := tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMax: 255}}
	var names []tqc.Observer
	for _, th := range calib.Thresholds(stats.Tensor("s").State, cfg) {
		names = append(names, th.Method)
	}
	require.ElementsMatch(t, tqc.Observers, names, "a softmax output serves every method")
	require.Len(t, calib.Thresholds(stats.Tensor("x").State, cfg), len(names)-1, "all but isotone")
}

// The parameter of percentile reaches the method, of activations by their configuration and by RenderConfig alike, and of weights.
func TestObserverParameter(t *testing.T) {
	g := parse(t, network)
	stats := run(t, g, images(11, 10), calib.Config{Threads: 2})
	scale := func(o tqc.Observer, cfg calib.RenderConfig, node string, i int) []float32 {
		set := configure(t, g, "onnxruntime", quantizer.Options{})
		for id := range tqc.SlotID(set.NumSlots()) {
			if sl := set.Slot(id); o != "" && sl.State() == tqc.Initial && sl.Config.Observer != tqc.ObserverFixed &&
				sl.Config.Observer != tqc.ObserverNone {
				sl.Config.Observer = o
			}
		}
		out := render(t, g, set, stats, cfg)
		for _, c := range out.Choices {
			require.Equal(t, c.Asked, c.Observer, "what was asked for, with its parameter, was used")
		}
		return set.Params(slotOf(t, g, set, node, tqc.Input, i).ID).Scale
	}
	var node string
	for _, id := range g.Nodes() {
		if n := g.Node(id); n.Op == "Conv" {
			node = n.Name
			break
		}
	}
	for i := range 2 {
		plain, same, narrow, all := scale("percentile", calib.RenderConfig{}, node, i), scale("percentile(0.9999)",
			calib.RenderConfig{}, node, i), scale("percentile(0.9)", calib.RenderConfig{}, node, i), scale("minmax", calib.RenderConfig{}, node, i)
		require.Equal(t, plain, same, "input %d: 0.9999 is the default", i)
		require.Less(t, narrow[0], plain[0], "input %d", i)
		require.LessOrEqual(t, plain[0], all[0]*1.01, "input %d", i)
	}
	require.Equal(t, scale("percentile(0.9)", calib.RenderConfig{}, node, 0),
		scale("", calib.RenderConfig{Observer: "percentile(0.9)"}, node, 0))
}
