package encodings_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/encodings"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/internal/exporttest"
	"qwb/quantizer/tqc"
)

const network = `
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = [1, -2, 0.5, 0.25, 127, 3]
const b: f32[3] = [0.5, -1, 2]
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
e = Exp(r) "exp"
output e
`

func read(t testing.TB, dir string) (o map[string]any) {
	b, err := os.ReadFile(filepath.Join(dir, "m.encodings"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &o))
	return o
}

// Every tensor has one entry, in every version what the plan says of it.
func TestVersions(t *testing.T) {
	f := encodings.Format()
	in := exporttest.Input(t, &f, network, "qnn", map[string]string{"encodings": "0.6.1"})
	dir, names := exporttest.Write(t, &f, in)
	require.Equal(t, []string{"m.onnx", "m.encodings"}, names)
	o := read(t, dir)
	activations, params := o["activation_encodings"].(map[string]any), o["param_encodings"].(map[string]any)
	require.Len(t, activations, 4)
	require.Len(t, params, 2)
	require.Equal(t, []any{map[string]any{"bitwidth": 16., "dtype": "float"}}, activations["e"], "what stays float")
	require.Equal(t, activations["a"], activations["r"], "what the convolution and the Relu behind it compute has one grid")
	x := activations["x"].([]any)[0].(map[string]any)
	p := in.Set.Params(in.Set.Input(0, 0))
	scale, zero := float64(p.Scale[0]), float64(p.ZeroPoint[0])
	require.Equal(t, map[string]any{"bitwidth": 8., "dtype": "int", "is_symmetric": "False", "scale": scale, "offset": -zero,
		"min": -zero * scale, "max": (255 - zero) * scale}, x)
	w := params["w"].([]any)
	require.Len(t, w, 3)
	third := float64(in.Set.Params(in.Set.Input(0, 1)).Scale[2])
	one := w[2].(map[string]any)
	require.Equal(t, map[string]any{"bitwidth": 8., "dtype": "int", "is_symmetric": "True", "scale": third, "offset": -128.,
		"min": -128 * third, "max": 127 * third}, one)
	bias := params["b"].([]any)[2].(map[string]any)
	require.InEpsilon(t, scale*third, bias["scale"], 1e-7)
	require.Equal(t, 32., bias["bitwidth"])

	o = read(t, write(t, "1.0.0"))
	require.Equal(t, "1.0.0", o["version"])
	list := o["param_encodings"].([]any)
	require.Equal(t, map[string]any{"name": "w", "bw": 8., "dtype": "INT", "enc_type": "PER_CHANNEL", "is_sym": true,
		"scale": []any{w[0].(map[string]any)["scale"], w[1].(map[string]any)["scale"], third}, "offset": []any{-128., -128., -128.}}, list[0])
	last := o["activation_encodings"].([]any)[3]
	require.Equal(t, map[string]any{"name": "e", "bw": 16., "dtype": "FLOAT", "enc_type": "PER_TENSOR"}, last)

	o = read(t, write(t, "2.0.0"))
	list = o["encodings"].([]any)
	require.Len(t, list, 5, "what stays float has none")
	require.Equal(t, map[string]any{"name": "x", "output_dtype": "uint8", "y_scale": scale, "y_zero_point": zero}, list[0])
	require.Equal(t, map[string]any{"name": "w", "output_dtype": "int8", "axis": 0.,
		"y_scale": []any{w[0].(map[string]any)["scale"], w[1].(map[string]any)["scale"], third}}, list[1])
}

func write(t *testing.T, version string) string {
	f := encodings.Format()
	dir, _ := exporttest.Write(t, &f, exporttest.Input(t, &f, network, "qnn", map[string]string{"encodings": version}))
	return dir
}

func TestRefusals(t *testing.T) {
	f := encodings.Format()
	for want, change := range map[string]func(set *tqc.Set, c *tqc.Config){
		"is no integer":                     func(_ *tqc.Set, c *tqc.Config) { c.Type = 1 },
		"scales of groups":                  func(_ *tqc.Set, c *tqc.Config) { c.Policy = c.Policy&^tqc.PerChannel | tqc.PerGroup },
		"fewer than 4 bits":                 func(_ *tqc.Set, c *tqc.Config) { c.Bits = 3 },
		"the scale of \"w\" is computed at": func(_ *tqc.Set, c *tqc.Config) { c.Policy |= tqc.Dynamic },
	} {
		in := exporttest.Input(t, &f, network, "qnn", map[string]string{"encodings": "0.6.1"})
		change(in.Set, &in.Set.Slot(in.Set.Input(0, 1)).Config)
		_, err := exporttest.Try(&f, in, t.TempDir())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `"conv"`)
	}
	in := exporttest.Input(t, &f, `
input x: f32[1,4]
const w: f32[4,4] = normal(1)
const v: f32[4,4] = normal(2)
y = Gemm(x, w) "one"
z = Gemm(x, v) "two"
output y; output z`, "qnn", nil)
	in.Set.Slot(in.Set.Input(1, 0)).Config.QMax = 127
	_, err := exporttest.Try(&f, in, t.TempDir())
	require.ErrorContains(t, err, "is quantized in two ways")
}

func TestDoctor(t *testing.T) {
	f := encodings.Format()
	in := func(version string) map[string]string { return map[string]string{"encodings": version} }
	text := func(old, new string) func(testing.TB, string) { return exporttest.Replace("m.encodings", old, new) }
	old, list, linear := in("0.6.1"), in("1.0.0"), in("2.0.0")
	exporttest.Doctor(t, &f, network, "qnn", []exporttest.Fault{
		{Rule: "version", Options: old, Plant: text(`"0.6.1"`, `"0.7"`)},
		{Rule: "once", Options: list, Plant: text(`"name": "r"`, `"name": "a"`)},
		{Rule: "once", Options: old, Plant: text(`"e": [`, `"x": [`)},
		{Rule: "known", Options: old, Plant: text(`"r": [`, `"r:0": [`)},
		{Rule: "complete", Options: old, Plant: text(`"r": [`, `"r:0": [`)},
		{Rule: "complete", Options: linear, Plant: text(`"name": "x"`, `"name": "y"`)},
		{Rule: "place", Options: list, Plant: text(`"name": "e"`, `"name": "w"`)},
		{Rule: "type", Options: old, Plant: text(`"is_symmetric": "False"`, `"is_symmetric": false`)},
		{Rule: "type", Options: list, Plant: text(`"bw": 16`, `"bw": 32`)},
		{Rule: "type", Options: linear, Plant: text(`"uint8"`, `"uint9000"`)},
		{Rule: "scale", Options: list, Plant: text("\"scale\": [\n    ", "\"scale\": [\n    -")},
		{Rule: "offset", Options: list, Plant: text("\"offset\": [\n    -", "\"offset\": [\n    ")},
		{Rule: "range", Options: old, Plant: text(`"max": `, `"max": 1`)},
		{Rule: "symmetric", Options: old, Plant: text(`"is_symmetric": "False"`, `"is_symmetric": "True"`)},
		{Rule: "channels", Options: linear, Plant: text(`"axis": 0`, `"axis": 1`)},
		{Rule: "bias", Options: linear, Plant: text(`"y_scale": 0.`, `"y_scale": 1.`)},
		{Rule: "grid", Options: linear, Plant: exporttest.EditModel(func(t testing.TB, g *graph.Graph) {
			v, ok := g.Lookup("w")
			require.True(t, ok)
			g.Const(v).F32()[4] -= 0.5
		})},
	})
}

// A bias that two operators read has a scale for each: the second reads a copy.
func TestSharedBias(t *testing.T) {
	f := encodings.Format()
	dir, _ := exporttest.Write(t, &f, exporttest.Input(t, &f, `
input x: f32[1,4]
const w: f32[4,3] = normal(1)
const v: f32[4,3] = normal(2)
const b: f32[3] = [0.5, 0, -1]
y = Gemm(x, w, b) "one"
z = Gemm(x, v, b) "two"
u = Gemm(x, v, b) "three"
output y; output z; output u`, "qnn", map[string]string{"encodings": "0.6.1"}))
	params := read(t, dir)["param_encodings"].(map[string]any)
	require.Len(t, params, 4)
	require.NotEqual(t, params["b"], params["b_2"])
	m, _, err := onnx.Open(filepath.Join(dir, "m.onnx"))
	require.NoError(t, err)
	defer m.Close()
	for node, want := range map[string]string{"one": "b", "two": "b_2", "three": "b_2"} {
		id, ok := m.Graph.LookupNode(node)
		require.True(t, ok)
		require.Equal(t, want, m.Graph.Value(m.Graph.Node(id).Input(2)).Name)
	}
}
