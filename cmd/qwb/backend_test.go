package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The GPU's kernels, interpreted, take the place of the CPU's in every command that runs integers.
func TestBackendPTX(t *testing.T) {
	calibrated(t)
	require.Contains(t, done(t, "export", "--platform", "trt_int8", "-o", "a.onnx", "--backend", "ptx").stderr, "verified on")
	require.Equal(t, "ptx", planVerification(t).Backend)
	o := done(t, "verify", "--backend", "ptx", "--samples", "2", "--json").object(t)
	require.Equal(t, "ptx", o["backend"])
	require.Zero(t, o["integers_different"])
	placed := o["placed"].(map[string]any)
	require.Empty(t, placed["on_host"])
	require.Equal(t, placed["steps"], placed["on_device"])
	text := done(t, "verify", "--backend", "ptx", "--samples", "1", "--html", "v.html").stdout
	require.True(t, bytes.Contains(read(t, "v.html"), []byte(`"placed":{"device":"qwb PTX interpreter, sm_80"`)))
	require.Regexp(t, `(\d+) of \d+ steps ran on .*interpreter.*, 0 on the CPU`, text)
	require.NotContains(t, done(t, "verify", "--samples", "1", "--json").object(t), "placed")

	fails(t, exitUsage, "unknown backend", "export", "--platform", "trt_int8", "-o", "b.onnx", "--backend", "gpu")

	write(t, "labels.tsv", []byte("00.npy\t3\n01.npy\t1\n02.npy\t0\n03.npy\t9\n"))
	eval := func(backend string, more ...string) map[string]any {
		o := done(t, append([]string{"eval", "m.plan.json", "--labels", "labels.tsv", "--mode", "int8", "--backend", backend, "--json"},
			more...)...).object(t)
		require.Equal(t, backend, o["backend"])
		delete(o, "backend")
		delete(o, "seconds")
		delete(o, "placed") // which steps ran where
		return o
	}
	require.Equal(t, eval("cpu"), eval("ptx"))
	for _, n := range []string{"2", "3", "9"} { // four samples
		require.Equal(t, eval("cpu"), eval("ptx", "--batch", n), n)
		require.Equal(t, eval("cpu"), eval("cpu", "--batch", n), n)
	}
	require.Equal(t, eval("cpu", "--profile", "onnx"), eval("ptx", "--profile", "onnx", "--batch", "3"))
	fails(t, exitUsage, "--batch is for --mode int8 only", "eval", "m.plan.json", "--labels", "labels.tsv", "--batch", "2")
	fails(t, exitUsage, "--backend is for --mode int8 only", "eval", "m.plan.json", "--labels", "labels.tsv", "--backend", "ptx")
	fails(t, exitUsage, "unknown backend", "eval", "m.plan.json", "--data", "none", "--mode", "int8", "--backend", "gpu")
	fails(t, exitUsage, "no-such", "verify", "--backend", "cuda", "--profile", "no-such") // also where there is no GPU

	b := done(t, "bench", "model", "m.plan.json", "--mode", "int8,fp32", "--backend", "ptx", "--rounds", "1", "--span", "1ms",
		"--json").object(t)
	results := b["results"].([]any)
	require.Len(t, results, 3)
	r := results[1].(map[string]any)
	require.Equal(t, "int8 on ptx", r["mode"])
	require.Equal(t, "ptx", r["backend"])
	require.Positive(t, r["device_seconds"])
	require.Positive(t, r["device_samples_per_second"])
	require.Zero(t, r["steps_on_host"])
	require.NotContains(t, results[0], "device")
	require.Contains(t, done(t, "bench", "model", "m.plan.json", "--mode", "int8", "--backend", "ptx", "--rounds", "1", "--span",
		"1ms").stdout, "samples per second on")
	fails(t, exitUsage, "--backend is for --mode int8 only", "bench", "model", "m.onnx", "--backend", "ptx")
}
