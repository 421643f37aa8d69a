package cprogram_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram"
	"qwb/internal/exporttest"
)

// readBack has weights, a bias, limits, a constant that is added, a function of codes, a pool and a product that ends in real numbers.
const readBack = `
input x: f32[1,2,4,4]
const w: f32[4,2,1,1] = normal(seed=1, std=0.5)
const b: f32[4] = normal(2)
const add: f32[1,4,1,1] = normal(3)
const m: f32[4,3] = normal(seed=4, std=0.3)
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
s = Add(r, add) "sum"
t = Sigmoid(s) "sigmoid"
p = GlobalAveragePool(t) "pool"
f = Flatten(p) "flat"
y = MatMul(f, m) "product"
output y
`

// What is written is read back as it is, on targets of every kind of arithmetic; a number of each kind that is another is found.
func TestDamagedFilesAreFound(t *testing.T) {
	f := cprogram.Format()
	for _, platform := range []string{"onnxruntime", "tflite_int8", "pow2_int8", "trt_int8", "ncnn_int8", "tflite_16x8", "qnn", "espdl_int8"} {
		in := exporttest.Input(t, &f, readBack, platform, nil)
		b := exporttest.Equal(t, &f, in)
		require.Greater(t, b.Compared, int64(30), platform)
	}
	exporttest.ReadBack(t, &f, readBack, "tflite_int8", []exporttest.Damaged{
		{What: "a weight", Plant: exporttest.Nudged("m.c", "weights i8[4,2,1,1] */\nstatic const int8_t step1_2[8] = {")},
		{What: "a bias", Plant: exporttest.Nudged("m.c", "biases */\nstatic const int32_t step1_3[4] = {")},
		{What: "a multiplier", Plant: exporttest.Nudged("m.c", "multipliers by channel */\nstatic const struct multiplier step1_1[4] = {")},
		{What: "a table", Plant: exporttest.Nudged("m.c", "[256] = {")},
		{What: "a scale of an input", Plant: exporttest.Replace("m.c", "_INPUT_0_SCALE 0x1.", "_INPUT_0_SCALE 0x1.1"),
			Options: map[string]string{"inputs": "integers"}},
		{What: "a zero point of an output", Plant: exporttest.Nudged("m.c", "_OUTPUT_0_ZERO_POINT "),
			Options: map[string]string{"outputs": "integers"}},
		{What: "a limit", Plant: exporttest.Replace("m.c", ", 127};", ", 126};")},
	})
	exporttest.ReadBack(t, &f, readBack, "onnxruntime", []exporttest.Damaged{
		{What: "a factor", Plant: exporttest.Replace("m.c", "= {\n    {0x1.", "= {\n    {0x1.1")},
	})
}
