package onnxqdq_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/onnxqdq"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/graphtest"
)

// What the exporter writes has no findings, whatever graph and target, with the plan at hand and without.
func TestCleanCorpus(t *testing.T) {
	corpus(t, func(t *testing.T, c configuredCase) {
		tg := findTarget(t, c.platform)
		_, m := written(t, build(t, &onnx.Model{Graph: c.g}, c.set, tg))
		require.Empty(t, onnxqdq.Check(m.Graph, tg, integers(c.g, c.set)))
		require.Empty(t, onnxqdq.Check(m.Graph, tg, nil))
	})
}

// victim is the graph that faults are planted in: two convolutions with bias and activation, a residual Add, a pool, a gate.
const victim = `
input x: f32[1,4,6,6]
const w1: f32[4,4,3,3] = normal(seed=1, std=0.2)
const b1: f32[4] = normal(2)
const w2: f32[4,4,1,1] = normal(seed=3, std=0.4)
const b2: f32[4] = normal(4)
const w3: f32[3,4,1,1] = normal(seed=5, std=0.4)
const b3: f32[3] = normal(6)
a = Conv(x, w1, b1) {pads=[1,1,1,1]} "conv1"
r = Relu(a) "relu1"
b = Conv(r, w2, b2) "conv2"
s = Add(b, r) "add"
q = Relu(s) "relu2"
p = MaxPool(q) {kernel_shape=[2,2], strides=[2,2]} "pool"
c = Conv(p, w3, b3) "conv3"
y = Sigmoid(c) "gate"
output y
`

// Every rule finds what is planted for it, with the plan at hand, and without it where the fault shows in the file alone.
func TestSeededFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.rule+"/"+f.platform+"/"+f.what, func(t *testing.T) {
			g := graphtest.Parse(t, victim)
			require.Empty(t, graph.InferShapes(g))
			tg := findTarget(t, f.platform)
			set := configure(t, g, tg, "")
			calibrated(t, g, set)
			m := build(t, &onnx.Model{Graph: g}, set, tg)
			require.Empty(t, onnxqdq.Check(m.Graph, tg, integers(g, set)))
			f.plant(surgeon{t, m.Graph})
			names := func(list []export.Finding) (rules []string) {
				for _, x := range list {
					require.NotEmpty(t, x.Text)
					rules = append(rules, x.Rule)
				}
				return rules
			}
			found := onnxqdq.Check(m.Graph, tg, integers(g, set))
			require.Contains(t, names(found), f.rule, "%v", found)
			require.Equal(t, f.unplanned, slices.Contains(names(onnxqdq.Check(m.Graph, tg, nil)), f.rule), "without the plan")
		})
	}
}

func TestEveryRuleHasAFault(t *testing.T) {
	for _, r := range onnxqdq.Rules() {
		require.NotEmpty(t, r.Doc, r.Name)
		require.NotEmpty(t, r.Fix, r.Name)
		require.True(t, slices.ContainsFunc(faults, func(f fault) bool { return f.rule == r.Name }), "no fault is planted for rule %q", r.Name)
	}
	for _, f := range faults {
		require.True(t, slices.ContainsFunc(onnxqdq.Rules(), func(r export.Rule) bool { return r.Name == f.rule }), "there is no rule %q", f.rule)
	}
}

func TestFindingsSayWhere(t *testing.T) {
	require.Equal(t, `scale: node "a": scale 0 is 0`, export.Finding{Rule: "scale", Node: "a", Text: "scale 0 is 0"}.String())
	require.Equal(t, `opset: opset 12`, export.Finding{Rule: "opset", Text: "opset 12"}.String())
	g := graphtest.Parse(t, "input x: f32[1]\na = Add(x, x)\noutput a")
	g.SetInput(0, 0, g.Outputs[0])
	tg := findTarget(t, "trt_int8")
	found := onnxqdq.Check(g, tg, nil)
	require.Len(t, found, 1)
	require.Equal(t, "structure", found[0].Rule, "a cycle is all that is said about a graph with one")
}

func TestWarnings(t *testing.T) {
	g := graphtest.Parse(t, `opset 22
input x: f32[1,3,8,8]
const w1: f32[16,3,1,1] = normal(1)
const w2: f32[32,16,1,1] = normal(2)
a = Conv(x, w1) "stem"
y = Conv(a, w2) "body"
output y`)
	require.Empty(t, graph.InferShapes(g))
	trt := findTarget(t, "trt_int8")
	set := configure(t, g, trt, "")
	list := onnxqdq.Warnings(g, set, trt)
	require.Len(t, list, 2)
	require.Contains(t, list[0].Text, "opset 22")
	// stem: 8*8*16*3 multiply-accumulates of 8*8*(16*3+32*16)
	require.InDelta(t, 48.0/560, list[1].Value, 1e-12)
	require.Contains(t, list[1].Text, `8.6 % of the integer work`)
	require.Contains(t, list[1].Text, `1 operator, first: "stem" with 3 and 16`)
	g.Opsets[0].Version = 17
	set = configure(t, g, trt, "stem")
	require.Empty(t, onnxqdq.Warnings(g, set, trt), "float operators do not count")
	ort := findTarget(t, "onnxruntime")
	require.Empty(t, onnxqdq.Warnings(g, configure(t, g, ort, ""), ort), "no preference")

	g = graphtest.Parse(t, `opset 13
input x: f32[16,5]
const w: f32[16,32] = normal(1)
y = Gemm(x, w) {transA=1} "fc"
output y`)
	require.Empty(t, graph.InferShapes(g))
	require.Empty(t, onnxqdq.Warnings(g, configure(t, g, trt, ""), trt), "the channels of a transposed input are its first axis")
}
