package passes

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// TestWiden: what computes in float32 afterwards, and the types of inputs and outputs, which stay.
func TestWiden(t *testing.T) {
	const half = "const w: f16[4,3] = [0x3800, 0xb400, 0x3c00, 0x4000, 0x4200, 0x4400, 0xbc00, 0x3c00, 0x3000, 0, 0x3c00, 0x4000]; "
	for _, c := range []struct {
		claim, text, ops string
		within           float64 // max|a-b| / max|a|; negative: it cannot be run here
	}{
		{"a network in float16", "input x: f16[2,4]; " + half + "h: f16[2,3] = MatMul(x, w); y: f16[2,3] = Relu(h); output y",
			"Cast MatMul Relu Cast", 2e-3},
		{"in bfloat16", "input x: bf16[2,4]; const w: bf16[4,2] = [0x3f80, 0xbf80, 0x4000, 0, 0x3e80, 0xbf00, 0x3f80, 0x4040]; y: " +
			"bf16[2,2] = MatMul(x, w); output y", "Cast MatMul Cast", 2e-2},
		{"in float64", "input x: f64[2,4]; const w: f64[4,2] = normal(); h: f64[2,2] = MatMul(x, w); y: f64[2,2] = Relu(h); output y",
			"Cast MatMul Relu Cast", 1e-6},
		{"one operator of a float32 network", "input x: f32[2,4]; a = Relu(x); b = Cast(a) {to=10}; " + half +
			"h = MatMul(b, w); c = Cast(h) {to=1}; y = Relu(c); output y", "Relu MatMul Relu", 2e-3},
		{"an output that is read, and an input that is one", "input x: f16[2,4]; h = Relu(x); y = Add(h, x); output h, x, y",
			"Cast Relu Cast Add Cast", 2e-3},
		{"types of constants and results in attributes", "input x: f16[2]; input n: i64[1]; input m: i64[2,2]; " +
			"k = ConstantOfShape(n) {value=f16[1] [0x4000]}; " +
			"e = EyeLike(m) {dtype=10}; a = Add(e, x); s = ReduceSum(k) {keepdims=0}; y = Mul(a, s); output y",
			"EyeLike Cast Add ConstantOfShape ReduceSum Mul Cast", 2e-3},
		{"only rounding, only the type of an output", "input x: f32[2]; h = Cast(x) {to=10}; a = Cast(h) {to=1}; b = Relu(a); " +
			"y = Cast(b) {to=11}; output y", "Cast Cast Relu Cast", 0},
		{"float64 in which nothing is multiplied with weights", "input x: f32[2]; h = Cast(x) {to=11}; a = Exp(h); y = Cast(a) {to=1}; output y",
			"Cast Exp Cast", 0},
		{"counting in float64 goes on", "input x: f64[2,4]; input n: i64[2]; const w: f64[4,2] = normal(); const half: f64[] = 0.5; " +
			"d = Cast(n) {to=11}; " + "e = Mul(d, half); f = Floor(e); m = Cast(f) {to=7}; z = MatMul(x, w); y = Mul(z, half); output m, y",
			"Cast Mul Floor Cast Cast MatMul Cast", 1e-6},
		{"an operator of somebody else", "opset other 1; input x: f16[2]; h = Relu(x); a: f16[2] = other::Thing(h); y = Neg(a); output y",
			"Cast Relu Cast Thing Cast Neg Cast", -1},
		{"bodies", "input x: f16[2]; input c: bool[1]; a = Relu(x); y = If(c) {then_branch=graph { t = Add(a, x); output t }, " +
			"else_branch=graph { const one: f16[2] = [0x3c00, 0x4000]; e = Mul(x, one); output e }}; output y", "Cast Relu If Cast", 2e-3},
	} {
		t.Run(c.claim, func(t *testing.T) {
			before := graphtest.Parse(t, "opset 17; "+c.text)
			graph.InferShapes(before)
			g := before.Clone()
			normalize(t, g, Normalize...)
			require.Equal(t, c.ops, ops(t, g))
			require.Empty(t, graph.InferShapes(g))
			for i, v := range before.Inputs {
				require.Equal(t, graph.FormatType(before.Value(v).DType, before.Value(v).Shape),
					graph.FormatType(g.Value(g.Inputs[i]).DType, g.Value(g.Inputs[i]).Shape))
				require.Equal(t, before.Value(v).Name, g.Value(g.Inputs[i]).Name)
			}
			for i, v := range before.Outputs {
				require.Equal(t, before.Value(v).DType, g.Value(g.Outputs[i]).DType)
				require.Equal(t, before.Value(v).Name, g.Value(g.Outputs[i]).Name)
			}
			if c.within >= 0 {
				requireNear(t, before, g, c.within)
			}
		})
	}
}

// TestWidenKeepsMasks: the lowest double is the lowest float, not an infinity.
func TestWidenKeepsMasks(t *testing.T) {
	g := graphtest.Parse(t, `opset 17; input x: f64[2]; input c: bool[2]; const w: f64[2,2] = [1, 2, 3, 4]; const low: f64[] = -1.7976931348623157e308
		h = MatMul(x, w); y = Where(c, h, low); output y`)
	normalize(t, g, Normalize...)
	v, ok := g.Lookup("low")
	require.True(t, ok)
	require.Equal(t, []float32{-0x1.fffffep127}, g.Const(v).Data)
	require.Equal(t, tensor.Float64, g.Value(g.Outputs[0]).DType)
}

// TestFloat32: inputs and outputs follow, also where only a Cast makes them.
func TestFloat32(t *testing.T) {
	g := graphtest.Parse(t, "opset 17; input x: f16[2,2]; const w: f16[2,2] = [0x3c00, 0x4000, 0, 0xbc00]; "+
		"y = MatMul(x, w); z = Cast(y) {to=11}; output y, z")
	normalize(t, g, Float32, Casts)
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		require.Equal(t, tensor.Float32, g.Value(v).DType, g.Value(v).Name)
	}
	require.Equal(t, []float32{1, 2, 0, -1}, g.Const(g.Node(g.Producer(g.Outputs[0])).Input(1)).Data)
	require.Empty(t, graph.InferShapes(g))
}

// requireNear feeds both graphs noise in the types of their inputs and compares what comes out as float32.
func requireNear(t *testing.T, before, after *graph.Graph, limit float64) {
	t.Helper()
	feeds := feedsOf(before)
	for name, x := range feeds {
		noise := graphtest.Normal(uint64(len(name)), x.Shape...)
		switch x.DType {
		case tensor.Float16, tensor.BFloat16:
			c, err := narrowedConst(noise, x.DType)
			require.NoError(t, err)
			feeds[name] = c
		case tensor.Float64:
			for i, v := range noise.F32() {
				tensor.Of[float64](x)[i] = float64(v) + 0x1p-40
			}
		case tensor.Int64:
			for i := range x.Len() {
				tensor.Of[int64](x)[i] = 1 + int64(i)<<50
			}
		}
	}
	want, got := outputs(t, before, feeds), outputs(t, after, feeds)
	for name, x := range want {
		require.Equal(t, x.Type(), got[name].Type(), name)
		if !x.DType.IsFloat() {
			require.True(t, tensor.Equal(x, got[name]), name)
			continue
		}
		require.LessOrEqual(t, distance(exec.Floats(x), exec.Floats(got[name])), limit, name)
	}
}
