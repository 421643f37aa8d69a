// Package lowertest has small networks with what the real ones have, configured and with scales, for tests of programs.
//
// Unstable: it may change without notice.
package lowertest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/passes"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Networks have what the real ones have: depthwise convolution and ReLU6, fire modules with Concat, residual Add, matrices.
var Networks = map[string]string{
	"mobilenet": `
input x: f32[1,3,9,9]
const w1: f32[8,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[8] = normal(2)
const wd: f32[8,1,3,3] = normal(seed=3, std=0.5)
const bd: f32[8] = normal(4)
const w2: f32[12,8,1,1] = normal(seed=5, std=0.4)
const lo: f32[] = 0
const hi: f32[] = 6
const axes: i64[2] = [2, 3]
const wf: f32[12,5] = normal(6)
const bf: f32[5] = normal(7)
c1: f32[1,8,9,9] = Conv(x, w1, b1) {pads=[1,1,1,1]} "conv1"
r1: f32[1,8,9,9] = Clip(c1, lo, hi) "relu1"
cd: f32[1,8,9,9] = Conv(r1, wd, bd) {pads=[1,1,1,1], group=8} "depthwise"
rd: f32[1,8,9,9] = Clip(cd, lo, hi) "relu2"
c2: f32[1,12,9,9] = Conv(rd, w2) "pointwise"
p: f32[1,12,1,1] = GlobalAveragePool(c2) "pool"
f: f32[1,12] = Flatten(p) "flat"
y: f32[1,5] = Gemm(f, wf, bf) "fc"
z: f32[1,5] = Softmax(y) {axis=1} "soft"
output z
`,
	"squeezenet": `
input x: f32[1,3,8,8]
const w0: f32[4,3,3,3] = normal(seed=1, std=0.3)
const w1: f32[6,4,1,1] = normal(seed=2, std=0.4)
const w3: f32[6,4,3,3] = normal(seed=3, std=0.3)
const b3: f32[6] = normal(4)
c0: f32[1,4,8,8] = Conv(x, w0) {pads=[1,1,1,1]} "squeeze"
r0: f32[1,4,8,8] = Relu(c0) "srelu"
m0: f32[1,4,4,4] = MaxPool(r0) {kernel_shape=[2,2], strides=[2,2]} "pool"
c1: f32[1,6,4,4] = Conv(m0, w1) "expand1"
r1: f32[1,6,4,4] = Relu(c1) "erelu1"
c3: f32[1,6,4,4] = Conv(m0, w3, b3) {pads=[1,1,1,1]} "expand3"
r3: f32[1,6,4,4] = Relu(c3) "erelu3"
k: f32[1,12,4,4] = Concat(r1, r3) {axis=1} "concat"
y: f32[1,12,1,1] = GlobalAveragePool(k) "gap"
output y
output k
`,
	"resnet": `
input x: f32[2,4,6,6]
const w1: f32[4,4,3,3] = normal(seed=1, std=0.3)
const w2: f32[4,4,3,3] = normal(seed=2, std=0.3)
const w3: f32[4,4,1,1] = normal(seed=3, std=0.5)
const b: f32[4] = normal(4)
const s: f32[1,4,1,1] = normal(6)
a: f32[2,4,6,6] = Conv(x, w1, b) {pads=[1,1,1,1]} "stem"
ra: f32[2,4,6,6] = Relu(a) "stemrelu"
c: f32[2,4,6,6] = Conv(ra, w2, b) {pads=[1,1,1,1]} "block"
d: f32[2,4,6,6] = Add(c, ra) "add"
e: f32[2,4,6,6] = Relu(d) "addrelu"
m: f32[2,4,6,6] = Mul(e, s) "scale"
g: f32[2,4,6,6] = Sigmoid(m) "gate"
h: f32[2,4,6,6] = Mul(m, g) "swish"
q: f32[2,4,6,6] = Conv(h, w3) "project"
output h
output q
`,
	"matrices": `
input x: f32[1,6,8]
const wq: f32[8,8] = normal(seed=1, std=0.3)
const wk: f32[8,8] = normal(seed=2, std=0.3)
const wl: f32[6,6] = normal(seed=3, std=0.3)
q: f32[1,6,8] = MatMul(x, wq) "q"
k: f32[1,6,8] = MatMul(x, wk) "k"
kt: f32[1,8,6] = Transpose(k) {perm=[0,2,1]} "kt"
a: f32[1,6,6] = MatMul(q, kt) "scores"
l: f32[1,6,6] = MatMul(wl, a) "left"
s: f32[1,6,6] = Softmax(l) {axis=-1} "soft"
y: f32[1,6,8] = MatMul(s, x) "mix"
output y
`,
	"linear": `
input x: f32[2,5,8]
const w1: f32[8,12] = normal(seed=1, std=0.3)
const b1: f32[12] = normal(2)
const w2: f32[12,8] = normal(seed=3, std=0.3)
const b2: f32[8] = normal(4)
h: f32[2,5,12] = Gemm(x, w1, b1) "up"
r: f32[2,5,12] = Relu(h) "relu"
d: f32[2,5,8] = Gemm(r, w2, b2) "down"
y: f32[2,5,8] = Add(d, x) "res"
output y
`,
	"residual": `
input x: f32[2,4,7,7]
const w1: f32[8,4,3,3] = normal(seed=1, std=0.3)
const b1: f32[8] = normal(2)
const w2: f32[8,8,3,3] = normal(seed=3, std=0.2)
const b2: f32[8] = normal(4)
const w3: f32[8,8,3,3] = normal(seed=5, std=0.2)
const w4: f32[8,8,1,1] = normal(seed=6, std=0.4)
const b4: f32[8] = normal(7)
const w5: f32[6,8,1,1] = normal(seed=8, std=0.4)
a: f32[2,8,7,7] = Conv(x, w1, b1) {pads=[1,1,1,1]} "stem"
ra: f32[2,8,7,7] = Relu(a) "stemrelu"
c: f32[2,8,7,7] = Conv(ra, w2, b2) {pads=[1,1,1,1]} "inner"
rc: f32[2,8,7,7] = Relu(c) "innerrelu"
d: f32[2,8,7,7] = Conv(rc, w3) {pads=[1,1,1,1]} "outer"
e: f32[2,8,7,7] = Add(d, ra) "add"
re: f32[2,8,7,7] = Relu(e) "addrelu"
f: f32[2,8,7,7] = Conv(re, w4, b4) "gated"
s: f32[2,8,7,7] = Sigmoid(f) "sigmoid"
h: f32[2,8,7,7] = Mul(f, s) "swish"
m: f32[2,8,4,4] = MaxPool(h) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]} "pool"
y: f32[2,6,4,4] = Conv(m, w5) "last"
output y
`,
	"windows": `
input x: f32[1,4,11]
const w1: f32[6,2,3] = normal(seed=1, std=0.4)
const b1: f32[6] = normal(2)
const w2: f32[6,3,4] = normal(seed=3, std=0.4)
const b2: f32[6] = normal(4)
const w3: f32[5,6,2] = normal(seed=5, std=0.4)
c: f32[1,6,6] = Conv(x, w1, b1) {group=2, strides=[2], auto_pad="SAME_UPPER"} "grouped"
p: f32[1,6,3] = AveragePool(c) {kernel_shape=[3], strides=[2], pads=[1,1]} "average"
q: f32[1,6,3] = AveragePool(c) {kernel_shape=[3], strides=[2], pads=[1,1], count_include_pad=1} "padded"
l: f32[1,6,3] = LeakyRelu(p) {alpha=0.2} "leaky"
k: f32[1,12,3] = Concat(l, q) {axis=1} "join"
s0: f32[1,6,3], s1: f32[1,6,3] = Split(k) {axis=1} "part"
t: f32[1,6,7] = ConvTranspose(s0, w2, b2) {group=2, strides=[2], pads=[0,1]} "up"
d: f32[1,5,4] = Conv(t, w3) {dilations=[3]} "dilated"
u: f32[1,5,2] = Conv(s1, w3) "other"
output d
output u
`,
	"moves": `
input x: f32[2,4,6]
const wa: f32[6,8] = normal(seed=1, std=0.4)
const ba: f32[8] = normal(2)
const wb: f32[16,5] = normal(seed=3, std=0.3)
const bb: f32[5] = normal(4)
const four: i64[1] = [4]
const rows: i64[3] = [3, 0, 2]
const minus: i64[1] = [-1]
const starts: i64[1] = [1]
const ends: i64[1] = [7]
const axis: i64[1] = [2]
const zero: i64[1] = [0]
a: f32[2,4,8] = MatMul(x, wa) "first"
r: f32[2,4,8] = Relu(a) "relu"
g: f32[2,3,8] = Gather(r, rows) {axis=1} "gather"
tr: f32[2,8,3] = Transpose(g) {perm=[0,2,1]} "transpose"
sh: i64[3] = Shape(x) "shape"
b0: i64[1] = Gather(sh, zero) "batch"
to: i64[2] = Concat(b0, minus) {axis=0} "to"
sl: f32[2,4,6] = Slice(r, starts, ends, axis) "slice"
f: f32[2,24] = Reshape(tr, to) "flat"
const wc: f32[24,5] = normal(seed=5, std=0.3)
y: f32[2,5] = Gemm(f, wc, bb) "head"
const wd: f32[6,5] = normal(seed=6, std=0.3)
z: f32[2,4,5] = MatMul(sl, wd) "side"
output y
output z
`,
	"dynamic": `
input x: f32[N,L,8]
input p: f32[N,3,H,W]
const wq: f32[8,8] = normal(seed=1, std=0.3)
const wk: f32[8,8] = normal(seed=2, std=0.3)
const wc: f32[8,3,3,3] = normal(seed=3, std=0.3)
const wf: f32[8,4] = normal(seed=4, std=0.3)
q: f32[N,L,8] = MatMul(x, wq) "q"
k: f32[N,L,8] = MatMul(x, wk) "k"
kt: f32[N,8,L] = Transpose(k) {perm=[0,2,1]} "kt"
a: f32[N,L,L] = MatMul(q, kt) "scores"
s: f32[N,L,L] = Softmax(a) {axis=-1} "soft"
y: f32[N,L,8] = MatMul(s, x) "mix"
c: f32[N,8,?,?] = Conv(p, wc) {strides=[2,2], pads=[1,1,1,1]} "conv"
g: f32[N,8,1,1] = GlobalAveragePool(c) "gap"
f: f32[N,8] = Flatten(g) "flat"
z: f32[N,4] = MatMul(f, wf) "head"
output y
output z
`,
	"where": `
input x: f32[1,3,5,5]
input mask: bool[1,1,5,5]
const w1: f32[4,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[4] = normal(2)
const w2: f32[4,3,1,1] = normal(seed=3, std=0.6)
const w3: f32[5,4,1,1] = normal(seed=4, std=0.6)
const c0: f32[1,4,1,1] = normal(seed=5)
a: f32[1,4,5,5] = Conv(x, w1, b1) {pads=[1,1,1,1]} "a"
b: f32[1,4,5,5] = Conv(x, w2) "b"
c: f32[1,4,5,5] = Where(mask, a, b) "where"
d: f32[1,4,5,5] = Add(c, c0) "shift"
e: f32[1,4,5,5] = Mul(d, a) "product"
y: f32[1,5,5,5] = Conv(e, w3) "last"
output y
`,
}

// Configured returns a network with scales from the extremes of one run, as calibration would find them.
func Configured(t testing.TB, text, platform string) (*graph.Graph, *tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	tg, err := target.Find(platform)
	require.NoError(t, err)
	return ConfiguredFor(t, text, tg)
}

// ConfiguredFor is Configured for a target of the test's own.
func ConfiguredFor(t testing.TB, text string, tg *target.Target) (*graph.Graph, *tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	return ConfiguredBy(t, text, tg, "")
}

// ConfiguredBy is ConfiguredFor with a strategy of dispatch.
func ConfiguredBy(t testing.TB, text string, tg *target.Target, strategy string) (*graph.Graph, *tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	g := graphtest.Parse(t, text)
	set, feeds := configure(t, g, tg, strategy)
	return g, set, feeds
}

// Whole is onnxruntime with its ends on integers: the networks that it has operators for are on integers from border to border.
func Whole() *target.Target {
	tg := target.ONNXRuntime
	tg.Ops = slices.Clone(tg.Ops)
	for i := range tg.Ops {
		tg.Ops[i].FloatEnd = false
	}
	return &tg
}

// Configure is ConfiguredFor for a graph.
func Configure(t testing.TB, g *graph.Graph, tg *target.Target) (*tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	return configure(t, g, tg, "")
}

func configure(t testing.TB, g *graph.Graph, tg *target.Target, strategy string) (*tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	free := *tg
	free.BorderCost = 0
	a, err := dispatch.Assign(g, &free, dispatch.Options{Strategy: strategy})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, &free, quantizer.Options{})
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		shape := make([]int, len(g.Value(v).Shape))
		for a, d := range g.Value(v).Shape {
			if shape[a] = int(d.N); !d.Known() {
				shape[a] = 5
			}
		}
		feeds[g.Value(v).Name] = feed(g.Value(v).DType, uint64(100+i), shape)
	}
	session, err := exec.New(g, exec.Options{Float64: true}) // the same scales on every processor
	require.NoError(t, err)
	values, err := session.NewRunner().RunAll(context.Background(), feeds, nil, nil)
	require.NoError(t, err)
	for _, v := range g.Inputs {
		values[v] = feeds[g.Value(v).Name]
	}
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if sl.State() != tqc.Initial {
			continue
		}
		p := tqc.Params{}
		if !sl.Config.RunTime() {
			p = minmax(t, g, sl, values)
		}
		require.NoError(t, set.Render(id, p))
	}
	_, err = passes.SolveBias(g, set)
	require.NoError(t, err)
	return set, feeds
}

// feed makes an input: normally distributed numbers, or the signs of such.
func feed(d tensor.DType, seed uint64, shape []int) *tensor.Tensor {
	x := graphtest.Normal(seed, shape...)
	if d != tensor.Bool {
		return x
	}
	out := tensor.New(tensor.Bool, shape...)
	for i, v := range x.F32() {
		tensor.Of[bool](out)[i] = v > 0
	}
	return out
}

func minmax(t testing.TB, g *graph.Graph, sl *tqc.Slot, values []*tensor.Tensor) tqc.Params {
	if sl.Config.Observer == tqc.ObserverFixed {
		return tqc.Params{Scale: []float32{sl.Config.FixedScale}, ZeroPoint: []int32{sl.Config.FixedZeroPoint}}
	}
	x := values[sl.Value]
	if c := g.Const(sl.Value); c != nil {
		x = c
	}
	outer, n, inner := 1, 1, x.Len()
	if sl.Config.Policy.Has(tqc.PerChannel) {
		outer, n, inner = x.Blocks(sl.Config.Axis)
	}
	var p tqc.Params
	for c := range n {
		lo, hi := math.Inf(1), math.Inf(-1)
		for o := range outer {
			for _, v := range x.F32()[(o*n+c)*inner:][:inner] {
				lo, hi = min(lo, float64(v)), max(hi, float64(v))
			}
		}
		s, z, _, err := qmath.ScaleFromRange(lo*0.8, hi*0.8, sl.Config.Scheme()) // something has to clip
		require.NoError(t, err)
		p.Scale, p.ZeroPoint = append(p.Scale, s), append(p.ZeroPoint, z)
	}
	return p
}
