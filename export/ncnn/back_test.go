package ncnn

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/exporttest"
)

const damageable = `
input x: f32[1,2,6,6]
const w: f32[4,2,3,3] = normal(seed=1, std=0.3)
const b: f32[4] = [1, -2, 0.5, 0.25]
const lo: f32[] = 0
const hi: f32[] = 0.75
const m: f32[64,3] = normal(seed=3, std=0.3)
c = Conv(x, w, b) "first"
r = Clip(c, lo, hi) "act"
f = Flatten(r) "flat"
y = Gemm(f, m) "fc"
output y
`

// edited returns a Plant that changes the weights of the first layer of integers: its arrays are read as the file has them.
func edited(layer string, change func(l *layer)) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "m.param"))
		require.NoError(t, err)
		bin, err := os.ReadFile(filepath.Join(dir, "m.bin"))
		require.NoError(t, err)
		quiet := func(string, string, string, ...any) {}
		n, err := parse(text, quiet)
		require.NoError(t, err)
		n.load(bin, quiet)
		for i := range n.layers {
			if n.layers[i].name == layer {
				change(&n.layers[i])
			}
		}
		var p, w bytes.Buffer
		require.NoError(t, n.writeParam(&p))
		require.NoError(t, n.writeBin(&w))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "m.param"), p.Bytes(), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "m.bin"), w.Bytes(), 0o600))
	}
}

func TestDamagedFilesAreFound(t *testing.T) {
	f := Formats()[0]
	lower := func(l *layer) {
		for i, q := range l.weights[0].codes {
			if q > 3 {
				l.weights[0].codes[i] -= 2
				return
			}
		}
	}
	exporttest.ReadBack(t, &f, damageable, "ncnn_int8", []exporttest.Damaged{
		{What: "a code of a convolution", Plant: edited("first", lower)},
		{What: "a code of a product", Plant: edited("fc", lower)},
		{What: "a bias", Plant: edited("first", func(l *layer) { l.weights[1].floats[2] *= 1.0001 })},
		{What: "a scale of a weight", Plant: edited("first", func(l *layer) { l.weights[2].floats[1] *= 1.0001 })},
		{What: "a scale of an input", Plant: edited("first", func(l *layer) { l.weights[3].floats[0] *= 1.0001 })},
		{What: "a limit", Plant: edited("first", func(l *layer) { l.set(keyActivation+1, []float32{0, 0.8}) })},
	})
}

func TestDamagedTablesAreFound(t *testing.T) {
	f := Formats()[1]
	longer := func(k, i int) func(l *layer) { return func(l *layer) { l.weights[k].floats[i] *= 1.0001 } }
	exporttest.ReadBack(t, &f, damageable, "ncnn_int8", []exporttest.Damaged{
		{What: "a weight of a convolution", Plant: edited("first", longer(0, 5))},
		{What: "a weight of a product", Plant: edited("fc", longer(0, 7))},
		{What: "a bias", Plant: edited("first", longer(1, 2))},
		{What: "a limit", Plant: edited("first", func(l *layer) { l.set(keyActivation+1, []float32{0, 0.8}) })},
		{What: "a scale of a weight", Plant: exporttest.Nudged("m.table", "first_param_0 ")},
		{What: "a scale of a product", Plant: exporttest.Nudged("m.table", "fc_param_0 ")},
		{What: "a scale of an input", Plant: exporttest.Nudged("m.table", "\nfirst ")},
		{What: "a line that is missing", Plant: exporttest.Replace("m.table", "\nfc ", "\n#fc ")},
		{What: "both lines that are missing", Plant: func(t testing.TB, dir string) {
			exporttest.Replace("m.table", "\nfc ", "\n#fc ")(t, dir)
			exporttest.Replace("m.table", "fc_param_0", "#")(t, dir)
		}},
	})
	exporttest.Equal(t, &f, exporttest.Input(t, &f, damageable, "ncnn_int8", nil))
}
