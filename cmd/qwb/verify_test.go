package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/onnx"
	"qwb/quantizer/plan"
	"qwb/quantizer/program/gpu"
)

// planVerification reads what a plan says about its verification.
func planVerification(t *testing.T) *plan.Verification {
	t.Helper()
	p, err := plan.Read("m.plan.json")
	require.NoError(t, err)
	return p.Verification
}

func TestVerifyPrintsTheContractsKeysAndWritesThePlan(t *testing.T) {
	calibrated(t)
	require.Nil(t, planVerification(t))
	o := done(t, "verify", "--json", "--samples", "2", "--html", "v.html").object(t)
	for _, key := range []string{"profile", "backend", "tensors", "integers_compared", "integers_different", "ties",
		"max_difference", "verdict"} {
		require.Contains(t, o, key)
	}
	require.Equal(t, "trt", o["profile"])
	require.EqualValues(t, 2, o["samples"])
	require.Contains(t, []string{"equal", "ties"}, o["verdict"])
	require.Zero(t, o["integers_different"])
	require.Greater(t, o["integers_compared"], 1000.0)
	v := planVerification(t)
	require.Equal(t, "trt", v.Profile)
	require.Equal(t, 2, v.Samples)
	require.Equal(t, o["verdict"], v.Verdict)
	require.Len(t, v.Digest, 64)
	page := string(read(t, "v.html"))
	require.Contains(t, page, `id="verification"`)
	require.NotContains(t, page, "http://")
	text := done(t, "verify", "--samples", "1").stdout
	require.Contains(t, text, "exact real arithmetic")
}

func TestVerifyUnderEveryProfileThatFits(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "percentile")
	for _, profile := range strings.Fields("tflite2 tflite1 tvm-upward tvm-nearest tvm-a64 ort onnx-ref onnx rndnu avx2-saturating") {
		o := done(t, "verify", "--json", "--profile", profile).object(t)
		require.Equal(t, profile, o["profile"])
	}
	fails(t, exitUsage, "no-such", "verify", "--profile", "no-such")
	fails(t, exitUsage, "no-such", "verify", "--backend", "no-such")
	if gpu.CUDA.Missing() != nil {
		r := fails(t, exitFailed, "cuda", "verify", "--backend", "cuda")
		require.Len(t, strings.Split(strings.TrimSpace(r.stderr), "\n"), 1, "one line says why")
	}
}

func TestExportVerifiesOnce(t *testing.T) {
	calibrated(t)
	first := done(t, "export", "--platform", "trt_int8", "-o", "a.onnx", "--json")
	require.Contains(t, first.stderr, "verified on 4 samples")
	v := planVerification(t)
	require.Contains(t, []string{"equal", "ties"}, v.Verdict)
	second := done(t, "export", "--platform", "trt_int8", "-o", "b.onnx", "--json")
	require.NotContains(t, second.stderr, "verified on")
	require.Equal(t, read(t, "a.onnx"), read(t, "b.onnx"))
	require.Equal(t, v.Verdict+" "+v.Digest, metadataOf(t, "a.onnx")["qwb.verification"])

	// A plan about which something else is decided is another one.
	done(t, "set", "conv1", "observer=minmax")
	require.Contains(t, done(t, "export", "--platform", "trt_int8", "-o", "c.onnx").stderr, "verified on")
}

func TestExportWithoutDataNeedsUnverified(t *testing.T) {
	calibrated(t)
	require.NoError(t, os.Rename("data", "elsewhere"))
	fails(t, exitFailed, "--unverified", "export", "--platform", "trt_int8", "-o", "a.onnx")
	o := done(t, "export", "--platform", "trt_int8", "-o", "a.onnx", "--unverified", "--json").object(t)
	require.Equal(t, "unverified", o["verification"].(map[string]any)["verdict"])
	require.Equal(t, "unverified", planVerification(t).Verdict)
	require.True(t, strings.HasPrefix(metadataOf(t, "a.onnx")["qwb.verification"], "unverified "))
	// It is not a verification that a later export would trust.
	fails(t, exitFailed, "--unverified", "export", "--platform", "trt_int8", "-o", "b.onnx")
}

// metadataOf reads the metadata of a model file.
func metadataOf(t *testing.T, path string) map[string]string {
	t.Helper()
	m, _, err := onnx.Open(filepath.Clean(path))
	require.NoError(t, err)
	defer m.Close()
	kv := map[string]string{}
	for _, e := range m.Metadata {
		kv[e.Key] = e.Value
	}
	return kv
}

func TestEvalOfIntegers(t *testing.T) {
	calibrated(t)
	write(t, "labels.tsv", []byte("00.npy\t1\n01.npy\t2\n02.npy\t3\n03.npy\t4\n"))
	args := []string{"eval", "m.plan.json", "--data", "data", "--labels", "labels.tsv", "--json", "--mode"}
	s := done(t, append(args, "sim")...).object(t)
	i := done(t, append(args, "int8")...).object(t)
	require.Equal(t, "int8", i["mode"])
	require.EqualValues(t, 4, i["n"])
	require.Equal(t, s["top1"], i["sim"].(map[string]any)["top1"])
	require.Contains(t, i, "flip_rate")
	r := done(t, append(args, "int8", "--backend", "reference")...).object(t)
	require.Equal(t, i["top1"], r["top1"])
	require.Equal(t, "reference", r["backend"])
	fails(t, exitUsage, "needs a plan", "eval", "m.onnx", "--data", "data", "--mode", "int8")

	// Another profile stands beside the platform's own, one that saturates beside the same arithmetic with exact sums.
	require.Equal(t, "trt", i["profile"])
	require.NotContains(t, i, "base")
	other := done(t, append(args, "int8", "--profile", "onnx")...).object(t)
	require.Equal(t, "onnx", other["profile"])
	require.Equal(t, "trt", other["base"].(map[string]any)["profile"])
	require.Equal(t, i["top1"], other["base"].(map[string]any)["top1"])
	fails(t, exitUsage, "is for --mode int8 only", append(args, "sim", "--profile", "ort")...)
	fails(t, exitUsage, "unknown", append(args, "int8", "--profile", "no-such")...)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "-o", "ort.plan.json")
	args[1] = "ort.plan.json"
	saturating := done(t, append(args, "int8", "--profile", "avx2-saturating")...).object(t)
	base := saturating["base"].(map[string]any)
	require.Equal(t, "ort", base["profile"])
	require.Equal(t, done(t, append(args, "int8")...).object(t)["top1"], base["top1"])
	require.InDelta(t, 25*(base["top1"].(float64)-saturating["top1"].(float64)), base["lost"], 1e-9)
}
