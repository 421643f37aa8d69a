package qwb

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/analysis/advise"
	"qwb/calib/data/npy"
	"qwb/export/all"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
)

// healthy is a network that loses next to nothing in 8 bits.
const healthy = `opset 17
input x: f32[1,8,12,12]
const w1: f32[16,8,3,3] = normal(seed=1, std=0.12)
const b1: f32[16] = normal(seed=2, std=0.1)
const w2: f32[16,1,3,3] = normal(seed=3, std=0.33)
const b2: f32[16] = normal(seed=4, std=0.1)
const w3: f32[16,16,1,1] = normal(seed=5, std=0.35)
const b3: f32[16] = normal(seed=6, std=0.1)
const w4: f32[16,16,3,3] = normal(seed=7, std=0.12)
const b4: f32[16] = normal(seed=8, std=0.1)
const w5: f32[10,4608] = normal(seed=9, std=0.02)
const b5: f32[10] = normal(seed=10, std=0.1)
c1 = Conv(x, w1, b1) {pads=[1, 1, 1, 1]} "conv1"
r1 = Relu(c1) "relu1"
c2 = Conv(r1, w2, b2) {pads=[1, 1, 1, 1], group=16} "depthwise"
r2 = Relu(c2) "relu2"
c3 = Conv(r2, w3, b3) "point"
r3 = Relu(c3) "relu3"
c4 = Conv(r3, w4, b4) {pads=[1, 1, 1, 1]} "conv4"
r4 = Relu(c4) "relu4"
cat = Concat(r3, r4) {axis=1} "concat"
f = Flatten(cat) "flatten"
y = Gemm(f, w5, b5) {transB=1} "gemm"
output y: f32[1,10]
`

// attention is a network with a Softmax over 600 places.
const attention = `opset 17
input x: f32[1,600,16]
const wq: f32[16,16] = normal(seed=1, std=0.25)
const wk: f32[16,16] = normal(seed=2, std=0.25)
const wv: f32[16,16] = normal(seed=3, std=0.25)
const wo: f32[16,8] = normal(seed=4, std=0.25)
q = MatMul(x, wq) "q"
k = MatMul(x, wk) "k"
v = MatMul(x, wv) "v"
kt = Transpose(k) {perm=[0, 2, 1]} "turn"
s = MatMul(q, kt) "scores"
p = Softmax(s) {axis=-1} "softmax"
a = MatMul(p, v) "mix"
y = MatMul(a, wo) "out"
output y: f32[1,600,8]
`

// patient is a plan with something to find.
type patient struct {
	name    string
	network string
	shape   []int
	samples int
	// edit changes the constants of the network, feed a sample.
	edit      func(c map[string][]float32)
	feed      func(i int, x []float32)
	platform  string // onnxruntime unless said
	perTensor bool
	set       []string // decided afterwards: a selector, then properties
	nodes     []string // that the advice has to name
	cured     bool     // the command makes the outputs better when it is tried
}

// scaled multiplies the blocks of a constant by factors.
func scaled(x []float32, blocks int, factor func(c int) float32) {
	for i := range x {
		x[i] *= factor(i / (len(x) / blocks))
	}
}

// twice is a spread of powers of two over 16 channels, 1 to 128.
func twice(c int) float32 { return float32(int(1) << (c % 8)) }

// patients are twelve illnesses, one for each cause.
var patients = []patient{
	{name: "clipping", set: []string{"point:in0", "observer=percentile(0.9)"}, nodes: []string{"relu2"}, cured: true},
	// The outliers lie in a channel that the network does not look at.
	{name: "outliers", edit: func(c map[string][]float32) {
		for i := range c["w1"] {
			if i/9%8 == 7 {
				c["w1"][i] = 0
			}
		}
	}, feed: func(i int, x []float32) { x[7*144+i] = 600 }, set: []string{"conv1:in0", "observer=minmax"}, nodes: []string{"conv1"}, cured: true},
	// conv4 takes differences of numbers that are all large.
	{name: "coarse-grid", edit: func(c map[string][]float32) { levelled(c, 300, true) }, nodes: []string{"conv4"}, cured: true},
	// A large weight makes the steps of all others coarse.
	{name: "weight-mean-shift", edit: func(c map[string][]float32) {
		levelled(c, 8, false)
		for o := range 16 {
			c["w4"][o*144], c["w4"][o*144+72] = 3.6, -3.6
		}
	}, nodes: []string{"conv4"}, cured: true},
	// A channel of large weights that its bias keeps at zero behind Relu.
	{name: "weight-channels", perTensor: true, edit: func(c map[string][]float32) {
		scaled(c["w4"], 16, func(o int) float32 {
			if o == 3 {
				return 60
			}
			return 1
		})
		c["b4"][3] = -1000
	}, nodes: []string{"conv4"}, cured: true},
	{name: "weight-bits", samples: 44, set: []string{"conv4,point,depthwise", "weights=int4-sym-channel"}, platform: "own.yaml", nodes: []string{"conv4"}, cured: true},
	{name: "depthwise-channels", edit: func(c map[string][]float32) {
		scaled(c["w1"], 16, func(i int) float32 { return 1 / twice(i) })
		scaled(c["b1"], 16, func(i int) float32 { return 1 / twice(i) })
		scaled(c["w2"], 16, twice)
	}, nodes: []string{"depthwise"}, cured: true},
	{name: "concat-ranges", edit: func(c map[string][]float32) {
		scaled(c["w4"], 1, func(int) float32 { return 0.004 })
		scaled(c["b4"], 1, func(int) float32 { return 0.004 })
		for i := range c["w5"] {
			if at := i % 4608 / 144; at >= 16 {
				c["w5"][i] /= 0.004
			}
		}
	}, nodes: []string{"concat"}, cured: true},
	{name: "softmax-tails", network: attention, shape: []int{1, 600, 16}, edit: func(c map[string][]float32) {
		scaled(c["wq"], 1, func(int) float32 { return 0.1 })
	}, samples: 44, nodes: []string{"softmax"}, cured: true},
	{name: "dead-channels", edit: func(c map[string][]float32) {
		for _, b := range []string{"b1", "b3", "b4"} {
			for i := range c[b][:12] {
				c[b][i] = -1000
			}
		}
		for i := range c["b2"][:12] {
			c["b2"][i] = -1000
		}
	}},
	{name: "saturation", platform: "avx2.yaml", edit: func(c map[string][]float32) {
		for _, w := range []string{"w1", "w2", "w3", "w4"} {
			for i, x := range c[w] {
				c[w][i] = 0.05 + 0.02*x
			}
		}
	}, feed: func(_ int, x []float32) {
		for i := range x {
			x[i] = max(x[i], -x[i])
		}
	}, cured: true},
	{name: "few-samples", samples: 3, feed: func(i int, x []float32) { scaled(x, 1, func(int) float32 { return twice(2 * i) }) }},
}

// levelled lifts what conv4 reads by a level that its weights, which sum to zero, take off again. Of weights that are even 8 bits lose nothing.
func levelled(c map[string][]float32, level float32, even bool) {
	for i := range c["b3"] {
		c["b3"][i] += level
	}
	for o := range 16 {
		w := c["w4"][o*144:][:144]
		if even { // one of each two takes the other off, and so do their integers
			for i := range w[:72] {
				w[i] = float32(1+i%2) / 128
				w[72+i] = -w[i]
			}
			w[0], w[72] = 127./128, -127./128
			continue
		}
		var sum float32
		for _, x := range w {
			sum += x / 144
		}
		for i := range w {
			w[i] -= sum
		}
	}
	for i := range c["w5"] { // the output does not see the level
		if i%4608/144 < 16 {
			c["w5"][i] = 0
		}
	}
}

// admit writes a patient's network and data and calibrates it.
func (a patient) admit(t *testing.T) *Project {
	t.Helper()
	if a.network == "" {
		a.network, a.shape = healthy, []int{1, 8, 12, 12}
	}
	g := graphtest.Parse(t, a.network)
	constants := map[string][]float32{}
	for _, v := range g.Values() {
		if c := g.Const(v); c != nil && c.DType == tensor.Float32 {
			constants[g.Value(v).Name] = c.F32()
		}
	}
	if a.edit != nil {
		a.edit(constants)
	}
	store := new(Memory)
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: g}).Write(&b))
	store.Write("m.onnx", b.Bytes())
	if a.samples == 0 {
		a.samples = 72
	}
	for i := range a.samples {
		x := graphtest.Normal(uint64(1000+i), a.shape...)
		if a.feed != nil {
			a.feed(i, x.F32())
		}
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, x))
		store.Write(fmt.Sprintf("m/%02d.npy", i), b.Bytes())
	}
	p := &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: store, Catalog: Catalog{Version: "0.0.0", Backends: []program.Backend{program.Reference, cpu.Backend}, Formats: all.Formats()}}
	a.platforms(t, p)
	free := 0.0
	platform := a.platform
	if platform == "" {
		platform = "onnxruntime"
	}
	o := CalibrateOptions{Platform: platform, BorderCost: &free, PerTensor: a.perTensor, Data: DataOptions{Paths: []string{"m"}}, Threads: 2}
	_, _, err := p.Calibrate(context.Background(), o)
	require.NoError(t, err)
	if len(a.set) > 0 {
		_, _, err = p.Set(context.Background(), a.set[0], a.set[1:], 2)
		require.NoError(t, err)
	}
	return p
}

// platforms writes own.yaml, onnxruntime with all weights of its MatMul for every operator, and avx2.yaml, the same on processors that saturate.
func (a patient) platforms(t *testing.T, p *Project) {
	for name, profile := range map[string]string{"own.yaml": "", "avx2.yaml": "avx2-saturating"} {
		own := target.ONNXRuntime
		own.Name, own.Export = strings.TrimSuffix(name, ".yaml"), target.Export{MinOpset: 21, Open: true}
		if profile != "" {
			own.Profile = profile
		}
		own.Schemes = own.Defaults()
		for _, op := range own.Ops {
			if op.Type == "MatMul" {
				own.Schemes.Weight = op.Schemes.Weight
			}
		}
		put(t, p.store(), name, own.YAML())
	}
}

func adviceOf(t *testing.T, p *Project, try bool) *analysis.Report {
	t.Helper()
	o := AnalyzeOptions{Try: try, Data: DataOptions{Samples: 24}}
	o.Layerwise, o.Outputs, o.Threads = true, true, 2
	r, _, err := p.Analyze(context.Background(), o)
	require.NoError(t, err)
	return r
}

// Each of twelve illnesses is found and named, at the operator that has it, and the command that is advised makes the outputs better as it was
// predicted to.
func TestIllnessesAreFound(t *testing.T) {
	require.Len(t, patients, 12)
	for i, a := range patients {
		require.Equal(t, advise.Causes[i].Name, a.name)
		t.Run(a.name, func(t *testing.T) {
			r := adviceOf(t, a.admit(t), true)
			for _, x := range r.Advice {
				t.Logf("%s %v: %s", x.Cause, x.Nodes, x.Evidence)
				t.Logf("   %s", x.Command)
				if x.Predicted != nil && x.Trial != nil {
					t.Logf("   %.3g -> %.3g, tried %.3g -> %.3g %s", *x.Before, *x.Predicted, x.Trial.Before.NSR, x.Trial.Measured.NSR, x.Trial.Failed)
				}
			}
			at := slices.IndexFunc(r.Advice, func(x analysis.Advice) bool { return x.Cause == a.name })
			require.GreaterOrEqual(t, at, 0, "not found; NSR %.3g", floor(r).Mean)
			x := r.Advice[at]
			for _, n := range a.nodes {
				require.Contains(t, x.Nodes, n)
			}
			require.NotEmpty(t, x.Evidence)
			if a.cured {
				require.NotNil(t, x.Trial)
				require.Empty(t, x.Trial.Failed)
				require.Less(t, x.Trial.Change, -2**x.Trial.ChangeError)
			}
		})
	}
}

// Healthy plans get no advice, on whatever platform.
func TestHealthyPlansGetNoAdvice(t *testing.T) {
	for _, platform := range []string{"onnxruntime", "openvino_int8", "trt_int8"} {
		p := patient{platform: platform}.admit(t)
		r := adviceOf(t, p, false)
		require.Less(t, floor(r).Mean, advise.Harmless)
		require.Empty(t, r.Advice, platform)
	}
}
