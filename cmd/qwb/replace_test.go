package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const withSiLU = `
graph gated
opset 17
input x: f32[batch,128]
const w: f32[128,128] = normal(seed=1, std=0.1)
const v: f32[128,64] = normal(seed=2, std=0.1)
a = MatMul(x, w)
s = Sigmoid(a)
m = Mul(a, s)
y = MatMul(m, v)
output y
`

// Both models run on the samples that do not calibrate, and the one that is written is the changed one.
func TestReplace(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", withSiLU)
	require.NoError(t, os.Mkdir("data", 0o755))
	saveInputs(t, "data", 7, 24, 1, 128)
	args := []string{"replace", "m.onnx", "SiLU=HardSwish", "--data", "data", "--platform", "onnxruntime", "-o", "hard.onnx"}
	r := done(t, append(args, "--json")...).object(t)
	require.Equal(t, []any{"m"}, r["replaced"].([]any)[0].(map[string]any)["nodes"])
	require.EqualValues(t, 24, r["samples"])
	require.Positive(t, r["held_out"])
	require.Less(t, r["held_out"], r["samples"])
	comparison := r["comparison"].(map[string]any)
	runs := parts(t, comparison, "runs[]")
	require.Len(t, runs, 4)
	require.Zero(t, runs[0]["nsr"], "the model is what the others are measured against")
	for _, run := range runs[1:] {
		require.Positive(t, run["nsr"], run["name"])
		require.Less(t, run["nsr"], 0.1, run["name"])
	}
	require.Greater(t, runs[1]["nsr"], runs[2]["nsr"], "the replacement costs more than the integers")
	require.Len(t, parts(t, comparison, "pairs[]"), 6)

	// compare finds the same between the two files, on all samples.
	c := done(t, "compare", "m.onnx", "hard.onnx", "--float", "m.onnx", "--data", "data", "--json").object(t)
	require.InDelta(t, runs[1]["nsr"], parts(t, c, "runs[]")[1]["nsr"], 0.05)
	require.Contains(t, done(t, args...).stdout, "SiLU became HardSwish at 1 node")
	ops := []any{}
	for _, n := range parts(t, done(t, "inspect", "hard.onnx", "--json").object(t), "nodes[]") {
		ops = append(ops, n["op"])
	}
	require.Equal(t, []any{"MatMul", "HardSwish", "MatMul"}, ops)
}

func TestReplaceMistakes(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", withSiLU)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "has no Tanh to replace", []string{"Tanh=Relu", "-o", "n.onnx"}},
		{exitUsage, "not FROM=TO", []string{"Tanh", "-o", "n.onnx"}},
		{exitUsage, `no activation "Erf"`, []string{"SiLU=Erf", "-o", "n.onnx"}},
		{exitUsage, "needs --data to measure on, -o FILE to write", []string{"SiLU=Relu"}},
		{exitUsage, "--platform needs --data", []string{"SiLU=Relu", "--platform", "onnxruntime", "-o", "n.onnx"}},
		{exitFailed, "would be replaced", []string{"SiLU=Relu", "-o", "m.onnx"}},
	} {
		fails(t, c.code, c.want, append([]string{"replace", "m.onnx"}, c.args...)...)
	}
	require.NoFileExists(t, "n.onnx")
}
