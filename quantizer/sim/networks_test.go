package sim_test

import (
	"context"
	"math"
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

// networks have what the real ones have: depthwise convolution and ReLU6, fire modules with Concat, residual Add, matrices.
var networks = map[string]string{
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
}

// configured returns a network with scales from the extremes of one run, as calibration would find them.
func configured(t testing.TB, text, platform string) (*graph.Graph, *tqc.Set, map[string]*tensor.Tensor) {
	t.Helper()
	g := graphtest.Parse(t, text)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	free := *tg
	free.BorderCost = 0
	a, err := dispatch.Assign(g, &free, dispatch.Options{})
	require.NoError(t, err)
	set, _, err := quantizer.Configure(g, a, &free, quantizer.Options{})
	require.NoError(t, err)
	feeds := map[string]*tensor.Tensor{}
	for i, v := range g.Inputs {
		shape, _ := g.Value(v).Shape.Ints()
		feeds[g.Value(v).Name] = graphtest.Normal(uint64(100+i), shape...)
	}
	session, err := exec.New(g, exec.Options{})
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
		require.NoError(t, set.Render(id, minmax(t, g, sl, values)))
	}
	_, err = passes.SolveBias(g, set)
	require.NoError(t, err)
	return g, set, feeds
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
