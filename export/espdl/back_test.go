package espdl

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/exporttest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
)

// scaled has grids that meet at a Concat, a constant operand in a layout, and a function of codes.
const scaled = `input x: f32[1,4,6,6]
const w: f32[20,4,3,3] = normal(seed=1, std=0.3)
const v: f32[4,20,1,1] = normal(seed=2, std=0.05)
const c: f32[1,4,6,1] = normal(3)
const u: f32[4,8,1,1] = normal(seed=5, std=0.3)
const m: f32[144,3] = normal(seed=4, std=0.3)
const r: f32[3,3] = normal(6)
const half: f32[] = [0.5]
a = Conv(x, w) {pads=[1,1,1,1]} "first"
b = Conv(a, v) "second"
d = Add(b, c) "sum"
e = Tanh(d) "tanh"
k = Concat(b, e) {axis=1} "joined"
n = Conv(k, u) "third"
f = Flatten(n) "flat"
y = MatMul(f, m) "product"
z = Softmax(y) "softmax"
h = Pow(z, half) "power"
o = MatMul(h, r) "last"
output o
`

// grouped has convolutions of several outputs per channel, and in groups of several channels.
const grouped = `input x: f32[1,8,9,7]
const w: f32[16,1,3,3] = normal(seed=1, std=0.3)
const b: f32[16] = normal(seed=2, std=0.3)
const v: f32[24,8,1,1] = normal(seed=3, std=0.3)
const u: f32[48,1,2,1] = normal(seed=4, std=0.3)
a = Conv(x, w, b) {group=8, pads=[1,1,1,1]} "twice"
r = Relu(a) "relu"
c = Conv(r, v) {group=2} "halves"
d = Conv(c, u) {group=24} "thrice"
output d
`

// nodeOf is the node that computes a tensor.
func nodeOf(m *Model, output string) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].Outputs[0] == output {
			return &m.Nodes[i]
		}
	}
	return nil
}

// windowAttr is a list of the first node of an operator.
func windowAttr(m *Model, op, name string) []int64 {
	for i := range m.Nodes {
		for _, a := range m.Nodes[i].Attrs {
			if m.Nodes[i].Op == op && a.Name == name {
				return a.Value.([]int64)
			}
		}
	}
	return nil
}

func TestDamagedFilesAreFound(t *testing.T) {
	f := Format()
	raw := func(name string, k int) func(m *Model) { return func(m *Model) { constantNamed(m, name).Raw[k] ^= 1 } }
	for _, platform := range []string{"espdl_int8", "espdl_int8_s3", "espdl_int8_c", "espdl_int16", "espdl_int16_s3", "espdl_int16_c"} {
		for _, network := range []string{text, scaled, grouped, lowertest.Networks["matrices"]} {
			b := exporttest.Equal(t, &f, exporttest.Input(t, &f, network, platform, nil))
			require.Greater(t, b.Compared, int64(300), platform)
		}
	}
	for _, platform := range []string{"espdl_int8", "espdl_int16_c"} {
		var faults []exporttest.Damaged
		for what, change := range map[string]func(m *Model){
			"a code of a block":               raw("w", 18),
			"a code behind the blocks":        raw("w", 16*27+5),
			"a code of a depthwise":           raw("d", 40),
			"a code of a product":             raw("m", 8),
			"a bias":                          raw("b", 9),
			"an exponent of weights":          func(m *Model) { constantNamed(m, "m").Exponents[0]++ },
			"an exponent of weights and bias": func(m *Model) { constantNamed(m, "m").Exponents[0]++; constantNamed(m, "c").Exponents[0]++ },
			"an exponent of a bias":           func(m *Model) { constantNamed(m, "b").Exponents[0]-- },
			"an exponent of an input":         func(m *Model) { m.Inputs[0].Exponents[0]++ },
			"an exponent between":             func(m *Model) { m.Values[3].Exponents[0]++ },
			"a limit of a fused Relu":         func(m *Model) { nodeOf(m, "r").Attrs[0].Value = "Linear" },
			"integers of another size":        func(m *Model) { changed("MaxPool", "quant_type", func(any) any { return "S32" })(m) },
			"the type of a pool":              func(m *Model) { changed("GlobalAveragePool", "quant_type", func(any) any { return "F32" })(m) },
			"a factor that is transposed":     func(m *Model) { changed("Gemm", "transB", func(any) any { return int64(1) })(m) },
			"a stride":                        func(m *Model) { windowAttr(m, "Conv", "strides")[0]++ },
			"a pad":                           func(m *Model) { windowAttr(m, "Conv", "pads")[2]++ },
			"an entry of limits":              raw("lut", 60),
			"a limit":                         raw("k_max", 0),
			"an entry of a function":          raw("lut_1", 100),
			"a test value of the input":       func(m *Model) { m.TestInputs[0].Raw[5] ^= 1 },
			"a test value of the output":      func(m *Model) { m.TestOutputs[0].Raw[4] ^= 1 },
			"two channels that are swapped": func(m *Model) {
				c := constantNamed(m, "d")
				c.Raw[0], c.Raw[2] = c.Raw[2], c.Raw[0]
			},
			"weights of another layout": func(m *Model) { constantNamed(m, "w").Doc = "layout ==> (N/4)HWC4" },
		} {
			faults = append(faults, exporttest.Damaged{What: platform + " " + what, Plant: edit(change)})
		}
		exporttest.ReadBack(t, &f, text, platform, faults)
	}
	exporttest.ReadBack(t, &f, grouped, "espdl_int8", []exporttest.Damaged{
		{What: "a channel that is repeated", Plant: edit(func(m *Model) {
			constantNamed(m, m.Nodes[slices.IndexFunc(m.Nodes, func(n Node) bool { return n.Op == "Gather" })].Inputs[1]).Raw[8] ^= 1
		})},
		{What: "a weight of a group", Plant: edit(raw("v", 0))},
		{What: "a weight from another group", Plant: edit(raw("v", 8*16))},
	})
	exporttest.ReadBack(t, &f, lowertest.Networks["matrices"], "espdl_int8", []exporttest.Damaged{
		{What: "the layout of another chip", Plant: edit(func(m *Model) {
			for i := range m.Initializers {
				if c := &m.Initializers[i]; c.Doc != "" {
					c.Doc = "layout ==> NHWC"
				}
			}
		})},
		{What: "a constant left factor", Plant: edit(raw("wl_QuantizeLinear", 3))},
	})
	exporttest.ReadBack(t, &f, scaled, "espdl_int8", []exporttest.Damaged{
		{What: "a constant operand", Plant: edit(raw("c_QuantizeLinear", 7))},
		{What: "its exponent", Plant: edit(func(m *Model) { constantNamed(m, "c_QuantizeLinear").Exponents[0]++ })},
		{What: "a real number", Plant: edit(raw("half", 0))},
		{What: "an axis of a Softmax", Plant: edit(func(m *Model) { changed("Softmax", "axis", func(any) any { return int64(0) })(m) })},
		{What: "an operator in float", Plant: edit(func(m *Model) { nodeNamed(m, "power").Op = "Mul" })},
		{What: "the scale of a conversion", Plant: edit(func(m *Model) {
			for i := range m.Nodes {
				if m.Nodes[i].Op == "QuantizeLinear" {
					constantNamed(m, m.Nodes[i].Inputs[1]).Raw[2] ^= 0x80
				}
			}
		})},
	})
}

// What brings parts of a Concat to its grid is read back, too.
func TestADamagedRescaleIsFound(t *testing.T) {
	f, ctx := Format(), context.Background()
	in := exporttest.Input(t, &f, scaled, "espdl_int8", nil)
	for i := range in.Program.Steps {
		if op, ok := in.Program.Steps[i].Op.(*lower.Concat); ok {
			y := in.Program.Tensors[in.Program.Steps[i].Outputs[0]].Encoding.Grid()
			r, err := in.Program.Profile.PrepareRescale(y, y)
			require.NoError(t, err)
			op.Rescale[0] = &r
		}
	}
	out := f.NewOutput(filepath.Join(t.TempDir(), "m.espdl"), nil)
	defer out.Discard()
	_, err := f.Write(ctx, in, out)
	require.NoError(t, err)
	_, err = f.Equal(ctx, in, out)
	require.NoError(t, err)
	planted := false
	edit(func(m *Model) {
		for i := range m.Nodes {
			if n := &m.Nodes[i]; n.Op == "RequantizeLinear" {
				constantNamed(m, n.Inputs[1]).Raw[2] ^= 0x80
				planted = true
			}
		}
	})(t, out.Folder())
	require.True(t, planted)
	_, err = f.Equal(ctx, in, out)
	require.ErrorContains(t, err, "are not those of the plan")
}
