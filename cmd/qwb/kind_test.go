package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/quantizer/overlay"
)

// TestTheWrongKindOfFile: whatever a command is given, it says what that is and what takes it. Before, a parser said what it stumbled over.
func TestTheWrongKindOfFile(t *testing.T) {
	calibrated(t)
	s := tiny
	s.dim, s.hidden = 64, 96
	saveLanguage(t, "lm.bin", s, 1)
	for _, format := range []string{"q80", "kuiper", "mllm", "gguf"} {
		done(t, "export", "lm.bin", "--format", format, "--unverified", "-o", "lm."+format)
	}
	write(t, "lm.inferllm", []byte("\x56\x34\x12\x00\x18\x00\x00\x00\x14\x00\x00\x00"))
	write(t, "m.tflite", []byte("\x1c\x00\x00\x00TFL3\x14\x00"))
	write(t, "m.pt", []byte("PK\x03\x04archive/data.pkl"))
	write(t, "pointer.onnx", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"))
	require.NoError(t, os.Mkdir("hf", 0o755))
	tuned, err := (&overlay.Overlay{Entries: []overlay.Entry{{Node: "conv1", Input: 2, Base: strings.Repeat("0", 64),
		Value: tensor.FromF32(make([]float32, 16), 16)}}}).Encode()
	require.NoError(t, err)
	write(t, "m.tuned.01234567.safetensors", tuned)
	write(t, "hf/config.json", []byte(`{"architectures": ["LlamaForCausalLM"]}`))

	is := map[string]string{
		"m.plan.json": "this is a plan", "m.stats": "this is a file of statistics", "m.onnx": "this is an ONNX model",
		"lm.bin": "this is a checkpoint of a language model", "lm.q80": "this is a checkpoint of a language model",
		"lm.gguf": "this is a checkpoint of a language model", "hf": "this is a checkpoint of a language model",
		"lm.kuiper": "this is a checkpoint of a language model", "lm.mllm": "this is a checkpoint of a language model",
		"lm.inferllm": "this is a checkpoint of a language model",
		"m.tflite":    "this is a TensorFlow Lite model.*qwb import|m.tflite: read tflite", "m.pt": "torch.onnx.export",
		"pointer.onnx": "git lfs pull", "m.tuned.01234567.safetensors": "this is a file of tuned values",
	}
	never := []string{"m.tflite", "m.pt", "pointer.onnx", "m.stats", "m.tuned.01234567.safetensors"}
	checkpoints := []string{"lm.bin", "lm.q80", "lm.gguf", "lm.kuiper", "lm.mllm", "lm.inferllm", "hf"}
	wantModel := append([]string{"m.plan.json"}, never...)
	wantPlan := append([]string{"m.onnx"}, never...)
	wantLanguage := append([]string{"m.plan.json", "m.onnx"}, never...)
	for _, c := range []struct {
		files []string
		args  func(file string) []string
	}{
		{wantModel, func(f string) []string { return []string{"inspect", f} }},
		{wantModel, func(f string) []string {
			return []string{"calibrate", f, "--data", "data", "--platform", "trt_int8", "-o", "new.plan.json"}
		}},
		{wantModel, func(f string) []string { return []string{"preprocess", f, "--data", "data", "--dump", "out"} }},
		{never, func(f string) []string { return []string{"run", f, "--input", "x=data/00.npy", "--output", "out"} }},
		{wantModel, func(f string) []string { return []string{"bind", f, "--dim", "N=1", "-o", "new.onnx"} }},
		{wantModel, func(f string) []string { return []string{"import", f, "-o", "new.plan.json"} }},
		{never, func(f string) []string { return []string{"diff", "m.plan.json", f} }},
		{never, func(f string) []string { return []string{"eval", f, "--data", "data"} }},
		{wantPlan, func(f string) []string { return []string{"analyze", f} }},
		{append(checkpoints, wantPlan...), func(f string) []string { return []string{"dispatch", f, "--reset"} }},
		{append(checkpoints, wantPlan...), func(f string) []string { return []string{"verify", f} }},
		{wantPlan, func(f string) []string { return []string{"export", f, "--platform", "trt_int8", "-o", "new.onnx"} }},
		{wantLanguage, func(f string) []string { return []string{"generate", f, "--prompt", "a"} }},
	} {
		for _, f := range c.files {
			args := c.args(f)
			before := tree(t, ".")
			r := invoke(args...)
			assert.NotEqual(t, exitDone, r.code, "%v", args)
			assert.Regexp(t, is[f], r.lastLine(), "%v", args)
			assert.Contains(t, r.lastLine(), f, "%v", args)
			require.Equal(t, before, tree(t, "."), "%v", args)
		}
	}
	assert.Equal(t, "qwb: load: m.plan.json: this is a plan, not a model; qwb analyze, dispatch, eval, verify, export and diff take it; "+
		"the model it is for stands in it", invoke("inspect", "m.plan.json").lastLine())
}
