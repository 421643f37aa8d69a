package qdq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
)

// What cannot become a plan is refused with the node and the reason.
func TestRefused(t *testing.T) {
	const head = "input x: f32[2,3]\nconst s: f32[] = [0.1]\nconst s2: f32[] = [0.2]\nconst z: u8[] = [9]\nconst z8: i8[] = [9]\n"
	for _, c := range []struct{ text, want string }{
		{head + "y = Relu(x)\noutput y", "nothing in the model is quantized"},
		{head + "q, a, b = DynamicQuantizeLinear(x)\nt = Transpose(q)\ny = DequantizeLinear(t, a, b)\noutput y",
			`"q" \(DynamicQuantizeLinear.*computed when the model runs`},
		{head + "q, a, b = DynamicQuantizeLinear(x)\ny = DequantizeLinear(q, s, z)\noutput y", `"q" \(DynamicQuantizeLinear.*computed when the ` +
			`model runs`},
		{head + "const w: u8[3,2] = fill(1)\nq = QuantizeLinear(x, s, z)\ny = MatMulInteger(q, w)\noutput y", `MatMulInteger.*int32 sums`},
		{head + "input t: f32[]\nq = QuantizeLinear(x, t, z)\ny = DequantizeLinear(q, t, z)\noutput y",
			"the scale is computed when the model runs"},
		{head + "q = QuantizeLinear(x, s, z)\ny = DequantizeLinear(q, s2, z)\noutput y", "another scale, zero point or axis than"},
		{head + "q = QuantizeLinear(x, s, z)\nn = Neg(q)\ny = DequantizeLinear(n, s, z)\noutput y", "it computes with integers"},
		{head + "q = QuantizeLinear(x, s, z)\nd = DequantizeLinear(q, s, z)\ny = Cast(q) {to=1}\noutput y; output d",
			"it computes with (the )?integers"},
		{head + "const n: f32[] = [-0.5]\nq = QuantizeLinear(x, n, z)\ny = DequantizeLinear(q, n, z)\noutput y", "scale -0.5"},
		{head + "const n: f32[] = [nan]\nq = QuantizeLinear(x, n, z)\ny = DequantizeLinear(q, n, z)\noutput y", "scale NaN"},
		{head + "const n: f32[4] = fill(1.0)\nconst m: u8[4] = fill(1)\nq = QuantizeLinear(x, n, m)\ny = DequantizeLinear(q, n, m)\noutput y",
			"type of its integers is not known"},
		{head + "const w: i8[3,2] = [100, 127, 3, 4, 5, 6]\nconst n: f32[] = [1e-44]\nq = QuantizeLinear(x, s, z)\n" +
			"d = DequantizeLinear(q, s, z)\n" + "v = DequantizeLinear(w, n)\ny = MatMul(d, v)\noutput y", ""},
	} {
		q, err := qdq.Read(context.Background(), parsed(t, c.text))
		if err == nil {
			_, err = q.Configure(&target.ONNX)
		}
		if c.want == "" {
			require.NoError(t, err, c.text) // multiples of a denormal are exact
			continue
		}
		require.Error(t, err, c.text)
		require.Regexp(t, "^import: ", err.Error())
		require.Regexp(t, c.want, err.Error())
	}
}

// An int32 bias keeps its integers, whatever way its scale was rounded.
func TestBiasKeepsItsIntegers(t *testing.T) {
	text := `
input x: f32[1,2]
const s: f32[] = [0.1]
const z: u8[] = [9]
const w: i8[2,2] = [1, 2, 3, 4]
const sw: f32[2] = [0.3, 0.7]
const zw: i8[2] = fill(0)
const b: i32[2] = [12345, -2000000001]
const sb: f32[2] = [0.0300000012, 0.0700000003]
const zb: i32[2] = fill(0)
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wd = DequantizeLinear(w, sw, zw) {axis=0}
bd = DequantizeLinear(b, sb, zb) {axis=0}
y = Gemm(d, wd, bd) {transB=1} "g"
output y`
	im := imported(t, parsed(t, text), &target.ONNX)
	require.Empty(t, im.Warnings)
	id, _ := im.Graph.LookupNode("g")
	bias := im.Set.Params(im.Set.Input(id, 2))
	require.Equal(t, float32(0.1)*float32(0.3), bias.Scale[0])
	require.Equal(t, float32(0.1)*float32(0.7), bias.Scale[1])
	require.Equal(t, []int32{12345, -2000000001}, bias.Codes, "the second integer needs more than 24 bits")
}

// Ranges that were measured before the activation are found: their integers below zero never occur.
func TestUnusedIntegers(t *testing.T) {
	const text = `
input x: f32[1,2]
const s: f32[] = [0.1]
const z: u8[] = [ZERO]
const w: i8[2,2] = [1, 2, 3, 4]
const sw: f32[] = [0.3]
q = QuantizeLinear(x, s, z)
d = DequantizeLinear(q, s, z)
wd = DequantizeLinear(w, sw)
m = MatMul(d, wd)
r = Relu(m) "r"
rq = QuantizeLinear(r, s, z)
y = DequantizeLinear(rq, s, z)
output y`
	for zero, want := range map[string]float64{"0": 1, "60": 1, "100": 156. / 256} {
		im := imported(t, parsed(t, strings.Replace(text, "ZERO", zero, 1)), &target.ONNXRuntime)
		if want == 1 {
			require.Empty(t, im.Warnings, zero)
			continue
		}
		require.Len(t, im.Warnings, 1)
		require.Equal(t, "r", im.Warnings[0].Node)
		require.Equal(t, want, im.Warnings[0].Value)
	}
}
