package checkpoint_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
)

// llm returns the folder with trained checkpoints, and skips the test where there is none.
func llm(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/")
	}
	return filepath.Join(dir, "models", "llm")
}

func open(t *testing.T, path string) *checkpoint.Model {
	t.Helper()
	m, err := checkpoint.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// TestVersionsOfLlama2cHoldTheSameModel: versions 0 and 1 hold the same numbers, version 2 codes of them within half a step.
func TestVersionsOfLlama2cHoldTheSameModel(t *testing.T) {
	dir := llm(t)
	v0, v1, v2 := open(t, dir+"/stories260K.bin"), open(t, dir+"/stories260K-v1.bin"), open(t, dir+"/stories260K-q8.bin")
	assert.Equal(t, checkpoint.Config{
		Family: checkpoint.Llama, Dim: 64, Hidden: 172, Layers: 5, Heads: 8, KVHeads: 4, HeadDim: 8, Vocab: 512, Context: 512,
		NormEps: 1e-5, RopeTheta: 10000, Tied: true, BOS: 1, EOS: []int{1},
	}, v0.Config)
	assert.Equal(t, v0.Config, v1.Config)
	assert.Equal(t, v0.Config, v2.Config)
	assert.Len(t, v0.RopeTables, 4*512*8)
	for i, a := range v0.Tensors() {
		b, c := v1.Tensors()[i], v2.Tensors()[i]
		want := a.All()
		assert.Equal(t, want, b.All(), "%s", a.Part)
		if a.Role.Vector() {
			assert.Equal(t, want, c.All(), "%s", a.Part)
			continue
		}
		require.Equal(t, 8, c.GroupSize())
		codes, scales := make([]int8, c.Len()), make([]float32, c.Len()/8)
		c.Codes(codes, scales, 0)
		for k, x := range want {
			require.LessOrEqual(t, math.Abs(float64(x-float32(codes[k])*scales[k/8])), 0.5001*float64(scales[k/8]), "%s element %d", a.Part, k)
		}
	}
}

// small writes a checkpoint of version 0: dim 16, hidden 16, 1 layer, 2 heads, vocabulary 16, context 8, numbers ascending.
func small(t *testing.T, edit func(header []int32, floats []float32) ([]int32, []float32)) string {
	t.Helper()
	header := []int32{16, 16, 1, 2, 2, 16, 8}
	floats := make([]float32, 16*16+16+4*256+16+3*256+16+8*8)
	for i := range floats {
		floats[i] = float32(i)
	}
	if edit != nil {
		header, floats = edit(header, floats)
	}
	b, err := binary.Append(nil, binary.LittleEndian, header)
	require.NoError(t, err)
	b, err = binary.Append(b, binary.LittleEndian, floats)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "small.bin")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// TestLegacyOrder: the tensors of version 0 follow each other in the order of its exporter.
func TestLegacyOrder(t *testing.T) {
	m := open(t, small(t, nil))
	next := float32(0)
	for _, p := range []struct {
		role  checkpoint.Role
		layer int
		n     int
	}{
		{checkpoint.Embedding, -1, 256}, {checkpoint.AttentionNorm, 0, 16}, {checkpoint.Query, 0, 256}, {checkpoint.Key, 0, 256},
		{checkpoint.Value, 0, 256}, {checkpoint.Output, 0, 256}, {checkpoint.FeedNorm, 0, 16}, {checkpoint.Gate, 0, 256},
		{checkpoint.Down, 0, 256}, {checkpoint.Up, 0, 256}, {checkpoint.FinalNorm, -1, 16},
	} {
		x := m.Tensor(p.role, p.layer).All()
		require.Len(t, x, p.n)
		assert.Equal(t, next, x[0], "%s", p.role)
		next += float32(p.n)
	}
	assert.Equal(t, m.Tensor(checkpoint.Embedding, -1), m.Tensor(checkpoint.Classifier, -1))
}

func TestBadLlama2c(t *testing.T) {
	for _, c := range []struct {
		name, want string
		edit       func(h []int32, x []float32) ([]int32, []float32)
	}{
		{"cut", "asks for 8668 bytes, the file has 8664", func(h []int32, x []float32) ([]int32, []float32) { return h, x[:len(x)-1] }},
		{"too long", "asks for 8668 bytes, the file has 8672", func(h []int32, x []float32) ([]int32, []float32) { return h, append(x, 0) }},
		{"no heads", "not a known checkpoint", func(h []int32, x []float32) ([]int32, []float32) { h[3] = 0; return h, x }},
		{"heads that do not share", "not a known checkpoint", func(h []int32, x []float32) ([]int32, []float32) { h[4] = 3; return h, x }},
		{"huge", "asks for", func(h []int32, x []float32) ([]int32, []float32) { h[2] = 200; return h, x }},
		{"empty", "not a known checkpoint (0 bytes)", func([]int32, []float32) ([]int32, []float32) { return nil, nil }},
	} {
		path := small(t, c.edit)
		_, err := checkpoint.Open(path)
		assert.ErrorContains(t, err, c.want, c.name)
		assert.ErrorContains(t, err, "checkpoint: "+path, c.name)
	}
}

func TestCutVersionsAreErrors(t *testing.T) {
	dir := llm(t)
	for _, name := range []string{"stories260K.bin", "stories260K-v1.bin", "stories260K-q8.bin"} {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, n := range []int{40, 300, len(whole) / 2, len(whole) - 1} {
			path := filepath.Join(t.TempDir(), "cut.bin")
			require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
			_, err := checkpoint.Open(path)
			assert.Error(t, err, "%s cut to %d", name, n)
		}
		path := filepath.Join(t.TempDir(), "long.bin")
		require.NoError(t, os.WriteFile(path, append(whole, 1, 2, 3, 4), 0o600))
		_, err = checkpoint.Open(path)
		assert.Error(t, err, name)
	}
}
