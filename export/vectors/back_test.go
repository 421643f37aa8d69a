package vectors_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export"
	"qwb/export/vectors"
	"qwb/internal/exporttest"
	"qwb/quantizer/tqc"
)

// readBack repeats a convolution with its activation.
const readBack = `
input x: f32[1,4,4,4]
const w: f32[4,4,1,1] = normal(seed=1, std=0.5)
const v: f32[4,4,1,1] = normal(seed=5, std=0.5)
const b: f32[4] = normal(2)
const m: f32[4,3] = normal(seed=4, std=0.3)
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
c = Conv(r, v, b) "conv2"
s = Relu(c) "relu2"
t = Sigmoid(s) "sigmoid"
p = GlobalAveragePool(t) "pool"
f = Flatten(p) "flat"
y = MatMul(f, m) "product"
output y
`

// changed changes the last byte of a file, or, of text, the last digit.
func changed(file string) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		list, err := filepath.Glob(filepath.Join(dir, file))
		require.NoError(t, err)
		require.NotEmpty(t, list, file)
		path := list[0]
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		k := len(b) - 1
		if b[k] == '\n' {
			k--
		}
		b[k] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

// withArrays is a format whose input writes arrays.
func withArrays(f export.Format) *export.Format {
	write := f.Write
	f.Write = func(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
		in.Array = npy.Write
		return write(ctx, in, out)
	}
	return &f
}

// What is written is read back as it is; a number of each kind that is another is found.
func TestDamagedFilesAreFound(t *testing.T) {
	list := vectors.Formats()
	whole, parts := withArrays(list[0]), withArrays(list[1])
	for _, platform := range []string{"onnxruntime", "tflite_int8", "pow2_int8", "trt_int8"} {
		b := exporttest.Equal(t, whole, exporttest.Input(t, whole, readBack, platform, nil))
		require.Greater(t, b.Compared, int64(50), platform)
	}
	faults := func(program, tensor, weights string) []exporttest.Damaged {
		return []exporttest.Damaged{
			{What: "a scale", Plant: exporttest.Nudged(program, `"scale":`)},
			{What: "a limit of codes", Plant: exporttest.Nudged(program, `"qmin":`)},
			{What: "a limit", Plant: exporttest.Nudged(program, `"lo":`)},
			{What: "a tensor", Plant: changed(tensor)},
			{What: "a weight", Plant: changed(weights + "/weights.npy")},
			{What: "a weight as hex", Plant: changed(weights + "/weights.hex")},
			{What: "a bias", Plant: changed(weights + "/bias.npy")},
			{What: "a multiplier", Plant: changed(weights + "/multiplier_0.hex")},
		}
	}
	exporttest.ReadBack(t, whole, readBack, "tflite_int8", faults("program.json", "tensors/1.npy", "steps/1"))
	exporttest.ReadBack(t, whole, readBack, "tflite_int8", []exporttest.Damaged{
		{What: "a zero point of a step", Plant: exporttest.Nudged("program.json", `"input_zero_point":`)},
		{What: "a window", Plant: exporttest.Nudged("program.json", `"Kernel": [`)},
		{What: "a multiplier of a mean", Plant: exporttest.Nudged("program.json", `"M": {`)},
		{What: "a function", Plant: exporttest.Replace("program.json", `"function": "Sigmoid"`, `"function": "Tanh"`)},
		{What: "the kind of a step", Plant: exporttest.Replace("program.json", `"kind": "average"`, `"kind": "max_pool"`)},
		{What: "what a step reads", Plant: exporttest.Nudged("program.json", `"inputs": [
    1`)},
	})
	repeated := exporttest.Input(t, parts, readBack, "tflite_int8", nil)
	exporttest.Equal(t, parts, repeated)
	found, _ := vectors.Repeated(repeated.Program)
	require.NotEmpty(t, found)
	exporttest.ReadBack(t, parts, readBack, "tflite_int8", []exporttest.Damaged{
		{What: "a tensor of a pattern", Plant: changed("*/tensors/1.npy")},
		{What: "a weight of a pattern", Plant: changed("*/steps/*/weights.npy")},
	})
}
