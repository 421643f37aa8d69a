package sidecar_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/sidecar"
	"qwb/graph"
	"qwb/internal/exporttest"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

var update = flag.Bool("update", false, "write the golden files")

const network = `
input x: f32[1,2,4,4]
const w: f32[3,2,1,1] = [1, -2, 0.5, 0.25, 127, 3]
const b: f32[3] = [0.5, -1, 2]
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
p = AveragePool(r) {kernel_shape=[2,2]} "pool"
e = Exp(p) "exp"
output e
`

// platform is one that a format is for.
func platform(f *export.Format) string {
	if len(f.Targets) == 0 {
		return "onnxruntime"
	}
	return f.Targets[len(f.Targets)-1]
}

func format(t testing.TB, name string) *export.Format {
	list := sidecar.Formats()
	i := slices.IndexFunc(list, func(f export.Format) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return &list[i]
}

// Each format writes what stands in testdata: what PPQ's exporter of the same name writes for such a graph, as its source says.
func TestGolden(t *testing.T) {
	for _, f := range sidecar.Formats() {
		t.Run(f.Name, func(t *testing.T) {
			dir, names := exporttest.Write(t, &f, exporttest.Input(t, &f, network, platform(&f), nil))
			require.Equal(t, "m.onnx", names[0])
			require.Greater(t, len(names), 1)
			for _, name := range names[1:] {
				got, err := os.ReadFile(filepath.Join(dir, name))
				require.NoError(t, err)
				golden := filepath.Join("testdata", f.Name+name[1:])
				if *update {
					require.NoError(t, os.MkdirAll("testdata", 0o755))
					require.NoError(t, os.WriteFile(golden, got, 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		format, want string
		change       func(c *tqc.Config)
	}{
		{"snpe", "the file holds 8-bit integers", func(c *tqc.Config) { c.Bits = 4 }},
		{"rknn", "the file holds 8-bit integers", func(c *tqc.Config) { c.Type = 1 }},
		{"ppl-cuda", "scales of groups", func(c *tqc.Config) { c.Policy = c.Policy&^tqc.PerChannel | tqc.PerGroup }},
		{"tengine", "scales per channel", func(c *tqc.Config) { c.Policy = c.Policy&^tqc.PerTensor | tqc.PerChannel }},
		{"ppq-json", "scales of groups", func(c *tqc.Config) { c.Policy = c.Policy&^tqc.PerChannel | tqc.PerGroup }},
	} {
		f := format(t, c.format)
		in := exporttest.Input(t, f, network, platform(f), nil)
		c.change(&in.Set.Slot(in.Set.Input(0, 1)).Config)
		_, err := exporttest.Try(f, in, t.TempDir())
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, `"conv"`)
	}
	f := format(t, "tengine")
	_, err := exporttest.Try(f, exporttest.Input(t, f, "input x: f32[1,4]\nconst \"a b\": f32[4,4] = normal(1)\n"+
		"y = Gemm(x, \"a b\") \"gemm\"\noutput y", "tengine_int8", nil), t.TempDir())
	require.ErrorContains(t, err, "has a blank")
	f = format(t, "ascend")
	_, err = exporttest.Try(f, exporttest.Input(t, f,
		"input x: f32[1,2,9]\nconst w: f32[2,2,3] = normal(1)\ny = Conv(x, w) \"conv\"\noutput y", "ascend_int8", nil), t.TempDir())
	require.ErrorContains(t, err, "a record has channels, height and width")
}

// grid moves a weight off its grid.
var grid = exporttest.EditModel(func(t testing.TB, g *graph.Graph) {
	v, ok := g.Lookup("w")
	require.True(t, ok)
	g.Const(v).F32()[4] *= 0.997
})

// text replaces something in the file beside the model.
func text(file, old, new string) func(testing.TB, string) { return exporttest.Replace(file, old, new) }

// Of each format, every rule finds what is planted for it.
func TestDoctors(t *testing.T) {
	type fault = exporttest.Fault
	const cfg, dsp = "m.quantization.cfg", "m.prototxt"
	for name, faults := range map[string][]fault{
		"snpe": {
			{Rule: "once", Plant: text("m.json", `"r": {`, `"a": {`)}, {Rule: "known", Plant: text("m.json", `"r": {`, `"r0": {`)},
			{Rule: "complete", Plant: text("m.json", `"x": {`, `"p": {`)},
			{Rule: "scale", Plant: text("m.json", `"tensor_max": 2`, `"tensor_max": -2`)},
			{Rule: "offset", Plant: text("m.json", `"tensor_min": -1.5`, `"tensor_min": -1.6`)},
			{Rule: "channels", Plant: text("m.json", `"tensor_min": 0`, `"tensor_min": [0, 0], "tensor_max": [1, 1], "_": 0`)},
			{Rule: "type", Plant: text("m.json", `"tensor_min": 0`, `"tensor_min": [0, 0]`)},
		},
		"ppl-cuda": {
			{Rule: "once", Plant: text("m.json", `"r": {`, `"a": {`)}, {Rule: "known", Plant: text("m.json", `"r": {`, `"r0": {`)},
			{Rule: "complete", Plant: text("m.json", `"x": {`, `"p": {`)}, {Rule: "scale", Plant: text("m.json", `"scale": 0`, `"scale": -0`)},
			{Rule: "offset", Plant: text("m.json", `"zero_point": 0`, `"zero_point": 200`)},
			{Rule: "range", Plant: text("m.json", `"tensor_min": -2`, `"tensor_min": -3`)},
			{Rule: "channels", Plant: text("m.json", `"zero_point": 0`, `"zero_point": []`)},
			{Rule: "type", Plant: text("m.json", `"bit_width": 8`, `"bit_width": 7`)},
		},
		"ppl-dsp": {
			{Rule: "once", Plant: text(dsp, `top: "r"`, `top: "a"`)}, {Rule: "known", Plant: text(dsp, `top: "r"`, `top: "r0"`)},
			{Rule: "complete", Plant: text(dsp, `bottom: "x"`, `bottom: "p"`)}, {Rule: "scale", Plant: text(dsp, `range_max: 2`, `range_max: -20`)},
			{Rule: "offset", Plant: text(dsp, `range_min: -2.39`, `range_min: -2.35`)},
			{Rule: "channels", Plant: text(dsp, "    perchannel_quantize_param {\n      type: \"filter\"\n      range_min: -0.4031496047973633\n"+
				"      range_max: 0.3999999985098839\n    }\n", "")},
		},
		"tengine": {
			{Rule: "once", Plant: text("m.scale", "r ", "a ")}, {Rule: "known", Plant: text("m.scale", "r ", "r0 ")},
			{Rule: "complete", Plant: text("m.scale", "x ", "p ")}, {Rule: "scale", Plant: text("m.scale", "x 0", "x -0")},
			{Rule: "offset", Plant: text("m.scale", " 99", " 990")}, {Rule: "type", Plant: text("m.scale", " 99", " 99 99")},
		},
		"ascend": {
			{Rule: "known", Plant: text("m.txt", `"pool"`, `"pool:0"`)}, {Rule: "scale", Plant: text("m.txt", "scale_d: 0", "scale_d: -0")},
			{Rule: "offset", Plant: text("m.txt", "offset_d: -29", "offset_d: -290")},
			{Rule: "channels", Plant: text("m.txt", "    scale_w: 0.012598425149917603\n", "")},
		},
		"rknn": {
			{Rule: "once", Plant: text(cfg, "    r:", "    a:")}, {Rule: "known", Plant: text(cfg, "    r:", "    r0:")},
			{Rule: "complete", Plant: text(cfg, "    x:", "    p:")}, {Rule: "scale", Plant: text(cfg, "scale: [0", "scale: [-0")},
			{Rule: "offset", Plant: text(cfg, "zero_point: [-29]", "zero_point: [-290]")},
			{Rule: "range", Plant: text(cfg, "min: [-1.5", "min: [-1.7")},
			{Rule: "channels", Plant: text(cfg, "zero_point: [-29]", "zero_point: []")},
			{Rule: "type", Plant: text(cfg, "dtype: int8", "dtype: int4")},
		},
		"ppq-json": {
			{Rule: "known", Plant: text("m.json", `"x": {`, `"y": {`)}, {Rule: "complete", Plant: text("m.json", `"x": {`, `"y": {`)},
			{Rule: "type", Plant: text("m.json", `"dominator": 1`, `"dominator": 100`)},
			{Rule: "type", Plant: text("m.json", `"state": "ACTIVATED"`, `"state": "AWAKE"`)},
			{Rule: "type", Plant: text("m.json", `"SYMMETRICAL": false`, `"SYMMETRICAL": true`)},
			{Rule: "scale", Plant: text("m.json", `"scale": 0`, `"scale": -0`)},
			{Rule: "offset", Plant: text("m.json", `"zero_point": 99`, `"zero_point": 990`)},
			{Rule: "channels", Plant: text("m.json", `"zero_point": 99`, `"zero_point": []`)},
			{Rule: "bias", Plant: text("m.json", `"scale": 0.01`, `"scale": 0.02`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := format(t, name)
			exporttest.Doctor(t, f, network, platform(f), append(faults, fault{Rule: "grid", Plant: grid}))
		})
	}
}

// Readers refuse what they cannot read, and do not panic.
func FuzzReaders(f *testing.F) {
	for _, b := range []string{"", "{", `{"a": 1}`, "record {", "key: x", "a 1", "quantize_parameters: [1]",
		"layer {\n  top: \"a\"\n  type: \"top\"\n  range_max: 1\n}", `{"quant_info": {"x": {"scale": [1], "zero_point": []}}}`} {
		f.Add([]byte(b))
	}
	formats := sidecar.Formats()
	dirs := make([]string, len(formats))
	for i := range formats {
		dirs[i], _ = exporttest.Write(f, &formats[i], exporttest.Input(f, &formats[i], network, platform(&formats[i]), nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := range formats {
			model, err := os.ReadFile(filepath.Join(dirs[i], "m.onnx"))
			require.NoError(t, err)
			beside := fstest.MapFS{"m.onnx": {Data: model}}
			for _, ext := range []string{".json", ".prototxt", ".scale", ".txt", ".quantization.cfg"} {
				beside["m"+ext] = &fstest.MapFile{Data: b}
			}
			_, _ = formats[i].Diagnose(context.Background(), &export.DoctorInput{FS: beside, Name: "m.onnx", Target: &target.ONNXRuntime})
		}
	})
}
