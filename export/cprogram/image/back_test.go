package image_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram/image"
	"qwb/internal/exporttest"
)

const readBack = `
input x: f32[1,2,4,4]
const w: f32[4,2,1,1] = normal(seed=1, std=0.5)
const b: f32[4] = normal(2)
const m: f32[4,3] = normal(seed=4, std=0.3)
a = Conv(x, w, b) "conv"
r = Relu(a) "relu"
t = Sigmoid(r) "sigmoid"
p = GlobalAveragePool(t) "pool"
f = Flatten(p) "flat"
y = MatMul(f, m) "product"
output y
`

// byteOf changes the first byte behind the n-th address of a file.
func byteOf(file string, n int) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		path := filepath.Join(dir, file)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		at := regexp.MustCompile(`@[0-9a-f]+\n`).FindAllIndex(b, -1)
		require.Greater(t, len(at), n)
		k := at[n][1] + 1
		b[k] = map[bool]byte{true: '1', false: '0'}[b[k] == '0']
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

// What is written is read back as it is; a byte of a constant, of what a step reads or makes, an address and a scale that are others are
// found.
func TestDamagedFilesAreFound(t *testing.T) {
	f := image.Format()
	for _, platform := range []string{"onnxruntime", "tflite_int8", "pow2_int8", "trt_int8"} {
		b := exporttest.Equal(t, &f, exporttest.Input(t, &f, readBack, platform, nil))
		require.Greater(t, b.Compared, int64(100), platform)
	}
	exporttest.ReadBack(t, &f, readBack, "tflite_int8", []exporttest.Damaged{
		{What: "a byte of the constants", Plant: byteOf("image.hex", 0)},
		{What: "a byte that is read", Plant: byteOf("steps/0001.before.hex", 0)},
		{What: "a byte that is made", Plant: byteOf("steps/0002.after.hex", 0)},
		{What: "an address", Plant: exporttest.Nudged("memory.json", `"constants": [
    {
     "name": "step1_1: multipliers by channel",
     "address":`)},
		{What: "a scale", Plant: exporttest.Nudged("memory.json", `"scale":`)},
		{What: "a zero point", Plant: exporttest.Nudged("memory.json", `"zero_point":`)},
	})
}
