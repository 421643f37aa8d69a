package qdq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// pairs is a network as ONNX Runtime's tools write it: a convolution with its activation, pooling, a residual and a classifier.
const pairs = `
graph pairs
opset 17
input x: f32[1,2,6,6]
const sx: f32[] = [0.05]
const zx: u8[] = [120]
const sr: f32[] = [0.04]
const zr: u8[] = [0]
const sa: f32[] = [0.06]
const za: u8[] = [33]
const sy: f32[] = [0.125]
const zy: u8[] = [128]
const w_quantized: i8[4,2,3,3] = iota(start=-36, step=1)
const sw: f32[4] = [0.01, 0.02, 0.005, 0.03]
const zw: i8[4] = fill(0)
const b_quantized: i32[4] = [100, -200, 0, 70000]
const sb: f32[4] = [0.0005, 0.001, 0.00025, 0.0015]
const zb: i32[4] = fill(0)
const v_quantized: i8[4,4,1,1] = iota(start=-8, step=1)
const sv: f32[] = [0.1]
const zv: i8[] = [0]
const m_quantized: i8[36,3] = iota(start=-54, step=1)
const sm: f32[3] = [0.01, 0.02, 0.03]
const zm: i8[3] = fill(0)
const flat: i64[2] = [1, 36]
xq = QuantizeLinear(x, sx, zx)
xd = DequantizeLinear(xq, sx, zx)
w = DequantizeLinear(w_quantized, sw, zw) {axis=0}
b = DequantizeLinear(b_quantized, sb, zb) {axis=0}
c = Conv(xd, w, b) {pads=[1, 1, 1, 1]} "conv"
r = Relu(c) "relu"
rq = QuantizeLinear(r, sr, zr)
rd = DequantizeLinear(rq, sr, zr)
p = MaxPool(rd) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]} "pool"
pq = QuantizeLinear(p, sr, zr)
pd = DequantizeLinear(pq, sr, zr)
v = DequantizeLinear(v_quantized, sv, zv)
k = Conv(pd, v) "pointwise"
kq = QuantizeLinear(k, sa, za)
kd = DequantizeLinear(kq, sa, za)
a = Add(kd, pd) "add"
aq = QuantizeLinear(a, sa, za)
ad = DequantizeLinear(aq, sa, za)
g = AveragePool(ad) {kernel_shape=[2, 2], strides=[2, 2]} "mean"
gq = QuantizeLinear(g, sa, za)
gd = DequantizeLinear(gq, sa, za)
f = Reshape(gd, flat) "flat"
fq = QuantizeLinear(f, sa, za)
fd = DequantizeLinear(fq, sa, za)
m = DequantizeLinear(m_quantized, sm, zm) {axis=1}
l = MatMul(fd, m) "classify"
lq = QuantizeLinear(l, sy, zy)
y = DequantizeLinear(lq, sy, zy)
output y: f32[1,3]
`

func parsed(t testing.TB, text string) *graph.Graph {
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	return g
}

func imported(t testing.TB, g *graph.Graph, tg *target.Target) *qdq.Imported {
	t.Helper()
	q, err := qdq.Read(context.Background(), g)
	require.NoError(t, err)
	im, err := q.Configure(tg)
	require.NoError(t, err)
	require.NoError(t, im.Graph.Check())
	return im
}

// state describes a slot: its state and, where another governs it, that.
func state(im *qdq.Imported, node string, kind tqc.Kind, i int) string {
	id, _ := im.Graph.LookupNode(node)
	s := im.Set.Input(id, i)
	if kind == tqc.Output {
		s = im.Set.Output(id, i)
	}
	text := im.Set.Slot(s).State().String()
	if r := im.Set.Slot(im.Set.Root(s)); r.ID != s {
		text += "<" + im.Graph.Node(r.Node).Name
	}
	return text
}

// Slots get the states that configuring the float network would have given them.
func TestStates(t *testing.T) {
	im := imported(t, parsed(t, pairs), &target.ONNXRuntime)
	for _, c := range []struct {
		node string
		kind tqc.Kind
		i    int
		want string
	}{
		{"conv", tqc.Input, 0, "ACTIVATED"}, {"conv", tqc.Input, 1, "ACTIVATED"}, {"conv", tqc.Input, 2, "PASSIVE"},
		{"conv", tqc.Output, 0, "OVERLAPPED<relu"}, {"relu", tqc.Input, 0, "OVERLAPPED<relu"}, {"relu", tqc.Output, 0, "ACTIVATED"},
		{"pool", tqc.Input, 0, "OVERLAPPED<relu"}, {"pool", tqc.Output, 0, "PASSIVE<relu"}, {"pointwise", tqc.Input, 0, "OVERLAPPED<relu"},
		{"add", tqc.Input, 0, "OVERLAPPED<pointwise"}, {"add", tqc.Input, 1, "OVERLAPPED<relu"}, {"add", tqc.Output, 0, "ACTIVATED"},
		{"mean", tqc.Output, 0, "ACTIVATED"}, {"flat", tqc.Output, 0, "PASSIVE<mean"}, {"classify", tqc.Output, 0, "ACTIVATED"},
	} {
		require.Equal(t, c.want, state(im, c.node, c.kind, c.i), "%s %s%d", c.node, c.kind, c.i)
	}
	relu, _ := im.Graph.LookupNode("relu")
	conv, _ := im.Graph.LookupNode("conv")
	require.Equal(t, conv, im.Set.Fused[relu])
	require.Equal(t, "import: quantized in the file", im.Set.Why[conv])
	id, ok := im.Graph.Lookup("w")
	require.False(t, ok && im.Graph.Const(id) == nil, "the name of the dequantized weight is free or the weight's")
	require.Empty(t, im.Warnings)
	w := im.Set.Slot(im.Set.Input(conv, 1)).Config
	require.Equal(t, int32(-127), w.QMin, "no weight is -128: the target's range")
}

// Every form of quantized graph simulates to what the file computes, bit for bit, for any target.
func TestSimulationIsTheFile(t *testing.T) {
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			g := parsed(t, text)
			for _, tg := range []*target.Target{&target.ONNXRuntime, &target.TFLite, &target.TRTInt8, &target.ONNX} {
				im := imported(t, g, tg)
				for seed := range uint64(4) {
					feeds := inputs(g, seed)
					want := run(t, g, nil, feeds)
					got := run(t, im.Graph, simulate(t, im), feeds)
					for i := range want {
						requireClose(t, want[i], got[i], 0)
					}
				}
				for k, v := range g.Outputs {
					require.Equal(t, g.Value(v).Name, im.Graph.Value(im.Graph.Outputs[k]).Name)
				}
			}
		})
	}
}

// files are networks in which pairs stand where no slot of an operator does, and other things that tools write.
var files = map[string]string{
	"pairs": pairs,
	"float operator reads a quantized input": `
input x: f32[2,5]
const s: f32[] = [0.1]
const z: u8[] = [7]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
y = Erf(d) "erf"
output y`,
	"output is a quantized input": `
input x: f32[2,5]
const s: f32[] = [0.1]
const z: i8[] = [7]
q = QuantizeLinear(x, s, z)
y = DequantizeLinear(q, s, z)
output y`,
	"one tensor, three grids, and float": `
input x: f32[3,4]
const s: f32[] = [0.1]
const s2: f32[] = [0.03]
const z: u8[] = [100]
const z8: i8[] = [-3]
const w: i8[4,2] = iota(start=-4)
const sw: f32[] = [0.5]
xq = QuantizeLinear(x, s, z)
xd = DequantizeLinear(xq, s, z)
wd = DequantizeLinear(w, sw)
m = MatMul(xd, wd) "m"
a = QuantizeLinear(m, s, z)
ad = DequantizeLinear(a, s, z)
b = QuantizeLinear(m, s2, z8)
bd = DequantizeLinear(b, s2, z8)
f = Add(ad, bd) "f"
g = Mul(m, ad) "g"
h = QuantizeLinear(ad, s2, z)
y3 = DequantizeLinear(h, s2, z)
output f; output g; output y3; output ad`,
	"requantized twice": `
input x: f32[3,4]
const s: f32[] = [0.1]
const s2: f32[] = [0.03]
const s3: f32[] = [0.7]
const z: u8[] = [100]
a = QuantizeLinear(x, s, z)
ad = DequantizeLinear(a, s, z)
b = QuantizeLinear(ad, s2, z)
bd = DequantizeLinear(b, s2, z)
c = QuantizeLinear(bd, s3, z)
cd = DequantizeLinear(c, s3, z)
r = Relu(cd)
output r`,
	"default zero points and 16 bits": `
opset 21
input x: f32[3,4]
const s: f32[] = [0.02]
const h: f32[] = [0.0001]
const zh: i16[] = [5]
q = QuantizeLinear(x, s)
d = DequantizeLinear(q, s)
r = QuantizeLinear(d, h, zh)
y = DequantizeLinear(r, h, zh)
n = Neg(y)
output n`,
	"weights of 4 bits in blocks": `
opset 21
input x: f32[3,8]
const s: f32[] = [0.02]
const z: u8[] = [128]
const w: i4[8,2] = [-8, 7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1, 0]
const sw: f32[2,2] = [0.1, 0.2, 0.3, 0.4]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wd = DequantizeLinear(w, sw) {axis=0, block_size=4}
y = MatMul(d, wd)
output y`,
	"float weights with a pair": `
input x: f32[3,4]
const s: f32[] = [0.03]
const z: i8[] = [0]
const w: f32[4,2] = normal(seed=3)
const sw: f32[2] = [0.01, 0.02]
const zw: i8[2] = fill(0)
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wq = QuantizeLinear(w, sw, zw) {axis=1}
wd = DequantizeLinear(wq, sw, zw) {axis=1}
y = MatMul(d, wd)
output y`,
	"integers are moved": `
input x: f32[2,6]
const s: f32[] = [0.03]
const z: i8[] = [-9]
const shape: i64[2] = [3, 4]
q = QuantizeLinear(x, s, z)
r = Reshape(q, shape)
t = Transpose(r) {perm=[1, 0]}
c = Concat(t, t) {axis=1}
d = DequantizeLinear(c, s, z)
y = Sigmoid(d)
output y`,
	"an axis on a single scale (paddle2onnx 1)": `
opset 13
input x: f32[1,2,3,3]
const s: f32[] = [0.03]
const z: i8[] = [0]
const w: f32[3,2,1,1] = [1, -2, 3, -4, 5, -6]
const sw: f32[3] = [0.01, 0.02, 0.05]
const zw: i8[3] = fill(0)
const shape: i64[2] = [1, 18]
q = QuantizeLinear(x, s, z) {axis=-1}
d = DequantizeLinear(q, s, z) {axis=-1}
wq = QuantizeLinear(w, sw, zw) {axis=0}
wd = DequantizeLinear(wq, sw, zw) {axis=0}
y = Conv(d, wd)
r = Reshape(q, shape)
e = DequantizeLinear(r, s, z) {axis=-1}
n = Neg(e)
output y
output n`,
	"float8 that passes through float (paddle2onnx 2)": `
opset 19
input x: f32[3,4]
const s: f32[] = [0.5]
const z: f8e4m3fn[] = [0]
const w: f32[4,2] = normal(seed=3)
const sw: f32[] = [0.25]
q = QuantizeLinear(x, s, z) {axis=-1}
f = Cast(q) {to=1}
c = Cast(f) {to=17}
d = DequantizeLinear(c, s, z) {axis=-1}
wq = QuantizeLinear(w, sw, z) {axis=-1}
wf = Cast(wq) {to=1}
wc = Cast(wf) {to=17}
wd = DequantizeLinear(wc, sw, z) {axis=-1}
y = MatMul(d, wd)
output y`,
	"names that a body reads": `
input x: f32[2,3]
input p: bool[]
const s: f32[] = [0.1]
const z: u8[] = [90]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
y = If(p) {then_branch=graph { a = Abs(d); output a }, else_branch=graph { b = Neg(d); output b }}
output y`,
	"transposed weights": `
input x: f32[3,4]
const s: f32[] = [0.03]
const z: u8[] = [128]
const w: i8[2,4] = iota(start=-4)
const sw: f32[2] = [0.01, 0.02]
const zw: i8[2] = fill(0)
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wd = DequantizeLinear(w, sw, zw) {axis=0}
t = Transpose(wd)
y = MatMul(d, t) "m"
u = Mul(y, y)
output u`,
	"shape of integers": `
input x: f32[2,3]
const s: f32[] = [0.1]
const z: u8[] = [90]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
n = Shape(q)
r = Reshape(d, n)
y = Tanh(r)
output y`,
}

// turnedInput is how tf2onnx writes a network of TensorFlow Lite: its input of integers is turned before it is dequantized.
const turnedInput = `
input x: i8[1,4,3,2]
const s: f32[] = [0.03]
const z: i8[] = [-9]
const w: f32[3,2,1,1] = [1, -2, 3, -4, 5, -6]
const sw: f32[3] = [0.01, 0.02, 0.05]
const zw: i8[3] = fill(0)
t = Transpose(x) {perm=[0, 3, 1, 2]}
d = DequantizeLinear(t, s, z)
wq = QuantizeLinear(w, sw, zw) {axis=0}
wd = DequantizeLinear(wq, sw, zw) {axis=0}
y = Conv(d, wd)
output y`

// What an input's integers mean is said behind what moves them.
func TestInputsAreMoved(t *testing.T) {
	im := imported(t, parsed(t, turnedInput), &target.ONNX)
	conv := im.Graph.Producer(im.Graph.Outputs[0])
	require.Equal(t, "Conv", im.Graph.Node(conv).Op)
	require.Equal(t, tqc.DomainInt, im.Set.Domains[conv])
	p := im.Set.Params(im.Set.Input(conv, 0))
	require.Equal(t, []float32{0.03}, p.Scale)
	require.Equal(t, []int32{-9}, p.ZeroPoint)
	require.Len(t, im.Warnings, 1, "the input is the numbers that its integers stand for")
	_, err := qdq.Read(context.Background(),
		parsed(t, strings.Replace(turnedInput, "d = Deq", "const o: f32[] = [0.5]\nu = DequantizeLinear(t, o, z)\nd = Deq", 1)+"\noutput u"))
	require.ErrorContains(t, err, "another scale, zero point or axis")
}

// Weights that are transposed after their DQ are quantized weights.
func TestTransposedWeights(t *testing.T) {
	im := imported(t, parsed(t, files["transposed weights"]), &target.ONNX)
	id, _ := im.Graph.LookupNode("m")
	require.Equal(t, tqc.DomainInt, im.Set.Domains[id])
	w := im.Set.Slot(im.Set.Input(id, 1))
	require.Equal(t, 1, w.Config.Axis)
	require.Equal(t, []float32{-0.04, 0, -0.03, 0.02, -0.02, 0.04, -0.01, 0.06}, im.Graph.Const(w.Value).F32())
	require.Len(t, im.Graph.Nodes(), 2, "no Transpose is left")
}
