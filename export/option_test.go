package export_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
)

var sample = export.Format{Name: "sample", From: export.Program, Options: []export.Option{
	{Name: "batch", Kind: export.Whole, Min: 1, Default: "1"},
	{Name: "group", Kind: export.Whole},
	{Name: "weights", Kind: export.Choice, Choices: []string{"int8", "int4"}},
	{Name: "size", Kind: export.Sizes, Min: 1},
	{Name: "title", Kind: export.Text},
}}

func TestOptions(t *testing.T) {
	v, err := sample.Resolve(nil)
	require.NoError(t, err)
	require.Equal(t, export.Values{"batch": int64(1), "group": int64(0), "weights": "int8", "size": map[string]int64{}, "title": "",
		"profile": ""}, v)
	v, err = sample.Resolve(map[string]string{"batch": "4", "weights": "int4", "size": "H=96,W=64", "title": "a b", "profile": "ort"})
	require.NoError(t, err)
	require.Equal(t, int64(4), v.Whole("batch"))
	require.Equal(t, "int4", v.Text("weights"))
	require.Equal(t, map[string]int64{"H": 96, "W": 64}, v.Sizes("size"))
	require.Equal(t, "ort", v.Text("profile"))
	require.Zero(t, v.Whole("weights"), "of another kind")
	for _, c := range []struct{ name, text, want string }{
		{"batch", "0", "format sample: --batch 0: at least 1"},
		{"batch", "x", "format sample: --batch x: not a whole number"},
		{"group", "-1", "format sample: --group -1: must be 0 or more"},
		{"weights", "int2", "format sample: --weights int2: one of int8, int4"},
		{"weights", "", "format sample: --weights : one of int8, int4"},
		{"size", "H", `format sample: --size H: "H" is not NAME=SIZE`},
		{"size", "H=0", "format sample: --size H=0: H is at least 1"},
		{"profile", "gpu", "--profile gpu: one of tflite2"},
		{"scales", "mse", "--scales is not for format sample of a program, only --batch, --group, --weights, --size, --title, --profile"},
	} {
		_, err := sample.Resolve(map[string]string{c.name: c.text})
		require.ErrorContains(t, err, c.want)
	}
	none := export.Format{Name: "none", From: export.Plan}
	_, err = none.Resolve(map[string]string{"batch": "1"})
	require.EqualError(t, err, "--batch is not for format none of a plan, which has no options")
}

func TestFormatsAreFoundByPlatform(t *testing.T) {
	formats := []export.Format{{Name: "onnx", From: export.Plan}, {Name: "c", From: export.Program},
		{Name: "tflite", From: export.Plan, Targets: []string{"tflite_int8"}},
		{Name: "onnx", From: export.Checkpoint}, {Name: "gguf", From: export.Checkpoint}}
	for _, c := range []struct{ platform, name, want string }{
		{"trt_int8", "", "onnx"}, {"tflite_int8", "", "tflite"}, {"tflite_int8", "onnx", "onnx"}, {"trt_int8", "c", "c"},
		{"", "tflite", "tflite"},
	} {
		f, err := export.ForPlatform(formats, c.platform, c.name)
		require.NoError(t, err)
		require.Equal(t, c.want, f.Name)
		require.NotEqual(t, export.Checkpoint, f.From)
	}
	_, err := export.ForPlatform(formats, "trt_int8", "tflite")
	require.EqualError(t, err, `unknown format "tflite" of plans for trt_int8: one of onnx, c`)
	_, err = export.ForPlatform(formats[2:], "trt_int8", "")
	require.EqualError(t, err, `no format holds plans for trt_int8`)
	f, err := export.ForCheckpoint(formats, "")
	require.NoError(t, err)
	require.Equal(t, export.Checkpoint, f.From)
	_, err = export.ForCheckpoint(formats, "c")
	require.EqualError(t, err, `unknown format "c" of checkpoints: one of onnx, gguf`)
}
