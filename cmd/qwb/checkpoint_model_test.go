package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// A language model goes through the commands that other models go through; the plan remembers how its texts were cut into tokens.
func TestCheckpointIsAModel(t *testing.T) {
	file := llm(t, "stories260K.bin")
	inFolder(t)
	write(t, "t.txt", []byte("Once upon a time, there was a little girl named Lily.\n\nThe dog ran to the park. It was a big red ball.\n"+
		"She said, \"I want to play!\"\n"))
	write(t, "tok.bin", read(t, llm(t, "tok512.bin")))

	o := done(t, "inspect", file, "--json").object(t)
	assert.EqualValues(t, 23, o["opset"])
	assert.Empty(t, o["unsupported"])
	assert.Equal(t, "logits", o["outputs"].([]any)[0].(map[string]any)["name"])

	o = done(t, "calibrate", file, "--data", "t.txt", "--tokenizer", "tok.bin", "--platform", "onnxruntime", "--json").object(t)
	assert.EqualValues(t, 3, o["samples"])
	p := string(read(t, "stories260K.plan.json"))
	assert.Contains(t, p, `"tokenizer":"tok.bin"`)
	assert.Contains(t, p, filepath.ToSlash("stories260K.bin"))

	o = done(t, "analyze", "--layerwise", "--json").object(t)
	layers := o["layerwise"].([]any)
	require.NotEmpty(t, layers)
	worst := layers[0].(map[string]any)
	assert.Equal(t, "Gemm", worst["op"])
	assert.Less(t, worst["nsr"], 0.01)

	done(t, "dispatch", "--fp32", worst["node"].(string))
	o = done(t, "verify", "--json").object(t)
	assert.Zero(t, o["integers_different"])
	done(t, "export", "--platform", "onnxruntime", "-o", "q.onnx")

	// What was exported computes nearly what the checkpoint does.
	done(t, "preprocess", file, "--data", "t.txt", "--tokenizer", "tok.bin", "--dump", "in")
	in, err := filepath.Glob("in/*.npy")
	require.NoError(t, err)
	require.Len(t, in, 3)
	for model, folder := range map[string]string{file: "float", "q.onnx": "quantized"} {
		done(t, "run", model, "--input", "input_ids="+in[0], "-o", folder)
	}
	x, y := readArray(t, "float/logits.npy"), readArray(t, "quantized/logits.npy")
	require.Equal(t, x.Shape, y.Shape)
	assert.Equal(t, 512, x.Shape[2])
	square, apart := 0.0, 0.0
	for i, v := range x.F32() {
		d := float64(v - y.F32()[i])
		square, apart = square+float64(v)*float64(v), apart+d*d
	}
	assert.Less(t, apart/square, 0.01)
	assert.Positive(t, apart)
}

func readArray(t *testing.T, file string) *tensor.Tensor {
	t.Helper()
	x, err := npy.Read(strings.NewReader(string(read(t, file))))
	require.NoError(t, err)
	return x
}

func TestCheckpointErrors(t *testing.T) {
	file := llm(t, "stories260K.bin")
	inFolder(t)
	write(t, "t.txt", []byte("Once upon a time\n"))
	whole := read(t, file)
	write(t, "cut.bin", whole[:500000])
	for _, c := range []struct {
		want string
		args []string
	}{
		{"has 32000 tokens, the vocabulary of", []string{"calibrate", file, "--data", "t.txt", "--platform", "onnxruntime"}},
		{"nothing.bin: no such file", []string{"calibrate", file, "--data", "t.txt", "--platform", "onnxruntime", "--tokenizer", "nothing.bin"}},
		{"name one with --tokenizer", []string{"calibrate", llm(t, "stories260K-hf"), "--data", "t.txt", "--platform", "onnxruntime"}},
		{"asks for", []string{"inspect", "cut.bin"}},
	} {
		r := invoke(c.args...)
		assert.Equal(t, 1, r.code, "%s", c.args)
		assert.Contains(t, r.lastLine(), c.want)
	}
}
