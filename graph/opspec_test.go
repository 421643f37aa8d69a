package graph

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpTableIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Ops() {
		key := s.Domain + "::" + s.Name
		require.False(t, seen[key], "%s stands twice", key)
		seen[key] = true
		require.NotEmpty(t, s.Doc, key)
		require.Positive(t, s.Since, key)
		require.NotNil(t, s.Infer, key)
		require.NotContains(t, s.Kind.String(), "?", key)
		require.Same(t, s, Spec(s.Domain, s.Name), key)
		require.False(t, strings.HasSuffix(s.Doc, "."), key)
	}
	require.Same(t, Spec("", "Conv"), Spec("ai.onnx", "Conv"))
	require.Nil(t, Spec("my.domain", "Conv"))
	require.Nil(t, Spec("", "NoSuchOperator"))
}

// TestSockets states the roles of inputs and outputs: d data, f float, i index; the last one repeats.
func TestSockets(t *testing.T) {
	for op, want := range map[string]string{
		"Conv": "ddd>d", "Reshape": "di>d", "Pad": "difi>d", "Gather": "di>d", "Resize": "diii>d", "Split": "di>dd", "TopK": "di>di",
		"Tile": "di>d", "Expand": "di>d", "Clip": "dff>d", "ConstantOfShape": "i>i", "NonMaxSuppression": "dfiff>i", "NonZero": "d>i",
		"Range": "iii>i", "ScatterND": "did>d", "Shape": "d>i", "Slice": "diiii>d", "Squeeze": "di>d", "Where": "fdd>d",
		"Equal": "dd>f", "OneHot": "iif>f", "GridSample": "df>d", "BatchNormalization": "dffff>d", "RoiAlign": "dfi>d",
		"QuantizeLinear": "dff>d", "LayerNormalization": "dff>d", "QLinearConv": "dffdffffd>d", "ReduceSum": "di>d",
	} {
		s := Spec("", op)
		in, out, _ := strings.Cut(want, ">")
		got := ""
		for i := range in {
			got += string("dfi"[s.InSocket(i)])
		}
		got += ">"
		for i := range out {
			got += string("dfi"[s.OutSocket(i)])
		}
		require.Equal(t, want, got, op)
	}
}

func TestPassive(t *testing.T) {
	for call, want := range map[string]bool{
		"MaxPool(x) {kernel_shape=[2, 2]}": true, "AveragePool(x) {kernel_shape=[2, 2]}": false, "Reshape(x, p)": true,
		"Resize(x, _, s)": true, "Resize(x, _, s) {mode=\"linear\"}": false, "Relu(x)": false, "Concat(x, x) {axis=0}": false,
		"Pad(x, p)": true, "Pad(x, p, zero)": true, "Pad(x, p, one)": false, "Pad(x, p, free)": false,
		"Pad(x, p, one) {mode=\"reflect\"}": true, "Pad(x) {pads=[0, 0, 1, 1], value=2.0}": false, "my::Op(x)": false,
	} {
		g := parsed(t, "input x: f32[1,1,4,4]; input p: i64[4]; input s: f32[4]; input free: f32[]; const zero: f32[] = 0; const one: "+
			"f32[] = 1; y = "+call+"; output y")
		id, _ := g.LookupNode("y")
		require.Equal(t, want, g.Passive(id), call)
	}
}
