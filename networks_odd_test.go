package qwb

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tflite"
	"qwb/quantizer/tqc"
)

// oddNetworks are kinds that random networks found: each is calibrated and exported, and where the engine is wrong the operator stays
// float.
var oddNetworks = []struct{ name, platform, text, float string }{
	{"a constant on the left of a product", "tflite_int8", `input x: f32[1,4,6,9]
const c: f32[3,6] = normal(seed=1)
t = MatMul(c, x) "n"
output t`, ""},
	{"a convolution along one axis, which the file turns", "tflite_int8", `input x: f32[1,3,5]
const w: f32[2,3,1] = normal(seed=1)
t = Conv(x, w) "n"
y = LeakyRelu(t) "act"
output y`, ""},
	{"two equal activations, whose sizes do not tell how the file turned them", "tflite_int8", `input x: f32[2,2,2]
const k: f32[2,2] = normal(seed=2); const w: f32[2,2,1] = normal(seed=1)
m = MatMul(x, k) "k"
t = Conv(m, w) "n"
y = Relu(t) "act"
z = Relu(t) "other"
output y, z`, ""},
	{"a broadcast", "tflite_int8", `input x: f32[2,8]
const w: f32[8,16] = normal(seed=1); const to: i64[3] = [3, 2, 16]
t = MatMul(x, w) "n"
y = Expand(t, to) "wide"
output y`, ""},
	{"a softmax of one element", "onnxruntime", `input x: f32[2,1,8]
const w: f32[8,1] = normal(seed=1)
t = MatMul(x, w) "n"
y = Softmax(t) "one"
output y`, "one"},
	{"parts without elements", "openvino_int8", `input x: f32[1,4,6,6]
const w: f32[4,4,1,1] = normal(seed=1); const parts: i64[2] = [4, 0]
t = Conv(x, w) "n"
a, b = Split(t, parts) {axis=1} "halves"
c = Conv(a, w) "m"
d = Concat(b, c) {axis=1} "join"
e = Relu(b) "none"
output d, e`, "halves, none"},
	{"a convolution that leaves nothing", "onnxruntime", `input x: f32[N2,2,5,1]
const w: f32[2,1,4,2] = normal(seed=1); const v: f32[1,5,3,3] = normal(seed=2); const k: f32[1,1,1,1] = 2; const hw: i64[2] = [2, 3]
t = ConvTranspose(x, w) {pads=[0,1,0,1]} "n"
p = ReduceSum(t, hw) "sum"
q = Conv(p, k) "scale"
u = Mul(t, q) "times"
y = ConvTranspose(u, v) {pads=[2,0,2,2]} "m"
output y, q`, "n, times, m"},
	{"tensors of one axis", "openvino_int8", `input x: f32[15]
const w: f32[15,6] = normal(seed=1); const m: f32[2,3] = normal(seed=2); const to: i64[2] = [3, 2]
t = MatMul(x, w) "n"
r = Reshape(t, to) "matrix"
y = MatMul(r, m) "m"
c = Concat(t, t) {axis=0} "join"
output y, c`, "n, join"},
	{"an average that counts padding", "openvino_int8", `input x: f32[1,4,9,9]
const w: f32[4,4,1,1] = normal(seed=1)
t = Conv(x, w) "n"
a = AveragePool(t) {kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1} "counts"
b = AveragePool(t) {kernel_shape=[3,3], pads=[1,1,1,1]} "does not"
c = AveragePool(t) {kernel_shape=[3,3], auto_pad="SAME_UPPER", count_include_pad=1} "counts too"
output a, b, c`, "counts, counts too"},
	{"a cubic Resize that shrinks between convolutions", "onnxruntime", `input x: f32[1,3,16,16]
const w: f32[4,3,3,3] = normal(seed=1); const v: f32[4,4,3,3] = normal(seed=2); const half: f32[4] = [1,1,0.5,0.5]
t = Conv(x, w) {pads=[1,1,1,1]} "n"
r = Resize(t, _, half) {mode="cubic"} "half"
a = Relu(r) "act"
u = Conv(a, v) {pads=[1,1,1,1]} "m"
y = Conv(u, v) "last"
output y`, "m"},
	{"an average that counts padding beyond which a window reaches", "onnxruntime", `input x: f32[1,4,7,7]
const w: f32[4,4,1,1] = normal(seed=1)
t = Conv(x, w) "n"
a = AveragePool(t) {kernel_shape=[3,3], strides=[3,3], pads=[1,1,0,0], ceil_mode=1, count_include_pad=1} "beyond"
y = Conv(a, w) "m"
output y`, "beyond"},
	{"a Slice of everything between pairs", "openvino_int8", `input x: f32[1,14,14,16]
const w: f32[16,8] = normal(seed=1); const m: i64[1] = [-3]; const far: i64[1] = [9223372036854775807]; const two: i64[1] = [2]
const z: i64[1] = [0]; const all: i64[1] = [14]; const one: i64[1] = [1]
t = MatMul(x, w) "n"
a = Slice(t, m, far, two) "back"
b = Slice(t, z, m, two) "front"
c = Concat(a, b) {axis=2} "roll"
d = Slice(c, z, all, one) "all"
e = Slice(d, z, all, two, one) "all too"
y = Relu(e) "act"
output y`, ""},
	{"comparisons, choices and other types", "tflite_int8", `input x: f32[2,3,5,4]
const w: f32[6,3,1,1] = normal(seed=1, std=0.3); const half: f32[] = 0.5; const two: i64[1] = [2]; const a: i64[] = 1
t = Conv(x, w) "n"
g = Greater(t, half) "more"
l = LessOrEqual(t, half) "less"
b = Or(g, l) "either"
c = And(g, b) "both"
d = Not(c) "not"
e = Cast(d) {to=1} "number"
f = Where(d, t, half) "chosen"
i = Cast(t) {to=6} "whole"
j = Cast(i) {to=1} "back"
k, places = TopK(t, two) {axis=1} "largest"
_, last = TopK(f, two) {axis=-1} "of them"
m = ArgMax(t) {axis=1, keepdims=1} "most"
p = ArgMin(t) {axis=3, keepdims=0} "least"
q = CumSum(t, a) {reverse=1} "sums"
s = Shape(t) {start=1} "sizes"
z = Equal(i, i) "same"
output e, f, j, k, places, last, m, p, q, s, z`, ""},
	{"windows that the file has in another form", "tflite_int8", `input x: f32[2,4,6,5]
const w: f32[4,4,1,1] = normal(seed=1, std=0.6); const v: f32[4,3,3,3] = normal(seed=2, std=0.3); const u: f32[4,1,2,2] = normal(seed=3, std=0.4)
const b: f32[4] = normal(seed=4); const q: f32[4,2,3] = normal(seed=5); const e: i64[8] = [0,0,1,2,0,0,0,3]; const flat: i64[3] = [2,4,30]
const r: f32[3] = [1, 1, 2]
t = Conv(x, w) "n"
a = ConvTranspose(t, v) {group=2, strides=[2,2], pads=[1,0,0,1]} "groups"
c = ConvTranspose(t, u, b) {group=4, strides=[2,2]} "depthwise"
d = ConvTranspose(t, v) {group=2, dilations=[2,1], strides=[1,3], output_padding=[0,1]} "far"
f = Pad(t, e) {mode="edge"} "edge"
z = Pad(x, e) "zeros in float"
g = AveragePool(t) {kernel_shape=[3,2], pads=[0,1,2,0]} "uncounted"
i = Elu(t) {alpha=0.5} "half"
l = DepthToSpace(t) {blocksize=2, mode="CRD"} "blocks"
m = Reshape(t, flat) "line"
o = ConvTranspose(m, q) {strides=[2], pads=[1,0]} "line up"
p = Resize(m, _, r) {mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"} "twice"
y = AveragePool(m) {kernel_shape=[4], pads=[2,0], strides=[3]} "line pool"
output a, c, d, f, g, i, l, o, p, y, z`, "uncounted, half, line pool"},
	{"functions by formulas", "tflite_int8", `input x: f32[2,3,5,4]
const w: f32[6,3,1,1] = normal(seed=1, std=0.6); const v: f32[6] = normal(seed=2); const u: f32[6] = normal(seed=3)
t = Conv(x, w) "n"
a = Softplus(t) "a"
c = Softsign(t) "c"
d = Celu(t) {alpha=2.0} "d"
e = Selu(t) "e"
f = Elu(t) {alpha=0.5} "f"
g = ThresholdedRelu(t) {alpha=0.2} "g"
h = LpNormalization(t) {axis=1} "h"
i = LpNormalization(t) {axis=-1, p=1} "i"
j = InstanceNormalization(t, v, u) "j"
k = ReduceL2(t) {axes=[1]} "k"
l = ReduceL1(t) {axes=[2,3], keepdims=0} "l"
m = ReduceSumSquare(t) {axes=[-1]} "m"
o = ReduceLogSumExp(t) {axes=[2], keepdims=0} "o"
p = Sum(t, a, c) "p"
q = Mean(t, a) "q"
r = Round(t) "r"
s = Sin(t) "s"
y = Sign(t) "y"
z = Ceil(t) "z"
output a, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, y, z`, ""},
	{"an output that a layer reads", "ncnn_int8", `input x: f32[1,4,6,6]
const w: f32[4,4,1,1] = normal(seed=1); const pads: i64[8] = [0,0,1,0,0,0,1,0]
t = Conv(x, w) "n"
y = Pad(t, pads) "pad"
output y, t`, ""},
}

// An output that is an input turned, which the file has in that order already, is a tensor of its own: the layout is that of the input.
func TestOutputsThatAreInputsTurned(t *testing.T) {
	g, err := graph.Parse("opset 17\ninput x: f32[1,31,9]\nconst w: f32[4,31,3] = normal(seed=1)\nt = Transpose(x) {perm=[0, 2, 1]}\n" +
		"y = Conv(x, w) \"conv\"\noutput t, y")
	require.NoError(t, err)
	graph.InferShapes(g)
	f, files, err := throughDrawn(g, 1, "tflite_int8", "", false)
	require.NoError(t, err)
	content, _ := files.Read(f.File)
	m, err := tflite.Read(content)
	require.NoError(t, err)
	require.Equal(t, "t", m.Subgraphs[0].Tensors[m.Signatures[0].Outputs[0].Tensor].Name)
	require.Equal(t, []int{1, 9, 31}, m.Subgraphs[0].Tensors[m.Signatures[0].Outputs[0].Tensor].Shape)
}

func TestOddNetworks(t *testing.T) {
	for _, c := range oddNetworks {
		g, err := graph.Parse("opset 17\n" + c.text)
		require.NoError(t, err, c.name)
		graph.InferShapes(g)
		f, files, err := throughDrawn(g, 1, c.platform, "", true)
		require.NoError(t, err, "%s: %s", c.name, f.At)
		p := &Project{Model: "m.onnx", Plan: "m" + PlanSuffix, Store: files}
		planned, _, err := p.OpenPlan()
		require.NoError(t, err)
		if _, there := planned.Graph.LookupNode("all"); there {
			t.Error("OpenVINO ends the process there")
		}
		for _, name := range strings.Split(c.float, ", ") {
			if id, ok := planned.Graph.LookupNode(name); ok {
				require.Equal(t, tqc.DomainFP32, planned.Set.Domains[id], "%s: %s", c.name, name)
			}
		}
		require.NoError(t, planned.Close())
		if c.platform == "ncnn_int8" {
			param, _ := files.Read(f.File)
			require.Regexp(t, `Noop +output_t +1 1 t_inner_splitncnn_1 t\n`, string(param), "an extractor gives away what was read")
		}
	}
}

// An output that is an input in another order is a tensor of its own in a .tflite file.
func TestTurnedInputIsAnOutput(t *testing.T) {
	g, err := graph.Parse(`opset 17
input x: f32[1,3,2]
t = Transpose(x) {perm=[0, 2, 1]} "n"
y = MatMul(x, t) "m"
output t, y`)
	require.NoError(t, err)
	graph.InferShapes(g)
	f, files, err := throughDrawn(g, 1, "tflite_int8", "", false)
	require.NoError(t, err)
	content, _ := files.Read(f.File)
	m, err := tflite.Read(content)
	require.NoError(t, err)
	require.Equal(t, "t", m.Signatures[0].Outputs[0].Name)
	require.Equal(t, []int{1, 2, 3}, m.Subgraphs[0].Tensors[m.Subgraphs[0].Outputs[0]].Shape)
}

// What OpenVINO would move scales behind although it does not commute with them reads a Max with the lowest number, and nothing else does.
func TestGuardedFloats(t *testing.T) {
	const product = "opset 17\ninput x: f32[2,4,9,9]\nconst w: f32[9,16] = normal(seed=1)\nm = MatMul(x, w) \"m\"\n"
	const conv = "opset 17\ninput x: f32[2,4,9,9]\nconst w: f32[4,4,1,1] = normal(seed=1)\nm = Conv(x, w) \"m\"\n"
	for text, guarded := range map[string]bool{
		conv + "y = AveragePool(m) {kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1}": true,
		conv + "y = AveragePool(m) {kernel_shape=[3,3], pads=[1,1,1,1]}":                      false,
		conv + "y = MaxPool(m) {kernel_shape=[3,3]}":                                          false,
		conv + "t = Transpose(m) {perm=[0, 2, 3, 1]}\ny = MaxPool(t) {kernel_shape=[3,3]}":    true,
		product + "y = MaxPool(m) {kernel_shape=[3,3]}":                                       true,
		product + "y = Relu(m)": false,
		conv + "const p: i64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\nconst v: f32[] = [-0.4]\ny = Pad(m, p, v)":             true,
		conv + "const p: i64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\ny = Pad(m, p) {mode=\"edge\"}":                         false,
		product + "const i: i64[] = [1]\ny = Gather(m, i) {axis=-2}":                                               true,
		conv + "const v: f32[9,3] = normal(seed=2)\nr = Sigmoid(m)\ny = Einsum(r, v) {equation=\"abij,jk->abik\"}": false,
	} {
		g, err := graph.Parse(text + "\noutput y")
		require.NoError(t, err)
		graph.InferShapes(g)
		f, files, err := throughDrawn(g, 1, "openvino_int8", "onnx", false)
		require.NoError(t, err, text)
		content, _ := files.Read(f.File)
		m, _, err := onnx.Read(bytes.NewReader(content), int64(len(content)), nil)
		require.NoError(t, err)
		found := slices.ContainsFunc(m.Graph.Nodes(), func(id graph.NodeID) bool { return m.Graph.Node(id).Op == "Max" })
		require.Equal(t, guarded, found, text)
	}
}

// An addend of 1e7 of which the observer of the sum has cut off everything has a scale near that of the sum: it saturates there all the
// same.
func TestAddendsFarFromTheSum(t *testing.T) {
	for _, sum := range []string{"Add(a, c)", "Add(c, a)", "Sub(a, c)"} {
		text := "opset 17\ninput x: f32[1,2,4,4]\nconst w: f32[2,2,1,1] = normal(seed=1)\nconst c: f32[1,2,4,4] = [-1e7" +
			strings.Repeat(", 0", 31) + "]\na = Conv(x, w) \"conv\"\nb = " + sum + " \"far\"\ny = Conv(b, w) \"last\"\noutput y\n"
		p, zero := placeOf(t, text), 0.0
		_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "tflite_int8", Observer: "percentile(0.9)", BorderCost: &zero,
			Data: DataOptions{Paths: []string{"synthetic:4"}}})
		require.NoError(t, err)
		planned, _, err := p.OpenPlan()
		require.NoError(t, err)
		id, ok := planned.Graph.LookupNode("far")
		require.True(t, ok)
		scale := func(s tqc.SlotID) float32 { return planned.Set.Params(s).Scale[0] }
		y, c := scale(planned.Set.Output(id, 0)), scale(planned.Set.Input(id, strings.Index(sum, "c")/6))
		require.Less(t, y, float32(1), "the observer cuts")
		require.Less(t, c, 10*y, sum)
		require.NoError(t, planned.Close())
	}
}

// What an engine is known to compute wrongly is a warning of export, and what a format has no form for is refused.
func TestFaultsOfEngines(t *testing.T) {
	for _, c := range []struct{ platform, text, warning, refused string }{
		{"openvino_int8", `input x: f32[1,32,8,8]
const w: f32[8,32,4,4] = normal(seed=1, std=0.1)
t = Conv(x, w) {strides=[4,4]} "patch"
output t`, "\"patch\" (operators like it: 1) slides over 32 channels", ""},
		{"openvino_int8", `input x: f32[1,16,8,8]
const w: f32[8,16,4,4] = normal(seed=1, std=0.1)
t = Conv(x, w) {strides=[4,4]} "patch"
a = AveragePool(t) {kernel_shape=[2,2]} "plain"
output a`, "", ""},
		{"ncnn_int8", `input x: f32[1,5,4,7]; input v: f32[7]
const w: f32[4,8] = normal(seed=2)
t = MatMul(x, v) "n"
y = MatMul(t, w) "m"
output y`, "", "a vector on the right"},
	} {
		g, err := graph.Parse("opset 17\n" + c.text)
		require.NoError(t, err)
		graph.InferShapes(g)
		f, _, err := throughDrawn(g, 1, c.platform, "", false)
		if c.refused != "" {
			require.ErrorContains(t, err, c.refused)
			continue
		}
		require.NoError(t, err)
		said := strings.Join(f.Warnings, "\n")
		require.Contains(t, said, c.warning)
		require.Equal(t, c.warning != "", strings.Contains(said, "OpenVINO 2026.4"), said)
	}
}
