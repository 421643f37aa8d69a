package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/kernels/cuda"
)

// devices are the backends of float models beside the processor.
func devices() []string {
	if _, err := cuda.Find(); err == nil {
		return []string{"ptx", "cuda"}
	}
	return []string{"ptx"}
}

// On a device everything that calibrate writes is, byte for byte, what it writes on the processor; it says that it has compared.
func TestCalibrateOnDevice(t *testing.T) {
	workplace(t)
	backends := devices()
	for _, flags := range [][]string{{"--observer", "percentile"}, {"--batch", "2"}, {"--minmax-only"}} {
		args := append([]string{"--data", "data"}, flags...)
		want := outcome(t, "trt_int8", args...)
		for _, backend := range backends {
			same(t, want, outcome(t, "trt_int8", append(args, "--backend", backend)...), "%s with %v", backend, flags)
		}
	}
	for _, backend := range backends {
		r := done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--data", "data", "--samples", "1", "--backend", backend, "--json", "-o",
			backend+".plan.json", "-v")
		o := r.object(t)
		assert.Equal(t, backend, o["backend"])
		assert.NotEmpty(t, o["device"])
		check := o["check"].(map[string]any)
		assert.Equal(t, 10.0, check["tensors"], "the input and what nine nodes compute")
		assert.Equal(t, 10.0, check["equal"])
		assert.Empty(t, check["different"])
		require.Contains(t, r.stderr, "the statistics of 10 of 10 tensors are those of the processor")

		// What was seen on both is merged.
		saveInputs(t, "more", 200, 2, 1, 3, 8, 8)
		part := func(name, data, backend string) {
			done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--data", data, "--backend", backend, "-o", name+".plan.json")
		}
		part("a", "data", "cpu")
		merged := map[string]string{}
		for _, second := range []string{"cpu", backend} {
			part("b", "more", second)
			done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--merge", "a.stats", "b.stats", "-o", "ab.plan.json")
			merged[second] = string(read(t, "ab.stats")) + string(read(t, "ab.plan.json"))
			require.NoError(t, os.Remove("b.stats"))
		}
		require.True(t, merged["cpu"] == merged[backend])
	}
	require.Equal(t, "cpu", done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--data", "data", "--json").object(t)["backend"])
}

// Gram statistics are the same file, as a whole and in parts that were made on both, of a small network and of a real one.
func TestGramsOnDevice(t *testing.T) {
	workplace(t)
	gram := func(plan, data, shard, backend string) string {
		o := done(t, "tune", plan, "--data", data, "--samples", "8", "--shard", shard, "--backend", backend, "-o", "grams", "--json").object(t)
		require.Equal(t, backend, o["backend"])
		require.Equal(t, backend == "cpu", o["device"] == nil)
		require.Greater(t, o["samples"], o["held_out"])
		return string(read(t, "grams"))
	}
	saveInputs(t, "more", 300, 8, 1, 3, 8, 8)
	done(t, "calibrate", "m.onnx", "--platform", "trt_int8", "--data", "more")
	for _, backend := range devices() {
		whole := gram("m.plan.json", "more", "1/1", "cpu")
		require.True(t, whole == gram("m.plan.json", "more", "1/1", backend))
		for i, on := range []string{backend, "cpu"} {
			write(t, fmt.Sprint("part", i), []byte(gram("m.plan.json", "more", fmt.Sprintf("%d/2", i+1), on)))
		}
		done(t, "merge", "part0", "part1", "-o", "merged")
		require.True(t, whole == string(read(t, "merged")))
		fails(t, exitUsage, "--backend needs --shard", "tune", "--method", "gptq", "--backend", backend)
	}
	fails(t, exitUsage, `unknown backend "gpu"`, "tune", "--shard", "1/1", "-o", "g", "--backend", "gpu")
	t.Run("ResNet-8", func(t *testing.T) {
		longtest.Need(t, "a trained network on an interpreted device")
		resnet, cifar := shared(t, "models", "mlperf-tiny", "pretrainedResnet.onnx"), shared(t, "data", "cifar10", "calibration_500.bin")
		done(t, "calibrate", resnet, "--platform", "onnxruntime", "--data", cifar, "--samples", "8", "-o", "r.plan.json")
		want := gram("r.plan.json", cifar, "1/1", "cpu")
		for _, backend := range devices() {
			require.True(t, want == gram("r.plan.json", cifar, "1/1", backend))
		}
	})
}

func TestCalibrateWithoutDevice(t *testing.T) {
	workplace(t)
	fails(t, exitUsage, `unknown backend "gpu": one of cpu, cuda, ptx`, "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8",
		"--backend", "gpu")
	fails(t, exitUsage, "--backend needs --data", "calibrate", "m.onnx", "--platform", "trt_int8", "--backend", "ptx")
	if _, err := cuda.Find(); err == nil {
		t.Skip("this machine has a GPU")
	}
	r := fails(t, exitFailed, "^qwb: calibrate: backend cuda: ", "calibrate", "m.onnx", "--data", "data", "--platform", "trt_int8",
		"--backend", "cuda")
	require.Regexp(t, `\A[^\n]+\n\z`, r.stderr, "one line")
}
