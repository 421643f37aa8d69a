package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatWasMeant: a word that is nearly right is answered with the right one, another one is not.
func TestWhatWasMeant(t *testing.T) {
	calibrated(t)
	saveLanguage(t, "lm.bin", tiny, 1)
	for _, c := range []struct{ args, want string }{
		{"calibrat m.onnx", `unknown command "calibrat".*; did you mean "calibrate"\?$`},
		{"verfiy", `did you mean "verify"\?$`},
		{"frobnicate", `lists the commands$`},
		{"calibrate m.onnx --platfrom trt_int8", `^qwb: calibrate: unknown flag: --platfrom; did you mean --platform\?$`},
		{"calibrate m.onnx --platform trt-int8", `unknown platform "trt-int8".*; did you mean "trt_int8"\?$`},
		{"calibrate m.onnx --platform trt", `did you mean "trt_int8"\?$`},
		{"calibrate m.onnx --platform onnxrt --data data", `did you mean "onnxruntime"\?$`},
		{"calibrate m.onnx --platform abacus", `onnxruntime[^?]*$`},
		{"calibrate m.onnx --platform trt_int8 --observer percentil", `did you mean "percentile"\?$`},
		{"export lm.bin --format ggfu", `did you mean "gguf"\?$`},
		{"export lm.bin --format gguf --weights q8-0", `did you mean "q8_0"\?$`},
		{"verify --profile tflte", `did you mean "tflite2"\?$`},
		{"verify --backend cdua", `did you mean "cuda"\?$`},
		{"eval m.plan.json --mode itn8", `did you mean "int8"\?$`},
		{"--verion", `^qwb: unknown flag: --verion; did you mean --version\?$`},
	} {
		r := invoke(strings.Fields(c.args)...)
		assert.Equal(t, exitUsage, r.code, c.args)
		assert.Regexp(t, c.want, r.lastLine(), c.args)
	}
}

// TestVersionFlag: --version was an unknown flag.
func TestVersionFlag(t *testing.T) {
	assert.Regexp(t, `^qwb \d+\.\d+\.\d+ \(revision .*\)\n$`, done(t, "--version").stdout)
}

// TestTheShellCompletes values of flags: it completed nothing.
func TestTheShellCompletes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"calibrate", "m.onnx", "--platform", ""}, []string{"trt_int8", "onnxruntime"}},
		{[]string{"calibrate", "m.onnx", "--observer", ""}, []string{"auto", "minmax", "mse"}},
		{[]string{"verify", "--profile", ""}, []string{"ort", "tflite2"}},
		{[]string{"verify", "--backend", ""}, []string{"cpu", "reference"}},
		{[]string{"export", "--format", ""}, []string{"onnx", "c", "q80", "gguf"}},
		{[]string{"calibrate", "m.onnx", "--preprocess", ""}, []string{"imagenet-torch", "none"}},
		{[]string{"eval", "m.onnx", "--mode", ""}, []string{"fp32", "sim", "int8"}},
	} {
		got := strings.Split(done(t, append([]string{"__complete"}, c.args...)...).stdout, "\n")
		for _, want := range c.want {
			assert.Contains(t, got, want, "%v", c.args)
		}
	}
	assert.Contains(t, done(t, "--help").stdout, "completion")
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"mse", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "axc", 1}, {"kl", "mse", 3}} {
		require.Equal(t, c.want, distance(c.a, c.b), "%q %q", c.a, c.b)
		require.Equal(t, c.want, distance(c.b, c.a), "%q %q", c.b, c.a)
	}
	require.Equal(t, "", nearest("abacus", []string{"trt_int8", "onnxruntime"}))
}

// TestEvalFindsThePlan as the other commands do, and says that float is not what a plan is for.
func TestEvalFindsThePlan(t *testing.T) {
	calibrated(t)
	write(t, "labels.tsv", []byte("00.npy\t3\n01.npy\t1\n02.npy\t0\n03.npy\t9\n"))
	r := done(t, "eval", "--labels", "labels.tsv")
	assert.Contains(t, r.stderr, "mode fp32: the float model; --mode sim or --mode int8")
	assert.NotContains(t, done(t, "eval", "--labels", "labels.tsv", "--mode", "sim").stderr, "mode fp32")
	write(t, "n.plan.json", read(t, "m.plan.json"))
	fails(t, exitUsage, "2 plans in the current folder", "eval", "--labels", "labels.tsv")
}

// TestAnalyzeIsBrief unless all is asked for.
func TestAnalyzeIsBrief(t *testing.T) {
	calibrated(t)
	brief, full := done(t, "analyze", "--samples", "2").stdout, done(t, "analyze", "--samples", "2", "--all").stdout
	assert.Regexp(t, `^m\.onnx for trt_int8, 2 samples\n  whole network quantized: NSR `, brief)
	assert.Contains(t, brief, "more: --all lists them")
	assert.Less(t, len(brief), len(full))
	assert.Contains(t, full, "Tensors\n")
}

// TestTheShellCompletesPlatformsOfOnesOwn: a file of this folder that is a platform; other files are none.
func TestTheShellCompletesPlatformsOfOnesOwn(t *testing.T) {
	inFolder(t)
	write(t, "mine.yaml", []byte(strings.Replace(done(t, "target", "show", "onnxruntime").stdout, "name: onnxruntime", "name: mynpu", 1)))
	write(t, "other.yaml", []byte("a: b\n"))
	for _, args := range [][]string{{"calibrate", "m.onnx", "--platform", ""}, {"sweep", "m.onnx", "--platforms", ""},
		{"target", "show", ""}} {
		got := strings.Split(done(t, append([]string{"__completeNoDesc"}, args...)...).stdout, "\n")
		assert.Contains(t, got, "mine.yaml", "%v", args)
		assert.Contains(t, got, "trt_int8", "%v", args)
		assert.NotContains(t, got, "other.yaml", "%v", args)
	}
}
