package qdq_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
)

// floatOf runs the float graph of a quantized one.
func floatOf(t *testing.T, text string, x *tensor.Tensor) ([]float32, *qdq.Quantized) {
	t.Helper()
	q, err := qdq.Read(context.Background(), parsed(t, text))
	require.NoError(t, err)
	require.NoError(t, q.PutBack())
	s, err := exec.New(q.Graph, exec.Options{})
	require.NoError(t, err)
	y, err := s.NewRunner().Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
	require.NoError(t, err)
	return append([]float32(nil), y[0].F32()...), q
}

// A file whose quantizers clip at 0 in place of a Relu or Relu6 has the float network with it.
func TestImpliedActivations(t *testing.T) {
	x := tensor.New(tensor.Float32, 1, 2, 6, 6)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x.F32() {
		x.F32()[i] = float32(3 * r.NormFloat64())
	}
	const relu = `r = Relu(c) "relu"` + "\n"
	require.Contains(t, pairs, relu)
	dropped := strings.ReplaceAll(strings.Replace(pairs, relu, "", 1), "QuantizeLinear(r,", "QuantizeLinear(c,")
	want, whole := floatOf(t, pairs, x)
	require.Empty(t, whole.Warnings)
	got, q := floatOf(t, dropped, x)
	require.Equal(t, want, got)
	im, err := q.Configure(&target.ONNXRuntime)
	require.NoError(t, err)
	require.Len(t, im.Warnings, 1)
	require.Contains(t, im.Warnings[0].Text, "1 activation put back that the file leaves to its quantizers")
	conv, _ := im.Graph.LookupNode("conv")
	act, ok := im.Graph.LookupNode("conv_activation")
	require.True(t, ok)
	require.Equal(t, conv, im.Set.Fused[act], "computed together, as a Relu of the file would be")

	six := func(text string) string {
		return strings.Replace(text, "sr: f32[] = [0.04]", "sr: f32[] = [0.023529412]", 1)
	}
	clipped := strings.Replace(pairs, relu, `r = Clip(c, none, six) "relu"`+"\n", 1)
	clipped = strings.Replace(clipped, "const sx:", "const none: f32[] = [0]\nconst six: f32[] = [6]\nconst sx:", 1)
	want, _ = floatOf(t, six(clipped), x)
	got, q = floatOf(t, six(dropped), x)
	require.Equal(t, want, got)
	id, _ := q.Graph.LookupNode("conv_activation")
	require.Equal(t, "Clip", q.Graph.Node(id).Op)

	// Below 11 the limits of a Clip are attributes.
	_, q = floatOf(t, `
opset 10
input x: f32[1,2,6,6]
const s: f32[] = [0.023529412]
const z: u8[] = [0]
const w: f32[3,2,1,1] = normal(1)
c = Conv(x, w) "conv"
q = QuantizeLinear(c, s, z)
y = DequantizeLinear(q, s, z)
output y: f32[1,3,6,6]
`, x)
	id, ok = q.Graph.LookupNode("conv_activation")
	require.True(t, ok)
	require.Equal(t, float32(6), q.Graph.Node(id).AttrFloat("max", 0))
}

// A grid that begins at 0 says nothing where nothing negative can come, where its end is no number of 8 bits from 0, or where
// somebody reads the sum as it is.
func TestNoImpliedActivation(t *testing.T) {
	for name, change := range map[string][2]string{
		"a grid with negative numbers":       {"const zr: u8[] = [0]", "const zr: u8[] = [1]"},
		"another reader of the sum":          {"output y: f32[1,3]", "output c: f32[1,4,6,6]\noutput y: f32[1,3]"},
		"a pool of numbers that are clipped": {"r = Relu(c) \"relu\"\n", "r = Relu(c) \"relu\"\n"},
	} {
		text := pairs
		if name != "a pool of numbers that are clipped" {
			text = strings.ReplaceAll(strings.Replace(text, "r = Relu(c) \"relu\"\n", "", 1), "QuantizeLinear(r,", "QuantizeLinear(c,")
		}
		require.Contains(t, text, change[0], name)
		q, err := qdq.Read(context.Background(), parsed(t, strings.Replace(text, change[0], change[1], 1)))
		require.NoError(t, err, name)
		require.NoError(t, q.PutBack(), name)
		for _, id := range q.Graph.Nodes() {
			require.NotContains(t, q.Graph.Node(id).Name, "_activation", name)
		}
		require.NoError(t, q.Graph.Check())
	}
}
