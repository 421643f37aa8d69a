package qdq_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// unquantized is the network of which dropped was made: without pairs, its weights off the grid, with a Clip that no grid tells of.
const unquantized = `
graph original
opset 17
input x: f32[1,2,6,6]
const w: f32[4,2,3,3] = normal(3)
const b: f32[4] = [0.1, -0.2, 0, 0.3]
const low: f32[] = [0]
const high: f32[] = [6]
const v: f32[4,4,1,1] = normal(4)
c = Conv(x, w, b) {group=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1]} "conv"
r = Clip(c, low, high) "clip"
k = Conv(r, v) "pointwise"
y = Add(r, k) "add"
output y: f32[1,4,6,6]
`

// dropped is the same as a tool writes it whose range of the Clip was cut at 4: its Clip is left to the quantizer.
const dropped = `
graph quantized
opset 17
input x: f32[1,2,6,6]
const s: f32[] = [0.05]
const sr: f32[] = [0.0156]
const zx: u8[] = [120]
const zr: u8[] = [0]
const w: f32[4,2,3,3] = normal(3)
const sw: f32[] = [0.03]
const b: f32[4] = [0.1, -0.2, 0, 0.3]
const v: f32[4,4,1,1] = normal(4)
const zw: i8[] = [0]
xq = QuantizeLinear(x, s, zx)
xd = DequantizeLinear(xq, s, zx)
wq = QuantizeLinear(w, sw, zw)
wd = DequantizeLinear(wq, sw, zw)
vq = QuantizeLinear(v, sw, zw)
vd = DequantizeLinear(vq, sw, zw)
c = Conv(xd, wd, b) {pads=[1, 1, 1, 1]} "conv"
cq = QuantizeLinear(c, sr, zr)
cd = DequantizeLinear(cq, sr, zr)
k = Conv(cd, vd) "pointwise"
kq = QuantizeLinear(k, s, zx)
kd = DequantizeLinear(kq, s, zx)
a = Add(kd, cd) "add"
aq = QuantizeLinear(a, s, zx)
y = DequantizeLinear(aq, s, zx)
output y: f32[1,4,6,6]
`

// original gives what was quantized the float network of text.
func original(t *testing.T, quantized, text string) (*qdq.Quantized, error) {
	t.Helper()
	q, err := qdq.Read(context.Background(), parsed(t, quantized))
	require.NoError(t, err)
	require.NoError(t, q.PutBack())
	return q, q.Original(context.Background(), parsed(t, text))
}

// The float network comes back as it was, and what is quantized computes what the file computes, bit for bit.
func TestOriginal(t *testing.T) {
	integers := quantizedWeights(t)
	corrected := strings.Replace(dropped, "const b: f32[4] = [0.1, -0.2, 0, 0.3]", "const b: f32[4] = [0.15, -0.2, 0, 0.3]", 1)
	for name, c := range map[string]struct{ file, float, warning string }{
		"weights in float": {dropped, unquantized, ""},
		"integer weights":  {integers, unquantized, ""},
		"operands swapped": {dropped, strings.Replace(unquantized, "Add(r, k)", "Add(k, r)", 1), ""},
		"a corrected bias": {corrected, unquantized, "the biases of 1 operator differ"},
		"kept activations": {strings.NewReplacer(`"conv"`, "\"conv\"\nr = Relu(c) \"relu\"", "QuantizeLinear(c, sr",
			"QuantizeLinear(r, sr").Replace(dropped), strings.Replace(unquantized, "Clip(c, low, high)", "Relu(c)", 1), ""},
		"no activation":     {dropped, strings.NewReplacer("r = Clip(c, low, high) \"clip\"\n", "", "(r", "(c").Replace(unquantized), ""},
		"a bounded network": {dropped, strings.Replace(unquantized, "[6]", "[4]", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := original(t, c.file, c.float)
			require.NoError(t, err)
			o := parsed(t, c.float)
			feeds := inputs(o, 5)
			if c.warning == "" {
				for i, want := range run(t, o, nil, feeds) {
					requireClose(t, want, run(t, q.Graph, nil, feeds)[i], 0)
				}
			}
			im, err := q.Configure(&target.ONNXRuntime)
			require.NoError(t, err)
			require.NoError(t, im.Graph.Check())
			for i, want := range run(t, parsed(t, c.file), nil, feeds) {
				requireClose(t, want, run(t, im.Graph, simulate(t, im), feeds)[i], 0)
			}
			warned := slices.ContainsFunc(im.Warnings, func(w tqc.Warning) bool { return strings.Contains(w.Text, "the tool corrected them") })
			require.Equal(t, c.warning != "", warned, "%v", im.Warnings)
		})
	}
}

// Another network is refused: the error names the first node that differs, and nothing is changed.
func TestNotTheOriginal(t *testing.T) {
	for want, change := range map[string][2]string{
		`node "pointwise"`:                    {"normal(4)", "normal(5)"},
		`"conv" (Conv`:                        {"pads=[1, 1, 1, 1]}", "pads=[1, 1, 1, 1], dilations=[1, 2]}"},
		`its grid from 0 to 3.978 does not`:   {"[6]", "[3]"},
		`the file has Add "add" there`:        {"y = Add(r, k)", "y = Mul(r, k)"},
		`element 0 of input 1 ("w") is`:       {"normal(3)", "normal(6)"},
		`2 outputs, the quantized file has 1`: {"output y: f32[1,4,6,6]", "output y: f32[1,4,6,6]\noutput k: f32[1,4,6,6]"},
	} {
		text := strings.Replace(unquantized, change[0], change[1], 1)
		require.NotEqual(t, unquantized, text)
		_, before := floatOf(t, dropped, tensor.New(tensor.Float32, 1, 2, 6, 6))
		q, err := original(t, dropped, text)
		require.ErrorContains(t, err, want)
		require.Equal(t, graph.Format(before.Graph), graph.Format(q.Graph))
	}
}

// quantizedWeights is dropped with weights that are stored as integers, as most tools do.
func quantizedWeights(t *testing.T) string {
	t.Helper()
	g := parsed(t, dropped)
	text := dropped
	for _, name := range []string{"w", "v"} {
		id, _ := g.Lookup(name)
		x := g.Const(id)
		codes := make([]string, x.Len())
		for i, f := range x.F32() {
			codes[i] = strconv.Itoa(max(-128, min(127, int(math.RoundToEven(float64(f/0.03))))))
		}
		shape := strings.TrimPrefix(x.Type(), "f32")
		text = strings.Replace(text, name+"q = QuantizeLinear("+name+", sw, zw)\n", "", 1)
		text = strings.Replace(text, "const zw:", "const "+name+"q: i8"+shape+" = ["+strings.Join(codes, ", ")+"]\nconst zw:", 1)
	}
	return text
}
