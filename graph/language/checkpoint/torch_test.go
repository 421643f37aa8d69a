package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
)

func torchFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/torch", name))
	require.NoError(t, err)
	return b
}

// TestTorch: tensors of every type and form of torch.save have the numbers that testdata/make_torch.py gave them.
func TestTorch(t *testing.T) {
	arrays, err := checkpoint.ParseTorch(torchFile(t, "good.bin"))
	require.NoError(t, err)
	got := map[string]checkpoint.SafeArray{}
	for _, a := range arrays {
		got[a.Name] = a
	}
	floats := func(name string, shape []int, want ...float32) {
		t.Helper()
		a := got[name]
		assert.Equal(t, "F32", a.DType, name)
		assert.Equal(t, shape, a.Shape, name)
		x := make([]float32, len(a.Data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
		}
		assert.Equal(t, want, x, name)
	}
	all := make([]float32, 24)
	var turned []float32
	for i := range all {
		all[i] = float32(i)
		turned = append(turned, float32(i%4*6+i/4))
	}
	floats("plain", []int{4, 6}, all...)
	floats("shared", []int{4, 6}, all...)
	floats("transposed", []int{6, 4}, turned...)
	floats("part", []int{2, 3}, 8, 9, 10, 14, 15, 16)
	floats("parameter", []int{6}, 12, 13, 14, 15, 16, 17)
	floats("row", []int{1, 6}, 0, 1, 2, 3, 4, 5)
	floats("scalar", []int{}, 7)
	floats("empty", []int{0, 5}, []float32{}...)
	types := map[string]string{"half": "F16", "brain": "BF16", "double": "F64", "long": "I64", "int8": "I8", "yes": "BOOL"}
	for name, dtype := range types {
		assert.Equal(t, dtype, got[name].DType)
	}
	assert.Equal(t, []byte{0xfe, 0xff, 0, 1, 2}, got["int8"].Data)
	assert.Equal(t, []byte{0, 0, 0, 0x3c, 0, 0x40}, got["half"].Data[:6])
	one, err := checkpoint.ParseTorch(torchFile(t, "one.bin"))
	require.NoError(t, err)
	assert.Len(t, one, 1)
}

// TestHostileTorch: what is no weights is refused, and nothing of it runs.
func TestHostileTorch(t *testing.T) {
	for name, want := range map[string]string{
		"system":          `"posix.system" does not belong to weights: it is not loaded`,
		"deep":            "something else than tensors",
		"nested":          `entry 1, "other", is no tensor`,
		"compressed":      "is compressed or encrypted",
		"cut":             "ends too early",
		"huge":            "a tensor of the shape",
		"expanded":        "leaves its storage of 24",
		"outside":         "leaves its storage of 24",
		"negative":        "the pickle is damaged",
		"backwards":       "the pickle is damaged",
		"long-stride":     "a tensor of the shape",
		"short-storage":   "has 92 bytes, 24 elements of F32 take more",
		"no-storage":      "has 0 bytes",
		"unknown-storage": `"torch.QInt8Storage" does not belong to weights`,
		"itself":          `entry 0, "x", is no tensor`,
		"no-weights":      "something else than tensors",
	} {
		_, err := checkpoint.ParseTorch(torchFile(t, name+".bin"))
		assert.ErrorContains(t, err, want, name)
	}
	_, err := checkpoint.ParseTorch([]byte("\x80\x02}."))
	assert.ErrorContains(t, err, "before 1.6")
	_, err = checkpoint.ParseTorch([]byte("PK"))
	assert.Error(t, err)
}

// TestFolderOfTorch: a model is the same whether its folder has safetensors or files of torch.save.
func TestFolderOfTorch(t *testing.T) {
	want, got := open(t, "../decode/testdata/families/qwen3"), open(t, "testdata/torch/qwen3")
	assert.Equal(t, want.Config, got.Config)
	for i, x := range want.Tensors() {
		assert.Equal(t, x.All(), got.Tensors()[i].All(), x.Part)
	}
	open(t, "testdata/torch/qwen3/pytorch_model-00001-of-00002.bin")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/config.json", torchFile(t, "qwen3/config.json"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/pytorch_model.bin", torchFile(t, "qwen3/pytorch_model-00001-of-00002.bin"), 0o600))
	_, err := checkpoint.Open(dir)
	assert.ErrorContains(t, err, "there is no tensor for")
}

// FuzzTorch: no bytes make the reader panic, hang, or take more memory than their number says.
func FuzzTorch(f *testing.F) {
	files, err := filepath.Glob("testdata/torch/*.bin")
	require.NoError(f, err)
	for _, name := range files {
		f.Add(torchFile(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		arrays, err := checkpoint.ParseTorch(bytes.Clone(b))
		if err != nil {
			return
		}
		for _, a := range arrays {
			n := len(a.Data)
			for _, d := range a.Shape {
				if d == 0 {
					assert.Zero(t, n)
					return
				}
				n /= d
			}
			assert.Positive(t, n)
			assert.LessOrEqual(t, len(a.Data), len(b))
		}
	})
}
