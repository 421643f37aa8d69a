package qdq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// fakes are forms of fake quantization that exporters write. What they compute has to stay bit for bit.
var fakes = map[string]string{
	"a Clip of integers, as PyTorch writes 0 to 127": `
opset 13
input x: f32[3,4]
const s: f32[1] = [0.03]
const z: u8[1] = [61]
const top: u8[] = [127]
const w: f32[4,2] = normal(seed=3)
const sw: f32[2] = [0.01, 0.02]
const zw: i8[2] = fill(0)
q = QuantizeLinear(x, s, z)
c = Clip(q, _, top)
d = DequantizeLinear(c, s, z)
wq = QuantizeLinear(w, sw, zw) {axis=1}
wd = DequantizeLinear(wq, sw, zw) {axis=1}
m = MatMul(d, wd) "m"
r = Relu(m)
rq = QuantizeLinear(r, s, z)
rc = Clip(rq, _, top)
y = DequantizeLinear(rc, s, z)
output y`,
	"a Clip of constant integers, as Brevitas writes 4 bits": `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const z: i8[] = [0]
const low: i8[] = [-7]
const high: i8[] = [7]
const w: i8[4,2] = iota(start=-4, step=2)
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wc = Clip(w, low, high)
wd = DequantizeLinear(wc, s, z)
y = MatMul(d, wd) "m"
output y`,
	"readers with and without the Clip": `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const z: i8[] = [3]
const low: i8[] = [-7]
const high: i8[] = [7]
q = QuantizeLinear(x, s, z)
a = DequantizeLinear(q, s, z)
c = Clip(q, low, high)
b = DequantizeLinear(c, s, z)
y = Add(a, b)
output y`,
	"divided, clipped, rounded, multiplied (LSQ)": `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const sw: f32[] = [0.25]
const low: f32[] = [-128]
const high: f32[] = [127]
const low4: f32[] = [-8]
const high4: f32[] = [7]
const w: f32[4,2] = normal(seed=3)
const over: f32[4,2] = uniform(seed=5, low=-12, high=12)
xs = Div(x, s)
xc = Clip(xs, low, high)
xr = Round(xc)
xd = Mul(xr, s)
ws = Div(w, sw)
wc = Clip(ws, low4, high4)
wr = Round(wc)
wd = Mul(sw, wr)
oc = Clip(over, low4, high4)
or = Round(oc)
od = Mul(or, sw)
m = MatMul(xd, wd) "m"
n = MatMul(xd, od) "n"
output m; output n`,
	"rounded, moved by a zero point, clipped and moved back": `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const z: f32[] = [77]
const low: f32[] = [0]
const high: f32[] = [255]
xs = Div(x, s)
r = Round(xs)
a = Add(r, z)
c = Clip(a, low, high)
b = Sub(c, z)
d = Mul(b, s)
y = Tanh(d)
output y`,
	"clipped by Max and Min": `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const low: f32[] = [-127]
const high: f32[] = [127]
xs = Div(x, s)
r = Round(xs)
a = Max(r, low)
c = Min(a, high)
d = Mul(c, s)
y = Tanh(d)
output y`,
	"per channel": `
opset 13
input x: f32[1,2,6,6]
const s: f32[] = [0.05]
const low: f32[] = [-127]
const high: f32[] = [127]
const w: f32[4,2,3,3] = normal(seed=3)
const sw: f32[4,1,1,1] = [0.01, 0.02, 0.03, 0.04]
xs = Div(x, s)
xr = Round(xs)
xc = Clip(xr, low, high)
xd = Mul(xc, s)
ws = Div(w, sw)
wr = Round(ws)
wc = Clip(wr, low, high)
wd = Mul(wc, sw)
y = Conv(xd, wd) "conv"
output y`,
	"scale that follows from constants": `
opset 13
input x: f32[3,4]
const e: f32[] = [-2]
const low: f32[] = [-128]
const high: f32[] = [127]
const z: i32[] = [0]
const w: f32[2,4] = normal(seed=3)
s = Abs(e)
xs = Div(x, s)
xc = Clip(xs, low, high)
xr = Round(xc)
xd = Mul(xr, s)
z8 = Cast(z) {to=3}
t = Exp(e)
wq = QuantizeLinear(w, t, z8)
wd = DequantizeLinear(wq, t, z8)
wt = Transpose(wd) {perm=[1, 0]}
y = MatMul(xd, wt) "m"
output y`,
	"quantized weights of a float operator": `
opset 13
input x: f32[3,4]
const s: f32[] = [0.02]
const z: i8[] = [0]
const w: f32[4,2] = normal(seed=3)
h = Sigmoid(x)
wq = QuantizeLinear(w, s, z)
wd = DequantizeLinear(wq, s, z)
n = MatMul(h, wd)
nq = QuantizeLinear(n, s, z)
y = DequantizeLinear(nq, s, z)
output y`,
}

// Fake quantization of any form simulates to what the file computes, bit for bit, with no operator of it left.
func TestFakesAreTheFile(t *testing.T) {
	for name, text := range fakes {
		t.Run(name, func(t *testing.T) {
			g := parsed(t, text)
			for _, tg := range []*target.Target{&target.ONNXRuntime, &target.TRTInt8, &target.ONNX} {
				im := imported(t, g, tg)
				for _, id := range im.Graph.Nodes() {
					require.NotContains(t, []string{"Round", "Div", "Clip", "Max", "Min", "Cast", "Exp", "Transpose", "QuantizeLinear"},
						im.Graph.Node(id).Op)
				}
				for seed := range uint64(4) {
					feeds := map[string]*tensor.Tensor{}
					for _, v := range g.Inputs {
						shape, _ := g.Value(v).Shape.Ints()
						feeds[g.Value(v).Name] = graphtest.Uniform(seed, -8, 8, shape...)
					}
					want := run(t, g, nil, feeds)
					got := run(t, im.Graph, simulate(t, im), feeds)
					for i := range want {
						requireClose(t, want[i], got[i], 0)
					}
				}
			}
		})
	}
}

// The range of a narrower Clip, and weights of fewer bits, stand in the configuration.
func TestFakesHaveTheirRange(t *testing.T) {
	for name, want := range map[string][2][2]int32{
		"a Clip of integers, as PyTorch writes 0 to 127":         {{0, 127}, {-128, 127}},
		"a Clip of constant integers, as Brevitas writes 4 bits": {{-128, 127}, {-7, 7}},
		"divided, clipped, rounded, multiplied (LSQ)":            {{-128, 127}, {-8, 7}},
	} {
		im := imported(t, parsed(t, fakes[name]), &target.ONNX)
		id, _ := im.Graph.LookupNode("m")
		require.Equal(t, tqc.DomainInt, im.Set.Domains[id], name)
		for i, w := range want {
			c := im.Set.Slot(im.Set.Input(id, i)).Config
			require.Equal(t, w, [2]int32{c.QMin, c.QMax}, "%s: input %d", name, i)
		}
	}
}

// Arithmetic that is no fake quantization stays as it is.
func TestOtherRoundingStays(t *testing.T) {
	const head = `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const s2: f32[] = [0.04]
const z: i8[] = [0]
const half: f32[] = [0.4]
const low: f32[] = [-128]
const high: f32[] = [127]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
`
	for name, body := range map[string]string{
		"another factor behind": "a = Div(d, s); r = Round(a); c = Clip(r, low, high); y = Mul(c, s2)",
		"no bounds":             "a = Div(d, s); r = Round(a); y = Mul(r, s)",
		"a zero point that is no integer": "a = Div(d, s); r = Round(a); b = Add(r, half); c = Clip(b, low, high); e = Sub(c, half); " +
			"y = Mul(e, s)",
		"the rounded tensor has another reader": "a = Div(d, s); r = Round(a); c = Clip(r, low, high); y = Mul(c, s); v = Neg(r); output v",
	} {
		q, err := qdq.Read(context.Background(), parsed(t, head+body+"; output y"))
		require.NoError(t, err, name)
		rounds := 0
		for _, id := range q.Graph.Nodes() {
			if q.Graph.Node(id).Op == "Round" {
				rounds++
			}
		}
		if name == "a zero point that is no integer" {
			continue // adding and taking off the same number is none: only the bounds are off the integers
		}
		require.Equal(t, 1, rounds, name)
	}
}

// What TensorFlow's FakeQuantWithMinMax is made of: the range is clipped, moved to 0, scaled, rounded half up, and brought back.
func TestMinMaxForm(t *testing.T) {
	g := parsed(t, `
opset 13
input x: f32[64,4]
const lo: f32[] = [-1.2]
const hi: f32[] = [2.625]
const inverse: f32[] = [66.666664]
const s: f32[] = [0.015]
const half: f32[] = [0.5]
c = Clip(x, lo, hi)
m = Sub(c, lo)
k = Mul(m, inverse)
h = Add(k, half)
f = Floor(h)
b = Mul(f, s)
d = Add(b, lo)
y = Tanh(d)
output y`)
	im := imported(t, g, &target.ONNX)
	require.Contains(t, im.Warnings[0].Text, "rounded halves up (by Floor)")
	id, _ := im.Graph.LookupNode("Tanh")
	var s *tqc.Params
	for _, n := range im.Graph.Nodes() {
		if out := im.Set.Output(n, 0); im.Graph.Node(n).Op == "Identity" {
			s = im.Set.Params(out)
			require.Equal(t, [2]int32{0, 255}, [2]int32{im.Set.Slot(out).Config.QMin, im.Set.Slot(out).Config.QMax})
		}
	}
	_ = id
	require.Equal(t, []float32{0.015}, s.Scale)
	require.Equal(t, []int32{80}, s.ZeroPoint)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Uniform(3, -2, 4, 64, 4)}
	want, got := run(t, g, nil, feeds), run(t, im.Graph, simulate(t, im), feeds)
	for i, x := range want[0].F32() {
		require.InDelta(t, x, got[0].F32()[i], 1e-6)
	}
}

// Quant of QONNX is a pair with as many integers as it has bits.
func TestQuant(t *testing.T) {
	head := `
opset 13
input x: f32[3,4]
const s: f32[] = [0.03]
const sw: f32[1,2] = [0.1, 0.2]
const zero: f32[] = [0]
const bits: f32[] = [8]
const four: f32[] = [4]
const w: f32[4,2] = normal(seed=3)
`
	g := parsed(t, head+`
d = qonnx.custom_op.general::Quant(x, s, zero, bits) {signed=1, narrow=0, rounding_mode="ROUND"}
wd = qonnx.custom_op.general::Quant(w, sw, zero, four) {signed=1, narrow=1, rounding_mode="ROUND"}
m = MatMul(d, wd) "m"
r = Relu(m)
y = qonnx.custom_op.general::Quant(r, s, zero, four) {signed=0, narrow=0, rounding_mode="ROUND"}
output y`)
	same := parsed(t, head+`
const z: i8[] = [0]
const zw: i8[2] = fill(0)
const zu: u8[] = [0]
const l: i8[] = [-7]
const h: i8[] = [7]
const u: u8[] = [15]
const scales: f32[2] = [0.1, 0.2]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wq = QuantizeLinear(w, scales, zw) {axis=1}
wc = Clip(wq, l, h)
wd = DequantizeLinear(wc, scales, zw) {axis=1}
m = MatMul(d, wd) "m"
r = Relu(m)
yq = QuantizeLinear(r, s, zu)
yc = Clip(yq, _, u)
y = DequantizeLinear(yc, s, zu)
output y`)
	im := imported(t, g, &target.ONNX)
	id, _ := im.Graph.LookupNode("m")
	w := im.Set.Slot(im.Set.Input(id, 1)).Config
	require.Equal(t, [2]int32{-7, 7}, [2]int32{w.QMin, w.QMax})
	require.Equal(t, 1, w.Axis)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Uniform(3, -4, 4, 3, 4)}
	requireClose(t, run(t, same, nil, feeds)[0], run(t, im.Graph, simulate(t, im), feeds)[0], 0)

	for text, want := range map[string]string{
		`y = qonnx.custom_op.general::Quant(x, s, zero, bits) {rounding_mode="FLOOR"}`:   "rounds by FLOOR",
		`y = qonnx.custom_op.general::Quant(x, s, zero)`:                                 "3 inputs",
		`y = qonnx.custom_op.general::Quant(x, x, zero, bits)`:                           "computed when the model runs",
		`const many: f32[] = [33]; y = qonnx.custom_op.general::Quant(x, s, zero, many)`: "33 bits",
	} {
		_, err := qdq.Read(context.Background(), parsed(t, head+text+"; output y"))
		require.ErrorContains(t, err, want)
	}
}

// trainedWithNorm is a convolution as PyTorch exports one that was trained with its normalization: weights times a factor, quantized, and
// the factor taken off again behind it.
const trainedWithNorm = `
opset 13
input x: f32[1,2,6,6]
const s: f32[] = [0.05]
const z: u8[] = [128]
const sy: f32[] = [0.125]
const w: f32[4,2,3,3] = normal(seed=3)
const sw: f32[4] = [0.01, 0.02, 0.03, 0.04]
const zw: i8[4] = fill(0)
const zero: f32[4] = fill(0)
const k: f32[1,4,1,1] = FACTOR
const gamma: f32[4] = [1, 2, 0.5, 1.5]
const beta: f32[4] = [0.1, 0.2, -0.3, 0.4]
const mean: f32[4] = [0.5, -0.5, 0.25, 0]
const var: f32[4] = [4, 1, 0.25, 9]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wq = QuantizeLinear(w, sw, zw) {axis=0}
wd = DequantizeLinear(wq, sw, zw) {axis=0}
c = Conv(d, wd, zero) "conv"
b = Div(c, k)
n = BatchNormalization(b, gamma, beta, mean, var) {epsilon=0.0}
r = Relu(n) "relu"
rq = QuantizeLinear(r, sy, z)
y = DequantizeLinear(rq, sy, z)
output y
`

func TestNormalizationBehindTrainedWeights(t *testing.T) {
	for factor, scales := range map[string][]float32{
		"[0.5, 2, 1, 0.5]": {0.01, 0.02, 0.03, 0.04},  // gamma / sqrt(var): what comes behind is 1
		"[1, 1, 1, 1]":     {0.005, 0.04, 0.03, 0.02}, // the scales take the factor
	} {
		g := parsed(t, strings.Replace(trainedWithNorm, "FACTOR", factor, 1))
		im := imported(t, g, &target.ONNXRuntime)
		require.Len(t, im.Graph.Nodes(), 2, "Conv and Relu")
		id, _ := im.Graph.LookupNode("conv")
		require.Equal(t, tqc.DomainInt, im.Set.Domains[id])
		relu, _ := im.Graph.LookupNode("relu")
		require.Equal(t, id, im.Set.Fused[relu])
		require.InDeltaSlice(t, scales, im.Set.Params(im.Set.Input(id, 1)).Scale, 1e-7)
		w, _ := g.Lookup("w")
		kept, before := im.Graph.Const(im.Graph.Node(id).Inputs[1]).F32(), g.Const(w).F32()
		for i, v := range kept { // real numbers stay real, but for ties
			require.InDelta(t, before[i]*scales[i/18]/(0.01*float32(i/18+1)), v, 1e-6, "weight %d", i)
		}
		for seed := range uint64(4) {
			feeds := inputs(g, seed)
			want, got := run(t, g, nil, feeds), run(t, im.Graph, simulate(t, im), feeds)
			requireClose(t, want[0], got[0], 0.01) // sums end in other last bits: at most a tie
		}
	}
	g := parsed(t, strings.Replace(trainedWithNorm, "FACTOR", "[-1, 1, 1, 1]", 1))
	im := imported(t, g, &target.ONNX)
	require.Greater(t, len(im.Graph.Nodes()), 2, "a scale is above 0: what turns the sign stays")
}

// Biases that the file leaves in float are rounded where that is asked for and the platform needs it.
func TestIntegerBiases(t *testing.T) {
	g := parsed(t, strings.Replace(trainedWithNorm, "FACTOR", "[0.5, 2, 1, 0.5]", 1))
	q, err := qdq.Read(context.Background(), g)
	require.NoError(t, err)
	q.IntegerBiases = true
	im, err := q.Configure(&target.ONNXRuntime)
	require.NoError(t, err)
	id, _ := im.Graph.LookupNode("conv")
	b := im.Set.Input(id, 2)
	require.Equal(t, tqc.Passive, im.Set.Slot(b).State())
	require.InDeltaSlice(t, []float32{0.0005, 0.001, 0.0015, 0.002}, im.Set.Params(b).Scale, 1e-9)
	require.Contains(t, im.Warnings[0].Text, "1 biases are float in the file")
	open, err := q.Configure(&target.ONNX)
	require.NoError(t, err)
	id, _ = open.Graph.LookupNode("conv")
	require.Equal(t, tqc.FP32, open.Set.Slot(open.Set.Input(id, 2)).State(), "the ONNX operators add floats")
	graph.InferShapes(im.Graph)
}
