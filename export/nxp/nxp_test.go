package nxp_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/nxp"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/exporttest"
	"qwb/quantizer/tqc"
)

const network = `
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = [1, -2, 0.5, 0.25, 127, 3]
const b: f32[3] = [0.5, -1, 2]
const scales: f32[4] = [1, 1, 2, 2]
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
z = Resize(r, _, scales) {mode="nearest"} "up"
e = Exp(z) "exp"
output e
`

// open reads back the ranges of a file and how many inputs it has.
func open(t testing.TB, path string) (ranges map[string][2][]float32, g *graph.Graph) {
	m, _, err := onnx.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	ranges = map[string][2][]float32{}
	for _, v := range m.Graph.Inputs {
		if name := m.Graph.Value(v).Name; m.Graph.Const(v) != nil && name[len(name)-4:] == "_min" {
			hi, ok := m.Graph.Lookup(name[:len(name)-4] + "_max")
			require.True(t, ok)
			require.Contains(t, m.Graph.Inputs, hi)
			ranges[name[:len(name)-4]] = [2][]float32{m.Graph.Const(v).F32(), m.Graph.Const(hi).F32()}
		}
	}
	return ranges, m.Graph
}

// The ranges are -128 and 127 times the scale, of the input, the result of the Relu and what the Resize copies: not of the convolution's
// result, which is computed with the Relu, and not of what the host computes. With --ranges all the constants have theirs, per channel.
func TestRanges(t *testing.T) {
	f := nxp.Format()
	for option, want := range map[string][]string{"activations": {"x", "r", "z"}, "all": {"x", "r", "z", "w", "b"}} {
		in := exporttest.Input(t, &f, network, "nxp_int8", map[string]string{"ranges": option})
		dir, names := exporttest.Write(t, &f, in)
		require.Equal(t, []string{"m.onnx"}, names)
		ranges, g := open(t, filepath.Join(dir, "m.onnx"))
		require.Len(t, ranges, len(want))
		require.Len(t, g.Inputs, 1+2*len(want))
		scale := func(slot tqc.SlotID) []float32 { return in.Set.Params(slot).Scale }
		for name, slot := range map[string]tqc.SlotID{"x": in.Set.Input(0, 0), "r": in.Set.Output(1, 0), "z": in.Set.Output(1, 0),
			"w": in.Set.Input(0, 1)} {
			if r, ok := ranges[name]; ok {
				for c, s := range scale(slot) {
					require.Equal(t, [2]float32{-128 * s, 127 * s}, [2]float32{r[0][c], r[1][c]}, name)
				}
			}
		}
		if option == "all" {
			require.Len(t, ranges["w"][0], 3)
			require.Len(t, ranges["b"][0], 3)
		}
	}
}

// A range is one for who computes a tensor and who reads it, where elements move behind the input too, whose codes are rounded half down.
func TestMovedInput(t *testing.T) {
	f := nxp.Format()
	in := exporttest.Input(t, &f, `
input x: f32[2,4,4]
const axes: i64[1] = [0]
const w: f32[3,2,1,1] = [1, -2, 0.5, 0.25, 127, 3]
u = Unsqueeze(x, axes) "apart"
y = Conv(u, w) "conv"
output y
`, "nxp_int8_lut", nil)
	dir, _ := exporttest.Write(t, &f, in)
	ranges, _ := open(t, filepath.Join(dir, "m.onnx"))
	require.Contains(t, ranges, "u")
	require.Equal(t, ranges["x"], ranges["u"])
}

func TestRefusals(t *testing.T) {
	f := nxp.Format()
	in := exporttest.Input(t, &f, network, "nxp_int8", nil)
	in.Set.Slot(in.Set.Output(1, 0)).Config.Policy &^= tqc.PowerOf2
	_, err := exporttest.Try(&f, in, t.TempDir())
	require.ErrorContains(t, err, "power-of-two scales")
	require.ErrorContains(t, err, `"relu"`)
	in = exporttest.Input(t, &f, network+"const x_max: f32[1] = [1]\nu = Exp(x_max) \"taken\"\noutput u", "nxp_int8", nil)
	_, err = exporttest.Try(&f, in, t.TempDir())
	require.ErrorContains(t, err, `a tensor "x_max" already`)
}

// Every rule finds what is planted for it.
func TestDoctor(t *testing.T) {
	f := nxp.Format()
	value := func(t testing.TB, g *graph.Graph, name string) graph.ValueID {
		v, ok := g.Lookup(name)
		require.True(t, ok)
		return v
	}
	edit := func(change func(t testing.TB, g *graph.Graph)) func(testing.TB, string) {
		return exporttest.EditModel(change)
	}
	drop := func(t testing.TB, g *graph.Graph, name string) {
		for i, v := range g.Inputs {
			if g.Value(v).Name == name {
				g.Inputs = append(g.Inputs[:i:i], g.Inputs[i+1:]...)
				return
			}
		}
		require.Fail(t, name)
	}
	exporttest.Doctor(t, &f, network, "nxp_int8", []exporttest.Fault{
		{Rule: "pair", Plant: edit(func(t testing.TB, g *graph.Graph) { drop(t, g, "x_min") })},
		{Rule: "pair", Plant: edit(func(t testing.TB, g *graph.Graph) {
			g.SetConst(value(t, g, "r_max"), tensor.New(tensor.Float32, 2))
		})},
		{Rule: "known", Plant: edit(func(t testing.TB, g *graph.Graph) {
			g.Inputs = append(g.Inputs, g.AddConst("y_min", tensor.New(tensor.Float32)), g.AddConst("y_max", tensor.New(tensor.Float32)))
		})},
		{Rule: "step", Plant: edit(func(t testing.TB, g *graph.Graph) { g.Const(value(t, g, "x_min")).F32()[0] *= 0.75 })},
		{Rule: "step", Plant: edit(func(t testing.TB, g *graph.Graph) { g.Const(value(t, g, "x_max")).F32()[0] *= 1.01 })},
		{Rule: "complete", Plant: edit(func(t testing.TB, g *graph.Graph) { drop(t, g, "x_min"); drop(t, g, "x_max") })},
		{Rule: "grid", Plant: edit(func(t testing.TB, g *graph.Graph) { g.Const(value(t, g, "w")).F32()[4] *= 0.997 })},
		{Rule: "resize", Plant: edit(func(t testing.TB, g *graph.Graph) {
			id, ok := g.LookupNode("up")
			require.True(t, ok)
			g.Node(id).Attr("mode").S = "linear"
		})},
	})
}
