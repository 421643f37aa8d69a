package lower_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/target"
)

// absent is a target without float: whatever stays float is an error that names it, but shapes, and the ends of the graph, are not.
func TestTargetsWithoutFloat(t *testing.T) {
	pr, err := qmath.ProfileNamed("ort")
	require.NoError(t, err)
	absent := target.ONNXRuntime
	absent.Float = target.FloatAbsent
	for _, c := range []struct{ text, want string }{
		{`
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = normal(1)
c: f32[1,3,4,4] = Conv(x, w) "conv"
n: i64[4] = Shape(c) "shape"
y: f32[1,3,4,4] = Reshape(c, n) "same"
output y
`, ""},
		{`
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = normal(1)
const v: f32[2,3,1,1] = normal(2)
c: f32[1,3,4,4] = Conv(x, w) "conv"
s: f32[1,3,4,4] = Softplus(c) "soft"
r: f32[1,3,4,4] = Round(s) "round"
y: f32[1,2,4,4] = Conv(r, v) "next"
output y
`, `lower: onnxruntime has no float, which 2 nodes need: "soft" (Softplus): Softplus stays float on onnxruntime; ` +
			`"round" (Round): Round stays float on onnxruntime`},
	} {
		g, set, _ := lowertest.Configured(t, c.text, "onnxruntime")
		p, err := lower.Compile(g, set, &absent, pr)
		if c.want != "" {
			require.EqualError(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, target.FloatAbsent, p.Float)
	}
}

// A residual is one step with the convolution before it and the activation behind it where the target fuses them, and its sum is
// rounded once; elsewhere it is a step of its own, between integers.
func TestResidualIsOneStep(t *testing.T) {
	const text = `
input x: f32[1,4,6,6]
const w: f32[4,4,3,3] = normal(1)
const v: f32[4,4,1,1] = normal(2)
const b: f32[4] = normal(3)
a: f32[1,4,6,6] = Conv(x, v) "first"
c: f32[1,4,6,6] = Conv(a, w, b) {pads=[1,1,1,1]} "conv"
s: f32[1,4,6,6] = Add(c, a) "add"
r: f32[1,4,6,6] = Relu(s) "relu"
y: f32[1,4,6,6] = Conv(r, v) "last"
output y
`
	for _, c := range []struct {
		platform, profile string
		fused             bool
	}{{"trt_int8", "trt", true}, {"onnxruntime", "ort", false}} {
		p, err := compile(t, text, c.platform, c.profile)
		require.NoError(t, err)
		owner := map[string]*lower.Step{}
		for i := range p.Steps {
			for _, id := range p.Steps[i].Nodes {
				owner[p.Graph.Node(id).Name] = &p.Steps[i]
			}
		}
		conv, add := owner["conv"], owner["add"]
		require.Same(t, add, owner["relu"], c.platform)
		if !c.fused {
			require.NotSame(t, conv, add)
			require.True(t, p.Tensors[conv.Outputs[0]].Quantized(), "what is added is integers")
			continue
		}
		require.Same(t, conv, add)
		op := conv.Op.(*lower.Linear)
		require.True(t, op.Residual)
		require.Len(t, conv.Inputs, 2)
		for _, id := range append(conv.Inputs[:2:2], conv.Outputs...) {
			require.True(t, p.Tensors[id].Quantized(), p.Tensors[id].Name)
		}
		require.Equal(t, int32(0), op.Scales[0].Lo, "the activation is a limit of the codes")
	}
}
