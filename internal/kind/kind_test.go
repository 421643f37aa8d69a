package kind_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/internal/kind"
)

func TestBeginnings(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		size int64
		want kind.Kind
	}{
		"plan":       {"{\n  \"format\": \"qwb plan\",\n  \"version\": 2,", 5000, kind.Plan},
		"other JSON": {"{\n  \"architectures\": []}", 24, kind.JSON},
		"statistics": {"qwbstat\x01rest", 500, kind.Statistics}, "part of them": {"qwbpart\x01\x04qwbstat\x01rest", 500, kind.Statistics},
		"overlay": {"\x60\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"format\":\"qwb overlay\",\"version\":\"1\"}", 500,
			kind.Overlay},
		"GGUF":            {"GGUF\x03\x00\x00\x00", 500, kind.Checkpoint},
		"llama2.c 2":      {"24ka\x02\x00\x00\x00", 500, kind.Checkpoint},
		"mllm":            {"\x2c\x4e\x00\x00\x10\x00\x00\x00", 500, kind.Checkpoint},
		"InferLLM":        {"\x56\x34\x12\x00\x18\x00\x00\x00\x14\x00\x00\x00", 500, kind.Checkpoint},
		"TFLite":          {"\x1c\x00\x00\x00TFL3\x14\x00", 500, kind.TFLite},
		"torch.save":      {"PK\x03\x04archive/data.pkl", 500, kind.PyTorch},
		"npy":             {"\x93NUMPY\x01\x00", 500, kind.Numpy},
		"PNG":             {"\x89PNG\r\n\x1a\n", 500, kind.Picture},
		"LFS":             {"version https://git-lfs.github.com/spec/v1\noid sha256:0", 130, kind.LFS},
		"ONNX":            {"\x08\x08\x12\x16qwb", 500, kind.ONNX},
		"ONNX, no writer": {"\x08\x07\x3a\xac\xc5\x87\x08", 500, kind.ONNX},
		"nothing":         {"", 0, kind.Unknown},
		"text":            {"Once upon a time", 16, kind.Unknown},
		"zeros":           {string(make([]byte, 64)), 64, kind.Unknown},
	} {
		assert.Equal(t, c.want, kind.OfBytes([]byte(c.head), c.size), name)
	}
}

// TestEveryKindIsExplained: a message about it says what it is and what to do.
func TestEveryKindIsExplained(t *testing.T) {
	for k := kind.ONNX; k <= kind.JSON; k++ {
		assert.NotEqual(t, kind.Unknown.String(), k.String(), "kind %d", k)
		assert.NotEmpty(t, k.Use(), k)
	}
	assert.Empty(t, kind.Unknown.Use())
	assert.Equal(t, kind.Unknown.String(), kind.Kind(200).String())
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.plan.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"format": "qwb plan"}`), 0o600))
	require.NoError(t, kind.Check(path, "a plan", kind.Plan))
	err := kind.Check(path, "an ONNX model", kind.ONNX)
	var wrong *kind.WrongError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, kind.Plan, wrong.Is)
	assert.Equal(t, path+": this is a plan, not an ONNX model; "+kind.Plan.Use(), err.Error())
	assert.NoError(t, kind.Check(dir, "an ONNX model", kind.ONNX), "a folder of anything")
	assert.NoError(t, kind.Check(filepath.Join(dir, "missing"), "an ONNX model", kind.ONNX))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600))
	assert.Equal(t, kind.Checkpoint, kind.Of(dir))
	assert.Equal(t, kind.Unknown, kind.Of(os.DevNull))
}

// TestRealFiles recognises what trained models lie in, and takes no model for something else.
func TestRealFiles(t *testing.T) {
	root := os.Getenv("QWB_TESTDATA")
	if root == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/")
	}
	llm := filepath.Join(root, "models", "llm")
	for _, name := range []string{"stories260K.bin", "stories260K-v1.bin", "stories260K-q8.bin", "stories260K-hf"} {
		assert.Equal(t, kind.Checkpoint, kind.Of(filepath.Join(llm, name)), name)
	}
	count := 0
	require.NoError(t, filepath.Walk(filepath.Join(root, "models"), func(path string, info os.FileInfo, err error) error {
		if err == nil && filepath.Ext(path) == ".onnx" {
			count++
			assert.Equal(t, kind.ONNX, kind.Of(path), path)
		}
		return err
	}))
	assert.Greater(t, count, 5)
	b, err := os.ReadFile(filepath.Join(llm, "stories260K.bin"))
	require.NoError(t, err)
	assert.False(t, checkpoint.IsKuiper(b[:512], int64(len(b))))
}
