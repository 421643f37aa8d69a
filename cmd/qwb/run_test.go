package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
)

func array(t *testing.T, path string) []float32 {
	t.Helper()
	a, err := npy.Read(bytes.NewReader(read(t, path)))
	require.NoError(t, err)
	return a.F32()
}

// TestRunAll: every tensor of a run is written, and verify takes what the simulation and the integer program computed as a recording that
// holds under the profile; of a run in float nothing is an integer but what is read.
func TestRunAll(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	for mode, verdicts := range map[string][]string{"int8": {"equal", "ties"}, "sim": {"equal", "ties", "other-profile"},
		"fp32": {"partial", "nothing"}} {
		done(t, "run", "m.plan.json", "--mode", mode, "--all", "--samples", "1", "-o", mode)
		r := invoke("verify", "--against", filepath.Join(mode, "00000_00.npz"), "--json")
		v := r.object(t)
		require.Contains(t, verdicts, v["verdict"], "%s: %v", mode, v["off_grid"])
		require.Zero(t, v["integers_different"])
		require.Equal(t, mode == "fp32", v["off_grid"] != nil)
		if mode == "int8" {
			require.Equal(t, true, v["bit_exact"].(map[string]any)["holds"])
			require.Nil(t, v["missing"])
		}
	}
	r := done(t, "run", "m.onnx", "--input", "x=data/00.npy", "--all", "-o", "once", "--json").object(t)
	require.Equal(t, []any{filepath.Join("once", "tensors.npz")}, r["files"])
	b := read(t, filepath.Join("once", "tensors.npz"))
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	require.Subset(t, a.Names(), []string{"x", "y"})
	require.Greater(t, len(a.Names()), 4)
	y, err := a.Read("y")
	require.NoError(t, err)
	done(t, "run", "m.onnx", "--input", "x=data/00.npy", "-o", "plain")
	require.Equal(t, array(t, "plain/y.npy"), y.F32())
}

// TestRunOfAllSamples: a file for each sample, in every mode; float is what a single run of the sample writes, the simulation and the
// integers are near it and not equal to it.
func TestRunOfAllSamples(t *testing.T) {
	calibrated(t)
	for _, mode := range []string{"fp32", "sim", "int8"} {
		r := done(t, "run", "m.plan.json", "--mode", mode, "-o", mode, "--json").object(t)
		require.Len(t, r["files"], 4)
		assert.Equal(t, filepath.Join(mode, "00000_00.npy"), r["files"].([]any)[0])
	}
	done(t, "run", "m.onnx", "--data", "data", "--samples", "3", "-o", "model")
	assert.Len(t, tree(t, "model"), 3)
	for i := range 4 {
		name := fmt.Sprintf("%05d_%02d.npy", i, i)
		done(t, "run", "m.onnx", "--input", fmt.Sprintf("x=data/%02d.npy", i), "-o", "once")
		float, sim, integers := array(t, "fp32/"+name), array(t, "sim/"+name), array(t, "int8/"+name)
		require.Equal(t, array(t, "once/y.npy"), float)
		require.Len(t, float, 10)
		assert.NotEqual(t, float, sim)
		assert.InDeltaSlice(t, float, sim, 0.5*spread(float))
		assert.InDeltaSlice(t, sim, integers, 0.1*spread(float), "a few ties at most")
	}
	done(t, "export", "--platform", "trt_int8", "-o", "q.onnx")
	done(t, "run", "q.onnx", "--data", "data", "-o", "exported")
	assert.InDeltaSlice(t, array(t, "exported/00002_02.npy"), array(t, "sim/00002_02.npy"), 0.1*spread(array(t, "sim/00002_02.npy")))
	for _, c := range []struct {
		want string
		args []string
	}{
		{`run takes --input or --data`, []string{"m.onnx", "--input", "x=data/00.npy", "--data", "data"}},
		{`--mode sim needs a plan`, []string{"m.onnx", "--data", "data", "--mode", "sim"}},
		{`--profile is for --mode int8 only`, []string{"m.plan.json", "--profile", "ort"}},
		{`--samples and --preprocess need --data`, []string{"m.onnx", "--input", "x=data/00.npy", "--samples", "2"}},
	} {
		fails(t, exitUsage, c.want, append([]string{"run", "-o", "none"}, c.args...)...)
	}
	fails(t, exitFailed, `data/none: no such file`, "run", "m.onnx", "--data", "data/none", "-o", "none")
}

// TestRunNamesStepsByTheReference: as verify and eval do; 8 bits leave none and print nothing.
func TestRunNamesStepsByTheReference(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime")
	require.Empty(t, done(t, "run", "m.plan.json", "--mode", "int8", "-o", "eight").stdout)
	done(t, "set", "*", "activations=int16-sym-tensor")
	line := regexp.MustCompile(`(?m)^\d+ of \d+ steps by the reference: .*conv1 \(.*$`)
	ran := line.FindString(done(t, "run", "m.plan.json", "--mode", "int8", "-o", "sixteen").stdout)
	require.NotEmpty(t, ran)
	require.Equal(t, ran, line.FindString(done(t, "verify", "m.plan.json").stdout))
}

// TestRunOfSeveralOutputs writes an npz for each sample, with the arrays by name.
func TestRunOfSeveralOutputs(t *testing.T) {
	inFolder(t)
	saveModel(t, "two.onnx", "opset 17; input x: f32[1,4]; y = Relu(x); z = Neg(x); output y; output z")
	saveInputs(t, "data", 3, 2, 1, 4)
	done(t, "run", "two.onnx", "--data", "data", "-o", "out")
	b := read(t, "out/00001_01.npz")
	a, err := npy.OpenArchive(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	assert.Equal(t, []string{"y", "z"}, a.Names())
}

// spread is the largest distance between two numbers.
func spread(x []float32) float64 {
	low, high := x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	return float64(high - low)
}
