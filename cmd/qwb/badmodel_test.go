package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
)

// readers are the commands that read a model, with what they need beside it; the model is m.onnx.
var readers = [][]string{
	{"inspect", "m.onnx"},
	{"preprocess", "m.onnx", "--data", "data", "--dump", "dump"},
	{"calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8"},
	{"eval", "m.onnx", "--data", "data"},
	{"run", "m.onnx", "--input", "x=data/00.npy", "--output", "out"},
}

func TestModelThatIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T)
		want    string
	}{
		"missing":   {func(t *testing.T) { require.NoError(t, os.Remove("m.onnx")) }, `m\.onnx: no such file`},
		"empty":     {func(t *testing.T) { write(t, "m.onnx", nil) }, `load: m\.onnx: .*empty`},
		"junk":      {func(t *testing.T) { write(t, "m.onnx", []byte(strings.Repeat("not a model\n", 99))) }, `load: m\.onnx: `},
		"zeros":     {func(t *testing.T) { write(t, "m.onnx", make([]byte, 4096)) }, `load: m\.onnx: `},
		"a picture": {func(t *testing.T) { write(t, "m.onnx", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")) }, `load: m\.onnx: `},
		"a folder": {func(t *testing.T) {
			require.NoError(t, os.Remove("m.onnx"))
			require.NoError(t, os.Mkdir("m.onnx", 0o755))
		}, `load: m\.onnx: not a regular file`},
		"external data missing": {func(t *testing.T) {
			require.NoError(t, os.Mkdir("split", 0o755))
			large := graphtest.Parse(t, network)
			require.NoError(t, (&onnx.Model{Graph: large}).Save("split/m.onnx", onnx.SaveOptions{ExternalAbove: 1}))
			require.NoError(t, os.Rename("split/m.onnx", "m.onnx"))
		}, `load: m\.onnx: .*"w1".*m\.onnx\.data`},
	} {
		t.Run(name, func(t *testing.T) {
			workplace(t)
			c.prepare(t)
			for _, args := range readers {
				fails(t, exitFailed, c.want, args...)
			}
		})
	}
}

func TestExternalDataTooShort(t *testing.T) {
	workplace(t)
	large := graphtest.Parse(t, network)
	require.NoError(t, (&onnx.Model{Graph: large}).Save("m.onnx", onnx.SaveOptions{ExternalAbove: 1}))
	require.NoError(t, os.Truncate("m.onnx.data", 1000))
	fails(t, exitFailed, `load: m\.onnx: .*"w1".*m\.onnx\.data`, "inspect", "m.onnx")
}

// A file that is cut off anywhere is refused; only at a border between fields of the outermost message may what is left be a
// model again.
func TestModelCutOff(t *testing.T) {
	workplace(t)
	whole := read(t, "m.onnx")
	refused := 0
	for n := 0; n < len(whole); n += 1 + n/40 {
		write(t, "m.onnx", whole[:n])
		before := tree(t, ".")
		r := invoke("calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8")
		if r.code == exitDone {
			require.NoError(t, os.Remove("m.plan.json"))
			require.NoError(t, os.Remove("m.stats"))
		} else {
			refused++
			require.Equalf(t, exitFailed, r.code, "%d of %d bytes", n, len(whole))
			require.Contains(t, r.lastLine(), "m.onnx", "%d of %d bytes", n, len(whole))
		}
		require.Equalf(t, before, tree(t, "."), "%d of %d bytes", n, len(whole))
	}
	require.Greater(t, refused, 100)
}

// A damaged file may still be a model. It never makes a command panic, and a failure leaves nothing behind.
func TestModelMutated(t *testing.T) {
	workplace(t)
	whole := read(t, "m.onnx")
	runs := 250
	if !longtest.Wanted(t) {
		runs = 60
	}
	codes := map[int]int{}
	for seed := range uint64(runs) {
		write(t, "m.onnx", flip(whole, seed, 1+int(seed%7)))
		args := readers[seed%uint64(len(readers))]
		before := tree(t, ".")
		r := invoke(args...)
		codes[r.code]++
		require.Containsf(t, []int{exitDone, exitFailed}, r.code, "seed %d: qwb %s: %s", seed, strings.Join(args, " "), r.stderr)
		if r.code == exitFailed {
			require.Regexpf(t, `^qwb: \S`, r.lastLine(), "seed %d", seed)
			require.Equalf(t, before, tree(t, "."), "seed %d: qwb %s", seed, strings.Join(args, " "))
		}
		for _, left := range []string{"dump", "out", "m.plan.json", "m.plan.json.bak", "m.stats"} {
			require.NoError(t, os.RemoveAll(left))
		}
	}
	require.Greater(t, codes[exitFailed], runs/10, "mutations that nobody notices are no test")
	require.Greater(t, codes[exitDone], runs/10)
}

const unknownOperators = `
opset 17
opset "com.acme" 3
input x: f32[1,3,8,8]
a = Relu(x) "first"
b = com.acme::Warp(a) "warp"
c = Frobnicate(b) "frob"
d = com.acme::Warp(c) "warp again"
output d: f32[1,3,8,8]
`

// Operators that qwb does not know are listed by inspect; what has to run them names all of them at once.
func TestUnknownOperators(t *testing.T) {
	workplace(t)
	saveModel(t, "m.onnx", unknownOperators)
	o := done(t, "inspect", "m.onnx", "--json").object(t)
	require.Len(t, o["unsupported"], 2)
	require.Regexp(t, `Warp`, done(t, "inspect", "m.onnx").stdout)
	for _, args := range readers[2:] {
		if args[0] == "eval" {
			args = append(args, "--labels", "labels.tsv")
			write(t, "labels.tsv", []byte("00.npy\t1\n01.npy\t1\n02.npy\t1\n03.npy\t1\n"))
		}
		r := fails(t, exitFailed, `^qwb: `+args[0]+`: m\.onnx: graph cannot be executed: `, args...)
		for _, want := range []string{`"?warp"?`, `Warp \(com\.acme 3`, `"?frob"?`, `Frobnicate \(ai\.onnx 17`, `"?warp again"?`} {
			require.Regexp(t, want, r.lastLine())
		}
	}
}

func TestModelThatCannotRun(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"channels do not agree": {strings.Replace(network, "w2: f32[16,16,3,3]", "w2: f32[16,5,3,3]", 1), `conv2.*Conv`},
		"shapes do not broadcast": {`
opset 17
input x: f32[1,3,8,8]
const k: f32[5] = normal()
y = Add(x, k) "sum"
output y: f32[1,3,8,8]`, `sum.*Add.*f32\[1,3,8,8\].*f32\[5\]`},
		"no inputs": {`
opset 17
const k: f32[5] = normal()
y = Relu(k) "act"
output y: f32[5]`, `input`},
	} {
		t.Run(name, func(t *testing.T) {
			workplace(t)
			saveModel(t, "m.onnx", c.text)
			fails(t, exitFailed, c.want, readers[2]...)
		})
	}
}

// A weight that is not a number is an error that names its node, in calibrate and nowhere a wrong number.
func TestWeightsNotFinite(t *testing.T) {
	for name, bad := range map[string]float64{"NaN": math.NaN(), "Inf": math.Inf(1), "-Inf": math.Inf(-1)} {
		t.Run(name, func(t *testing.T) {
			workplace(t)
			g := graphtest.Parse(t, network)
			v, ok := g.Lookup("w2")
			require.True(t, ok)
			w := tensor.New(tensor.Float32, 16, 16, 3, 3)
			w.F32()[7] = float32(bad)
			g.SetConst(v, w)
			require.NoError(t, (&onnx.Model{Graph: g}).Save("m.onnx", onnx.SaveOptions{}))
			fails(t, exitFailed, `conv2.*w2|w2.*conv2`, readers[2]...)
		})
	}
}

func TestFolderNames(t *testing.T) {
	workplace(t)
	odd := filepath.Join("a folder", "ünïcode & co.onnx")
	require.NoError(t, os.Mkdir("a folder", 0o755))
	require.NoError(t, os.Rename("m.onnx", odd))
	done(t, "calibrate", odd, "--data", "data", "--platform", "onnxruntime")
	done(t, "export", "ünïcode & co.plan.json", "--platform", "onnxruntime", "-o", "out.onnx")
	require.FileExists(t, "out.onnx")
}
