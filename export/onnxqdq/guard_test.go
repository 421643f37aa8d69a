package onnxqdq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
)

// Where OpenVINO would reduce all axes, whatever the attribute says, the file has the opset from which on it reads them.
func TestReductionsGetTheOpsetThatOpenVINOReads(t *testing.T) {
	for op, want := range map[string]int64{"ReduceL1": 18, "ReduceLogSumExp": 18, "ReduceL2": 13, "ReduceMax": 13} {
		g := graphtest.Parse(t, "opset 13\ninput x: f32[2,8,16]\nconst w: f32[16,4] = normal(seed=1)\nm = MatMul(x, w) \"m\"\ny = "+op+
			"(m) {axes=[1]} \"r\"\noutput y\n")
		require.Empty(t, graph.InferShapes(g))
		tg := findTarget(t, "openvino_int8")
		set := configure(t, g, tg, "")
		calibrated(t, g, set)
		m := build(t, &onnx.Model{Graph: g}, set, tg)
		require.Equal(t, want, m.Graph.Opset(""), op)
		id, ok := m.Graph.LookupNode("r")
		require.True(t, ok)
		require.Equal(t, want == 18, m.Graph.Node(id).Input(1) != graph.NoValue)
	}
}

// The product of a first state, which depends on sizes alone, gets no Max: OpenVINO would overwrite it in the first inference. The product
// of what is fed does.
func TestWhatDependsOnSizesGetsNoGuard(t *testing.T) {
	g := graphtest.Parse(t, `input x: f32[n,32]
const w: f32[32,32] = normal(seed=1)
const u: f32[32,32] = normal(seed=2)
const below: f32[32] = normal(seed=3)
s = Shape(x)
c = ConstantOfShape(s)
z = Add(c, below)
h = MatMul(z, u) "first"
y = MatMul(x, w) "fed"
a = Add(h, y) "sum"
r = Relu(a)
output r
`)
	require.Empty(t, graph.InferShapes(g))
	tg := findTarget(t, "openvino_int8")
	set := configure(t, g, tg, "")
	calibrated(t, g, set)
	m := build(t, &onnx.Model{Graph: g}, set, tg)
	guarded := map[string]bool{}
	for _, id := range m.Graph.Nodes() {
		if n := m.Graph.Node(id); n.Op == "Max" {
			p := m.Graph.Producer(n.Inputs[0])
			guarded[m.Graph.Node(p).Name] = true
		}
	}
	require.Equal(t, map[string]bool{"fed": true}, guarded)
}

// What OpenVINO computes wrongly of small or odd things gets a Max in front or behind, and the same of usual sizes none.
func TestOddProductsAreGuarded(t *testing.T) {
	for network, want := range map[string][]string{
		`input x: f32[2,1,2,8]
const w: f32[1,2,3,3] = normal(seed=1)
y = Transpose(x) {perm=[0,1,3,2]}
m = MatMul(x, y)
c = ConvTranspose(x, w) {strides=[STEP,STEP]}
output m
output c
`: {"ConvTranspose", "STEP", "3", "1"},
		`input x: f32[2,4,4,2]
const a: f32[2,COLUMNS] = normal(seed=1)
const w: f32[4,1,3,1] = normal(seed=2)
p = MatMul(x, a)
c = Conv(p, w) {group=4}
output c
`: {"QuantizeLinear", "COLUMNS", "1", "2"},
		`input x: f32[2,4,4,2]
const c: f32[1,4,1,1] = [MOVED, MOVED, MOVED, MOVED]
const w: f32[4,4,1,1] = normal(seed=1)
o = Conv(x, w)
r = Relu(o)
s = Sub(r, c)
y = Conv(s, w)
z = Conv(r, w)
output y
output z
`: {"QuantizeLinear", "MOVED", "0.001", "-0.4"},
	} {
		for i, value := range want[2:] {
			g := graphtest.Parse(t, strings.ReplaceAll(network, want[1], value))
			require.Empty(t, graph.InferShapes(g))
			tg := findTarget(t, "openvino_int8")
			set := configure(t, g, tg, "")
			calibrated(t, g, set)
			m := build(t, &onnx.Model{Graph: g}, set, tg)
			var guarded []string
			for _, id := range m.Graph.Nodes() {
				if n := m.Graph.Node(id); n.Op == "Max" {
					guarded = append(guarded, m.Graph.Node(m.Graph.Uses(n.Outputs[0])[0].Node).Op)
				}
			}
			require.Equal(t, want[:1-i], append([]string{}, guarded...), network)
		}
	}
}

// Weights that several products read with the same integers and scales, as the steps of an unrolled cell do, are written once.
func TestSharedWeightsAreWrittenOnce(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[4,32]\nconst w: f32[32,32] = normal(seed=1)\n"+
		"a = MatMul(x, w)\nb = Tanh(a)\nc = MatMul(b, w)\noutput c\n")
	require.Empty(t, graph.InferShapes(g))
	for platform, want := range map[string]int{"openvino_int8": 1, "onnxruntime": 1, "trt_int8": 2} {
		tg := findTarget(t, platform)
		set := configure(t, g, tg, "")
		calibrated(t, g, set)
		m := build(t, &onnx.Model{Graph: g}, set, tg)
		read := map[graph.ValueID]bool{}
		for _, id := range m.Graph.Nodes() {
			if n := m.Graph.Node(id); n.Op == "MatMul" {
				read[n.Inputs[1]] = true
			}
		}
		require.Len(t, read, want, platform)
	}
}

// A product with one number is a Mul: OpenVINO does not open it behind a product on integers.
func TestAProductWithOneNumberIsAMul(t *testing.T) {
	g := graphtest.Parse(t, "input x: f32[2,32]\nconst w: f32[32,1] = normal(seed=1)\nconst one: f32[1,1] = [0.5]\n"+
		"m = MatMul(x, w)\ny = MatMul(m, one) \"one\"\noutput y\n")
	require.Empty(t, graph.InferShapes(g))
	tg := findTarget(t, "openvino_int8")
	set := configure(t, g, tg, "")
	calibrated(t, g, set)
	m, err := onnxqdq.Build(&onnx.Model{Graph: g}, set, tg, options)
	require.NoError(t, err)
	id, ok := m.Graph.LookupNode("one")
	require.True(t, ok)
	require.Equal(t, "Mul", m.Graph.Node(id).Op)
}
