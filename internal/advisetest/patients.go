// Package advisetest has networks with planted illnesses, one for each cause that package advise knows.
package advisetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
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
const w5: f32[10,288] = normal(seed=9, std=0.1)
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
p = AveragePool(cat) {kernel_shape=[4, 4], strides=[4, 4]} "pool"
f = Flatten(p) "flatten"
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

// Patient is a plan with something to find.
type Patient struct {
	Name    string
	Network string // healthy unless said
	shape   []int
	Samples int // 72 unless said
	Only    int // that are calibrated on, of them; 0 for all
	// edit changes the constants of the network, feed a sample.
	edit      func(c map[string][]float32)
	feed      func(i int, x []float32)
	Platform  string // onnxruntime unless said
	PerTensor bool
	Set       []string // decided afterwards: a selector, then properties
	Nodes     []string // that the advice has to name
	Cured     bool     // the command makes the outputs better when it is tried
}

// scaled multiplies the blocks of a constant by factors.
func scaled(x []float32, blocks int, factor func(c int) float32) {
	for i := range x {
		x[i] *= factor(i / (len(x) / blocks))
	}
}

// twice is a spread of powers of two over 16 channels, 1 to 128.
func twice(c int) float32 { return float32(int(1) << (c % 8)) }

// LostPart is a plan whose last operator loses most of its outputs beside two that are far larger.
var LostPart = Patient{Samples: 24, Platform: "qnn", edit: func(c map[string][]float32) {
	scaled(c["w5"][:2*288], 1, func(int) float32 { return 900 })
}}

// Patients are twelve illnesses, one for each cause.
var Patients = []Patient{
	{Name: "clipping", Set: []string{"point:in0", "observer=percentile(0.9)"}, Nodes: []string{"relu2"}, Cured: true},
	// The outliers lie in a channel that the network does not look at.
	{Name: "outliers", edit: func(c map[string][]float32) {
		for i := range c["w1"] {
			if i/9%8 == 7 {
				c["w1"][i] = 0
			}
		}
	}, feed: func(i int, x []float32) { x[7*144+i] = 600 }, Set: []string{"conv1:in0", "observer=minmax"}, Nodes: []string{"conv1"},
		Cured: true},
	// conv4 takes differences of numbers that are all large. The platform multiplies integers of 16 bits.
	{Name: "coarse-grid", Platform: "qnn", edit: func(c map[string][]float32) { levelled(c, 300, true) }, Nodes: []string{"conv4"},
		Cured: true},
	// A large weight makes the steps of all others coarse.
	{Name: "weight-mean-shift", edit: func(c map[string][]float32) {
		levelled(c, 8, false)
		for o := range 16 {
			c["w4"][o*144], c["w4"][o*144+72] = 3.6, -3.6
		}
	}, Nodes: []string{"conv4"}, Cured: true},
	// A channel of large weights that its bias keeps at zero behind Relu.
	{Name: "weight-channels", PerTensor: true, edit: func(c map[string][]float32) {
		scaled(c["w4"], 16, func(o int) float32 {
			if o == 3 {
				return 60
			}
			return 1
		})
		c["b4"][3] = -1000
	}, Nodes: []string{"conv4"}, Cured: true},
	{Name: "weight-bits", Samples: 44, Set: []string{"conv1,depthwise,point,conv4,gemm", "weights=int4-sym-tensor"}, Platform: "own.yaml",
		Nodes: []string{"conv4"}, Cured: true},
	{Name: "depthwise-channels", edit: func(c map[string][]float32) {
		scaled(c["w1"], 16, func(i int) float32 { return 1 / twice(i) / twice(i) })
		scaled(c["b1"], 16, func(i int) float32 { return 1 / twice(i) / twice(i) })
		scaled(c["w2"], 16, func(i int) float32 { return twice(i) * twice(i) })
	}, Nodes: []string{"depthwise"}, Cured: true},
	{Name: "concat-ranges", edit: func(c map[string][]float32) {
		scaled(c["w4"], 1, func(int) float32 { return 0.004 })
		scaled(c["b4"], 1, func(int) float32 { return 0.004 })
		for i := range c["w5"] {
			if at := i % 288 / 9; at >= 16 {
				c["w5"][i] /= 0.004
			}
		}
	}, Nodes: []string{"concat"}, Cured: true},
	{Name: "softmax-tails", Network: attention, shape: []int{1, 600, 16}, edit: func(c map[string][]float32) {
		scaled(c["wq"], 1, func(int) float32 { return 0.1 })
	}, Samples: 44, Platform: "qnn", Nodes: []string{"softmax"}, Cured: true},
	{Name: "dead-channels", edit: func(c map[string][]float32) {
		for _, b := range []string{"b1", "b3", "b4"} {
			for i := range c[b][:12] {
				c[b][i] = -1000
			}
		}
		for i := range c["b2"][:12] {
			c["b2"][i] = -1000
		}
	}},
	{Name: "saturation", Platform: "avx2.yaml", edit: func(c map[string][]float32) {
		for _, w := range []string{"w1", "w2", "w3", "w4"} {
			for i, x := range c[w] {
				c[w][i] = 0.05 + 0.02*x
			}
		}
	}, feed: func(_ int, x []float32) {
		for i := range x {
			x[i] = max(x[i], -x[i])
		}
	}, Cured: true},
	{Name: "few-samples", Only: 3, feed: func(i int, x []float32) { scaled(x, 1, func(int) float32 { return float32(1 + i%8) }) }},
}

// levelled lifts what conv4 reads by a level that its weights, which sum to zero, take off again. Of weights that are even 8 bits lose
// nothing.
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
		if i%288/9 < 16 {
			c["w5"][i] = 0
		}
	}
}

// Files are a patient's network, m.onnx, its samples, in the folder m, and the platforms own.yaml, onnxruntime with all weights of its
// MatMul for every operator, and avx2.yaml, the same on processors that saturate.
func (p Patient) Files(t testing.TB) map[string][]byte {
	t.Helper()
	if p.Network == "" {
		p.Network, p.shape = healthy, []int{1, 8, 12, 12}
	}
	if p.Samples == 0 {
		p.Samples = 72
	}
	g := graphtest.Parse(t, p.Network)
	constants := map[string][]float32{}
	for _, v := range g.Values() {
		if c := g.Const(v); c != nil && c.DType == tensor.Float32 {
			constants[g.Value(v).Name] = c.F32()
		}
	}
	if p.edit != nil {
		p.edit(constants)
	}
	var b bytes.Buffer
	require.NoError(t, (&onnx.Model{Graph: g}).Write(&b))
	files := map[string][]byte{"m.onnx": b.Bytes()}
	for i := range p.Samples {
		x := graphtest.Normal(uint64(1000+i), p.shape...)
		if p.feed != nil {
			p.feed(i, x.F32())
		}
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, x))
		files[fmt.Sprintf("m/%02d.npy", i)] = b.Bytes()
	}
	for name, profile := range map[string]string{"own.yaml": "ort", "avx2.yaml": "avx2-saturating"} {
		own := target.ONNXRuntime
		own.Name, own.Profile, own.Export = strings.TrimSuffix(name, ".yaml"), profile, target.Export{MinOpset: 21, Open: true}
		own.Schemes = own.Defaults()
		for _, op := range own.Ops {
			if op.Type == "MatMul" {
				own.Schemes.Weight = op.Schemes.Weight
			}
		}
		files[name] = own.YAML()
	}
	return files
}
