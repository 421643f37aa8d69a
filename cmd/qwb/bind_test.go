package main

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	"qwb/quantizer/target"
)

// switched has two networks of which an input chooses one, and an If that a dimension decides.
const switched = `
graph switched
opset 17
input x: f32[batch,?]
input rate: i64[]
const k: i64[] = 16
const width: i64[] = 256
const last: i64[] = 1
fast = Equal(rate, k)
y = If(fast) {then_branch=graph { const w: f32[256,256] = normal(seed=1, std=0.1); m = MatMul(x, w); output m }, else_branch=graph { const w: f32[256,256] = normal(seed=2, std=0.1); m = MatMul(x, w); output m }}
s = Shape(x)
n = Gather(s, last)
wide = Equal(n, width)
z = If(wide) {then_branch=graph { a = Relu(y); output a }, else_branch=graph { a = Neg(y); output a }}
output z
`

// What is bound decides the branches, gives the same result as feeding it, and makes the branch's weights quantized ones.
func TestBind(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", switched)
	require.NoError(t, os.Mkdir("data", 0o755))
	saveInputs(t, "data", 7, 4, 64, 256)
	r := done(t, "bind", "m.onnx", "--input", "rate=16", "--shape", "x=64,256", "-o", "b.onnx", "--json").object(t)
	require.EqualValues(t, 2, r["branches"])
	require.EqualValues(t, 2, r["nodes"], "MatMul and Relu")

	rate := graphtest.Parse(t, "opset 17\nconst r: i64[] = 16\nconst one: i64[] = 1\ny = Mul(r, one)\noutput y")
	v, _ := rate.Lookup("r")
	saveArray(t, "rate.npy", rate.Const(v))
	done(t, "run", "m.onnx", "--input", "x=data/00.npy", "--input", "rate=rate.npy", "--output", "fed")
	done(t, "run", "b.onnx", "--input", "x=data/00.npy", "--output", "bound")
	require.Equal(t, read(t, "fed/z.npy"), read(t, "bound/z.npy"))

	done(t, "calibrate", "b.onnx", "--data", "data", "--platform", "onnxruntime")
	i := done(t, "inspect", "b.onnx", "--json").object(t)
	for _, p := range parts(t, i, "platforms[]") {
		tg, err := target.Find(p["platform"].(string))
		require.NoError(t, err)
		want := 0
		if slices.ContainsFunc(tg.Ops, func(o target.Op) bool { return o.Type == "MatMul" }) {
			want = 1
		}
		require.EqualValues(t, want, p["macs_int8"], tg.Name)
	}

	// One of the two remains where only the other is decided.
	r = done(t, "bind", "m.onnx", "--input", "rate=rate.npy", "--dim", "batch=2", "-o", "c.onnx", "--json").object(t)
	require.EqualValues(t, 1, r["branches"])
}

func TestBindMistakes(t *testing.T) {
	inFolder(t)
	saveModel(t, "m.onnx", switched)
	saveArray(t, "x.npy", graphtest.Normal(1, 2, 3))
	require.NoError(t, os.WriteFile("header.npy", read(t, "x.npy")[:128], 0o644)) // it is held to the input before the numbers are read
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "needs --input", nil},
		{exitUsage, "not NAME=VALUE", []string{"--input", "rate"}},
		{exitUsage, "no such input", []string{"--input", "fast=1"}},
		{exitFailed, "invalid syntax", []string{"--input", "rate=fast"}},
		{exitFailed, `f32\[2,3\] for i64\[\]`, []string{"--input", "rate=x.npy"}},
		{exitFailed, `f32\[2,3\] for i64\[\]`, []string{"--input", "rate=header.npy"}},
		{exitFailed, "no such file", []string{"--input", "rate=none.npy"}},
		{exitUsage, "no input has such a dimension", []string{"--dim", "height=3"}},
		{exitUsage, "a size of 1 or more", []string{"--dim", "batch=0"}},
		{exitUsage, "sizes of 1 or more", []string{"--shape", "x=2,"}},
		{exitUsage, "3 sizes for", []string{"--shape", "x=1,2,3"}},
		{exitUsage, "is 2 already", []string{"--dim", "batch=2", "--shape", "x=3,256"}},
		{exitFailed, "MatMul", []string{"--input", "rate=16", "--shape", "x=2,7"}},
	} {
		fails(t, c.code, c.want, append([]string{"bind", "m.onnx", "-o", "b.onnx"}, c.args...)...)
	}
	fails(t, exitFailed, "would be replaced", "bind", "m.onnx", "--dim", "batch=1", "-o", "m.onnx")
}
