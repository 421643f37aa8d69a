package cprogram_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram"
	"qwb/internal/exporttest"
)

// steps has a step of every type whose numbers stand in the code.
const steps = `
input x: f32[1,2,6,6]
input k: f32[1,4,6,6]
input mask: bool[1,4,6,6]
const w: f32[4,2,3,3] = normal(seed=1, std=0.4)
const b: f32[4] = normal(2)
const half: f32[1,4,1,1] = normal(3)
const m: f32[4,3] = normal(seed=4, std=0.3)
a = Conv(x, w, b) {pads=[1,1,1,1]} "conv"
s = Add(a, k) "sum"
c = Concat(s, k) {axis=1} "join"
v = AveragePool(c) {kernel_shape=[2,2], pads=[1,1,0,0]} "average"
p = MaxPool(v) {kernel_shape=[3,3], strides=[2,2]} "max"
d = Mul(s, half) "scaled"
e = Sigmoid(d) "sigmoid"
z = Where(mask, e, s) "choice"
g = GlobalAveragePool(z) "mean"
f = Flatten(g) "flat"
y = MatMul(f, m) "product"
q = Softmax(y) {axis=-1} "softmax"
output p
output q
`

// Every number in the code of steps is compared, but of how elements lie and of products' shapes: one at a time is made another.
func TestNumbersInTheCode(t *testing.T) {
	structs := regexp.MustCompile(`(?m)^        (?:static )?const struct (\w+) .*$|` +
		`^        (?:lines|conv|matmul|max_pool|average)_\w*\(.*\);$`)
	number := regexp.MustCompile(`-?\b0x1\.?[0-9a-f]*p[-+][0-9]+f|-?\b[0-9]+(\.0f)?\b`)
	seen := map[string]bool{}
	for _, platform := range []string{"onnxruntime", "tflite_int8", "pow2_int8", "trt_int8", "qnn", "tflite_16x8"} {
		f := cprogram.Format()
		in := exporttest.Input(t, &f, steps, platform, nil)
		out := f.NewOutput(filepath.Join(t.TempDir(), "m.c"), nil)
		defer out.Discard()
		_, err := f.Write(context.Background(), in, out)
		require.NoError(t, err)
		b, err := f.Equal(context.Background(), in, out)
		require.NoError(t, err, platform)
		require.Positive(t, b.Compared)
		file := filepath.Join(out.Folder(), "m.c")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(raw)
		tried := 0
		for _, at := range structs.FindAllStringSubmatchIndex(text, -1) {
			line, name := text[at[0]:at[1]], "a call"
			if at[2] >= 0 {
				name = text[at[2]:at[3]]
			}
			if strings.HasSuffix(name, "output") {
				continue
			}
			list := number.FindAllStringIndex(line, -1)
			if name == "a call" {
				list = list[:min(len(list), 1)] // the others are counts
			}
			if seen[line] || len(list) == 0 {
				continue
			}
			seen[line] = true
			n := list[tried%len(list)]
			tried++
			old := line[n[0]:n[1]]
			other := "77"
			if x, err := strconv.Atoi(old); err == nil {
				other = strconv.Itoa(x + 1)
			}
			require.NoError(t, os.WriteFile(file, []byte(text[:at[0]+n[0]]+other+text[at[0]+n[1]:]), 0o600))
			_, err := f.Equal(context.Background(), in, out)
			require.Error(t, err, "%s: %s instead of %s in %s", platform, other, old, line)
		}
		require.Greater(t, tried, 2, platform)
	}
}
