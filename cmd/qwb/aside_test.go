package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A plan with decisions of its own outlives what other data or another target make of it; one without is made again by its command, and
// -o and --fresh replace it.
func TestCalibrateLeavesAPlanWithDecisions(t *testing.T) {
	calibrated(t)
	saveInputs(t, "more", 300, 6, 1, 3, 8, 8)
	plan := func(args ...string) any {
		t.Helper()
		return done(t, append(append([]string{"calibrate", "m.onnx"}, args...), "--json")...).object(t)["plan"]
	}
	require.Equal(t, "m.plan.json", plan("--platform", "onnxruntime"), "nothing was decided")
	require.Equal(t, "m.plan.json", plan("--platform", "trt_int8", "--observer", "mse", "--data", "data"))
	done(t, "set", "m.plan.json", "type:Conv", "observer=kl")
	was, stats := read(t, "m.plan.json"), read(t, "m.stats")

	r := done(t, "calibrate", "m.onnx", "--platform", "onnxruntime")
	require.Contains(t, r.stderr, "m.plan.json has decisions of its own and stays as it is; "+
		"the plan for onnxruntime is m.onnxruntime.plan.json (-o m.plan.json replaces it)")
	require.Contains(t, r.stdout, "m.onnxruntime.plan.json and m.onnxruntime.stats: 4 samples")
	require.Contains(t, done(t, "plan", "log", "m.onnxruntime.plan.json").stdout, "observer=kl")
	require.Equal(t, stats, read(t, "m.onnxruntime.stats"))
	require.Equal(t, "m.2.plan.json", plan("--platform", "trt_int8", "--data", "more"))
	require.Equal(t, "m.onnxruntime.2.plan.json", plan("--platform", "onnxruntime", "--data", "more"))
	require.Equal(t, was, read(t, "m.plan.json"))
	require.Equal(t, stats, read(t, "m.stats"))
	done(t, "verify", "m.2.plan.json")
	done(t, "verify", "m.plan.json")
	was = read(t, "m.plan.json") // with its verification

	write(t, "r.yaml", []byte("- tune: {method: [bias], samples: 6, force: true}\n"))
	require.Equal(t, "m.3.plan.json", plan("--platform", "trt_int8", "--data", "more", "--recipe", "r.yaml"))
	require.Equal(t, was, read(t, "m.plan.json"))

	require.Equal(t, "m.plan.json", plan("--platform", "trt_int8", "--observer", "mse", "--data", "data"), "its history goes on")
	require.Equal(t, "m.plan.json", plan("--platform", "onnxruntime", "-o", "m.plan.json"))
	require.NotEqual(t, was, read(t, "m.plan.json"))
	require.Equal(t, "m.plan.json", plan("--platform", "trt_int8", "--fresh", "--data", "more"))
}
