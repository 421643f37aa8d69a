package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

func TestTables(t *testing.T) {
	names := map[string]bool{}
	for _, tg := range builtin() {
		require.NoError(t, tg.Validate())
		require.False(t, names[tg.Name], tg.Name)
		names[tg.Name] = true
		require.Positive(t, tg.BorderCost)
		found, err := target.Builtin().Known(tg.Name)
		require.NoError(t, err)
		require.Same(t, tg, found)
	}
	_, err := target.Builtin().Find("tflite")
	require.Error(t, err, "nothing is calibrated for a foreign target")
	seen := map[string]bool{}
	for _, c := range target.Conditions {
		require.NotEmpty(t, c.Name)
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
	}
}

func parseConv(t *testing.T) *graph.Graph {
	return graphtest.Parse(t, `
input x: f32[1,64,8,8]
const w: f32[16,64,1,1] = normal(1)
y = Conv(x, w) "conv"
output y
`)
}

func TestTRTScaleIsAbsmaxOver127(t *testing.T) {
	require.Equal(t, int32(-128), target.TRTInt8.Activation.QMin)
	require.Equal(t, int32(127), target.TRTInt8.Activation.QMax)
	require.Zero(t, target.TRTInt8.Activation.Divisor, "0 divides by QMax")
	require.True(t, target.TRTInt8.Export.ZeroPointZero && target.TRTInt8.Activation.Policy.Has(tqc.Symmetric))
}

func TestConditions(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[1,4,8,8]
input m: f32[2,6]
input wx: f32[4,4,1,1]
const w: f32[6,4,1,1] = normal(1)
const b6: f32[6] = normal(1)
const b61: f32[6,1] = normal(1)
const one: f32[1] = normal(1)
const k: f32[6,5] = normal(1)
const b5: f32[1,5] = normal(1)
const scales: f32[4] = [1, 1, 2, 2]
a = Conv(x, w, b6) "good"
b = Conv(x, wx) "computed"
c = Conv(x, w, one) "short bias"
d = Conv(x, w, b61) "column bias"
e = Gemm(m, k, b5) {beta=1.0} "gemm"
f = Gemm(m, k, b5) {beta=0.5} "gemm beta"
h = Gemm(m, k) {alpha=0.5, beta=0.5} "gemm no bias"
q = Gemm(m, k, b5) {alpha=0.5} "gemm alpha"
i = Resize(x, _, scales) "nearest"
j = Resize(x, _, scales) {mode="cubic"} "cubic"
l, n = MaxPool(x) {kernel_shape=[2,2]} "indices used"
o, p = MaxPool(x) {kernel_shape=[2,2]} "indices unused"
output a; output b; output c; output d; output e; output f; output h; output i; output j; output l; output n; output o; output q
`)
	for name, c := range map[string]struct {
		condition target.Condition
		want      bool
	}{
		"good": {target.IntegerBias, true}, "computed": {target.ConstantWeight, false}, "short bias": {target.IntegerBias, false},
		"column bias": {target.IntegerBias, false}, "gemm": {target.IntegerBias, true}, "gemm beta": {target.BetaOne, false},
		"gemm no bias": {target.BetaOne, true}, "gemm alpha": {target.AlphaOne, false}, "nearest": {target.Copies, true},
		"cubic": {target.Copies, false}, "indices used": {target.OneOutput, false}, "indices unused": {target.OneOutput, true},
	} {
		id, ok := g.LookupNode(name)
		require.True(t, ok, name)
		require.Equal(t, c.want, c.condition.Holds(g, g.Node(id)), name)
	}
}

func TestWeightConfig(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[1,4,8,8]
input m: f32[3,6]
const w: f32[6,4,1,1] = normal(1)
const wt: f32[4,5,2,2] = normal(1)
const k: f32[6,5] = normal(1)
const stack: f32[2,6,5] = normal(1)
const left: f32[7,3] = normal(1)
const vector: f32[6] = normal(1)
a = Conv(x, w) "conv"
b = ConvTranspose(x, wt) "up"
c = MatMul(m, k) "matmul"
d = MatMul(m, stack) "stack"
e = MatMul(left, m) "left"
f = MatMul(m, vector) "vector"
output a; output b; output c; output d; output e; output f
`)
	for _, c := range []struct {
		node  string
		input int
		axis  int // -1: per tensor
	}{{"conv", 1, 0}, {"up", 1, -1}, {"matmul", 1, 1}, {"stack", 1, -1}, {"left", 0, -1}, {"vector", 1, -1}} {
		id, _ := g.LookupNode(c.node)
		cfg := target.TRTInt8.WeightConfig(g, id, c.input)
		require.NoError(t, cfg.Validate())
		require.Equal(t, c.axis < 0, cfg.Policy.Has(tqc.PerTensor), c.node)
		if c.axis >= 0 {
			require.Equal(t, c.axis, cfg.Axis, c.node)
		}
		require.NoError(t, tqc.CheckGranularity(g, id, c.input, cfg))
	}
	up, _ := g.LookupNode("up")
	axis, ok := target.OutputAxis(g, g.Node(up), 1)
	require.True(t, ok)
	require.Equal(t, 1, axis, "for targets without TensorRT's quirk")
}

func TestResidualBranches(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[1,4,8,8]
const w: f32[4,4,1,1] = normal(1)
const c: f32[1,4,8,8] = normal(2)
const wide: f32[1,4,1,1] = normal(2)
a: f32[1,4,8,8] = Conv(x, w) "a"
plain: f32[1,4,8,8] = Add(a, x) "plain"
b: f32[1,4,8,8] = Conv(x, w) "b"
d: f32[1,4,8,8] = Conv(x, w) "d"
tie: f32[1,4,8,8] = Add(b, d) "tie"
e: f32[1,4,8,8] = Conv(x, w) "e"
const1: f32[1,4,8,8] = Add(e, c) "const"
f: f32[1,4,8,8] = Conv(x, w) "f"
twice: f32[1,4,8,8] = Add(f, f) "twice"
h: f32[1,4,8,8] = Conv(x, w) "h"
q: f32[1,4,1,1] = GlobalAveragePool(x) "q"
broad: f32[1,4,8,8] = Add(h, q) "broadcast"
i: f32[1,4,8,8] = Conv(x, w) "i"
r: f32[1,4,8,8] = Relu(i) "r"
shared: f32[1,4,8,8] = Add(i, r) "shared"
output plain; output tie; output const1; output twice; output broad; output shared
`)
	b, err := target.TRTInt8.Bind(g)
	require.NoError(t, err)
	all := func(graph.NodeID) bool { return true }
	for name, want := range map[string][3]int{"plain": {0, 1, 1}, "tie": {0, 1, 1}, "const": {}, "twice": {}, "broadcast": {}, "shared": {}} {
		id, _ := g.LookupNode(name)
		main, skip, ok := b.Branches(id, all)
		require.Equal(t, want[2] == 1, ok, name)
		if ok {
			require.Equal(t, want[:2], []int{main, skip}, name)
		}
	}
	id, _ := g.LookupNode("plain")
	_, _, ok := b.Branches(id, func(graph.NodeID) bool { return false })
	require.False(t, ok, "a float convolution is no main branch")
}

// One activation is computed together with an operator, or a chain of as many as the target has.
func TestChainsOfActivations(t *testing.T) {
	g := graphtest.Parse(t, `
input x: f32[1,4,8,8]
const w: f32[4,4,1,1] = normal(1)
a = Conv(x, w) "conv"
b = Relu(a) "relu"
c = LeakyRelu(b) "leaky"
d = Tanh(c) "tanh"
output d
`)
	for chain, want := range map[int][]bool{0: {true, false, false}, 1: {true, false, false}, 2: {true, true, false}, 3: {true, true, true}} {
		tg := target.TRTInt8
		tg.Chain = chain
		b, err := tg.Bind(g)
		require.NoError(t, err)
		conv, _ := g.LookupNode("conv")
		for i, name := range []string{"relu", "leaky", "tanh"} {
			id, _ := g.LookupNode(name)
			require.Equal(t, want[i], b.Heads[id] == conv, "chain of %d: %s", chain, name)
		}
	}
}

// Which platforms a file may be meant for follows from their schemes.
func TestLikely(t *testing.T) {
	for _, c := range []struct {
		unsigned, shifted bool
		want              []string
	}{
		{true, true, []string{"onnxruntime", "onnx"}},
		{true, false, []string{"onnxruntime", "onnx"}},
		{false, true, []string{"tflite", "onnxruntime", "onnx"}},
		{false, false, []string{"trt_int8", "onnxruntime", "onnx"}},
	} {
		var got []string
		for _, tg := range target.Builtin().Likely(c.unsigned, c.shifted) {
			got = append(got, tg.Name)
		}
		require.Equal(t, c.want, got)
	}
}

// A target that somebody brings along comes before the built-in ones of its kind.
func TestLikelyOfOnesOwn(t *testing.T) {
	own := target.ONNXRuntime
	own.Name = "mynpu"
	c, err := target.Builtin().With(&own)
	require.NoError(t, err)
	list := c.Likely(true, true)
	require.Equal(t, "mynpu", list[0].Name)
	require.Len(t, list, 1+len(target.Builtin().Likely(true, true)))
	own.Import = false
	require.Equal(t, "onnxruntime", c.Likely(true, true)[0].Name)
	require.Empty(t, target.Catalog{All: []*target.Target{&own}}.Likely(true, true))
}
