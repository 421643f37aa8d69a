package passes

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/graphtest"
)

// Every new version of every operator stands in exactly one table, and the tables hold nothing else.
func TestTheTablesCoverTheHistoryOfONNX(t *testing.T) {
	data, err := os.ReadFile("testdata/onnx_versions.txt")
	require.NoError(t, err)
	history := map[int64]map[string]bool{}
	for v := int64(MinOpset + 1); v <= MaxOpset; v++ {
		history[v] = map[string]bool{}
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		for _, s := range f[2:] { // f[1] is the version that brought the operator
			v, err := strconv.ParseInt(s, 10, 64)
			require.NoError(t, err)
			if v > MinOpset {
				history[v][f[0]] = true
			}
		}
	}
	for v := int64(MinOpset + 1); v <= MaxOpset; v++ {
		seen := map[string]int{}
		for _, op := range strings.Fields(compatible[v] + " " + refused[v]) {
			seen[op]++
		}
		for op := range conversions[v] {
			seen[op]++
		}
		for op := range history[v] {
			assert.Equal(t, 1, seen[op], "%s-%d", op, v)
		}
		for op := range seen {
			// Resize-11 follows from Upsample-10, which has no version of its own there.
			assert.True(t, history[v][op], "%s-%d is not in the history", op, v)
		}
	}
}

func TestRaiseOpset(t *testing.T) {
	cases := []struct {
		claim    string
		from, to int64
		text     string
		ops      string
	}{
		{"Softmax over all axes from 1 on", 7, 13, "input x: f32[2,3,4]; y = Softmax(x); output y", "Flatten Softmax Shape Reshape"},
		{"Softmax over the last axis", 11, 13, "input x: f32[2,3]; y = Softmax(x); output y", "Softmax"},
		{"Softmax where one axis is longer than 1", 7, 13, "input x: f32[2,5,1,1]; y = LogSoftmax(x); output y", "LogSoftmax"},
		{"Softmax counting from the end", 11, 13, "input x: f32[2,3,4]; y = Softmax(x) {axis=-2}; output y", "Flatten Softmax Shape Reshape"},
		{"Dropout", 7, 13, "input x: f32[2,3]; d = Dropout(x) {ratio=0.5}; y = Relu(d); output y", "Dropout Relu"},
		{"Squeeze and Unsqueeze", 9, 13, "input x: f32[2,1,3]; a = Squeeze(x) {axes=[1]}; y = Unsqueeze(a) {axes=[0, 3]}; output y",
			"Squeeze Unsqueeze"},
		{"Squeeze of all", 9, 13, "input x: f32[2,1,3]; y = Squeeze(x); output y", "Squeeze"},
		{"Clip with both bounds", 9, 13, "input x: f32[2,3]; y = Clip(x) {min=-0.5, max=0.5}; output y", "Clip"},
		{"Clip with one bound", 9, 11, "input x: f32[2,3]; y = Clip(x) {max=0.5}; output y", "Clip"},
		{"Clip without bounds", 9, 11, "input x: f32[2,3]; y = Clip(x); output y", "Clip"},
		{"Slice with axes", 9, 13, "input x: f32[4,6]; y = Slice(x) {starts=[1], ends=[-1], axes=[1]}; output y", "Slice"},
		{"Slice without axes", 9, 10, "input x: f32[4,6]; y = Slice(x) {starts=[1, 0], ends=[3, 2]}; output y", "Slice"},
		{"Pad keeps its value", 9, 13, "input x: f32[2,3]; y = Pad(x) {pads=[0, 1, 1, 0], value=2.5}; output y", "Pad"},
		{"Pad keeps its mode", 9, 13, "input x: f32[4,3]; y = Pad(x) {pads=[0, 1, 1, 0], mode=\"reflect\"}; output y", "Pad"},
		{"ReduceSum", 11, 13, "input x: f32[2,3,4]; y = ReduceSum(x) {axes=[1], keepdims=0}; output y", "ReduceSum"},
		{"ReduceSum of all", 11, 13, "input x: f32[2,3,4]; y = ReduceSum(x); output y", "ReduceSum"},
		{"ReduceMean", 13, 18, "input x: f32[2,3,4]; y = ReduceMean(x) {axes=[-1]}; output y", "ReduceMean"},
		{"Split with sizes", 11, 18, "input x: f32[6,2]; a, b = Split(x) {split=[2, 4]}; output a, b", "Split"},
		{"Split in equal parts", 11, 18, "input x: f32[6,2]; a, b = Split(x); output a, b", "Split"},
		{"TopK", 9, 11, "input x: f32[2,6]; a, b = TopK(x) {k=3}; output a, b", "TopK"},
		{"BatchNormalization", 7, 15, `input x: f32[2,2,3]
			const s: f32[2] = [1, 2]
			const v: f32[2] = [0.5, 2]
			y, _, _ = BatchNormalization(x, s, s, s, v) {spatial=1, epsilon=0.1}
			output y`, "BatchNormalization"},
		{"Gemm without bias", 9, 11, "input x: f32[2,3]; const w: f32[3,2] = normal(); const c: f32[2] = [1, 2]; y = Gemm(x, w, c); output y",
			"Gemm"},
	}
	for _, c := range cases {
		t.Run(c.claim, func(t *testing.T) {
			before := graphtest.Parse(t, "opset "+strconv.FormatInt(c.from, 10)+"\n"+c.text)
			g := before.Clone()
			_, err := RaiseOpset(g, c.to)
			require.NoError(t, err)
			require.NoError(t, g.Check())
			assert.Equal(t, c.to, g.Opset(""))
			assert.Equal(t, c.ops, ops(t, g))
			assert.Empty(t, graph.InferShapes(g))
			equalOutputs(t, before, g, 1e-7)
		})
	}
}

func TestRaiseUpsample(t *testing.T) {
	for _, mode := range []string{"nearest", "linear"} {
		before := parseGraph(t, `opset 9
			input x: f32[1,2,3,3]
			const s: f32[4] = [1, 1, 2, 2]
			y = Upsample(x, s) {mode="`+mode+`"}
			output y`)
		g := before.Clone()
		_, err := RaiseOpset(g, 13)
		require.NoError(t, err)
		requireOps(t, g, "Resize")
		n := g.Node(g.Producer(g.Outputs[0]))
		assert.Equal(t, "asymmetric", n.AttrStr("coordinate_transformation_mode", ""))
		require.Len(t, n.Inputs, 3)
		assert.Equal(t, []float32{1, 1, 2, 2}, g.Const(n.Inputs[2]).F32())
	}
	g := parseGraph(t, "opset 10\ninput x: f32[1,1,5,5]\nconst s: f32[4] = [1, 1, 0.7, 0.7]\ny = Resize(x, s)\noutput y")
	_, err := RaiseOpset(g, 11)
	require.ErrorContains(t, err, "ambiguous when shrinking")
}

func TestRaiseNamesEveryNodeItCannotConvert(t *testing.T) {
	g := parseGraph(t, `opset 13
		input x: f32[2,4]
		a = Mystery(x)
		b = my.domain::Mystery(a)
		y = Enigma(b)
		output y`)
	before := graph.Format(g)
	_, err := RaiseOpset(g, 15)
	require.ErrorContains(t, err, `node "a" (Mystery`)
	require.ErrorContains(t, err, `node "y" (Enigma`)
	require.NotContains(t, err.Error(), "my.domain")
	require.Equal(t, before, graph.Format(g), "the graph is unchanged")

	_, err = RaiseOpset(parseGraph(t, "opset 6\ninput x: f32[2]\ny = Relu(x)\noutput y"), 13)
	require.ErrorContains(t, err, "from 6 to 13")
	_, err = RaiseOpset(parseGraph(t, "opset 8\ninput x: f32[2,2]\nconst s: f32[2] = [1, 1]\n"+
		"y = BatchNormalization(x, s, s, s, s) {spatial=0}\noutput y"), 13)
	require.ErrorContains(t, err, "spatial")
	g = parseGraph(t, "opset 17\ninput x: f32[2]\ny = Relu(x)\noutput y")
	_, err = RaiseOpset(g, 13)
	require.NoError(t, err)
	require.EqualValues(t, 17, g.Opset(""), "never lowered")
}

func TestRaiseConvertsBodies(t *testing.T) {
	g := parseGraph(t, `opset 11
		input x: f32[2,1,3]
		input c: bool[]
		z = If(c) {then_branch=graph a { t = Squeeze(x) {axes=[1]}; output t }, else_branch=graph b { e = ReduceSum(x) {axes=[1], keepdims=0}; output e }}
		output z`)
	_, err := RaiseOpset(g, 13)
	require.NoError(t, err)
	require.NoError(t, g.Check())
	for _, sub := range g.Node(g.Producer(g.Outputs[0])).Subgraphs() {
		require.NoError(t, sub.Check())
		n := sub.Node(sub.Producer(sub.Outputs[0]))
		require.Nil(t, n.Attr("axes"), n.Op)
		require.NotNil(t, sub.Const(n.Input(1)), n.Op)
	}
}
