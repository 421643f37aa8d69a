// Package weightstest has what the tests of all formats of checkpoints need: models with random weights, and a round trip.
//
// Unstable: it may change without notice.
package weightstest

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
)

// Llama is a small model with grouped-query attention and a classifier of its own. All its rows are whole blocks of 32.
func Llama() checkpoint.Config {
	return checkpoint.Config{
		Family: checkpoint.Llama, Dim: 64, Hidden: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16, Vocab: 300, Context: 32,
		NormEps: 1e-5, RopeTheta: 10000, Pairing: checkpoint.Interleaved, BOS: 1, EOS: []int{1},
	}
}

// Model returns a model of a shape with random float32 weights, all different from each other but for a group of zeros in each matrix.
func Model(t testing.TB, c checkpoint.Config, seed uint64) *checkpoint.Model {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	var tensors []*checkpoint.Tensor
	for _, p := range c.Parts() {
		rows, cols := c.Shape(p.Role)
		b := make([]byte, 0, 4*rows*cols)
		for i := range rows * cols {
			v := float32(r.NormFloat64()) * 0.1
			if p.Role.Vector() {
				v++
			} else if i >= cols && i < 2*cols {
				v = 0
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		tensors = append(tensors, checkpoint.NewTensor(p, p.String(), rows, cols, checkpoint.F32, b, nil, 0))
	}
	m, err := checkpoint.New(c, "random", tensors, nil)
	require.NoError(t, err)
	return m
}

// Edit returns the model with the elements of a part changed.
func Edit(t testing.TB, m *checkpoint.Model, p checkpoint.Part, change func(x []float32)) *checkpoint.Model {
	t.Helper()
	var tensors []*checkpoint.Tensor
	for _, old := range m.Tensors() {
		x := old.All()
		if old.Part == p {
			change(x)
		}
		var b []byte
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		tensors = append(tensors, checkpoint.NewTensor(old.Part, old.Name, old.Rows, old.Cols, checkpoint.F32, b, nil, 0))
	}
	out, err := checkpoint.New(m.Config, m.Format, tensors, nil)
	require.NoError(t, err)
	return out
}

// Bytes writes a model on several threads, and on one: the bytes are the same, and as many as the layout says.
func Bytes(t testing.TB, f *weights.File) []byte {
	t.Helper()
	var one, three bytes.Buffer
	last := int64(0)
	require.NoError(t, f.Write(context.Background(), &three, weights.Run{Threads: 3, Progress: func(done int64) { last = done }}))
	require.NoError(t, f.Write(context.Background(), &one, weights.Run{Threads: 1}))
	require.True(t, bytes.Equal(one.Bytes(), three.Bytes()))
	assert.Equal(t, f.Size(), int64(one.Len()))
	assert.Equal(t, f.Elements(), last)
	return one.Bytes()
}

// RoundTrip writes a model, reads it and compares.
func RoundTrip(t testing.TB, format weights.Format, m *checkpoint.Model,
	o weights.Options) (*weights.File, *checkpoint.Model, weights.Comparison) {
	t.Helper()
	f, err := format.Layout(m, o)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model"+format.Suffix)
	require.NoError(t, os.WriteFile(path, Bytes(t, f), 0o600))
	back, err := format.Open(path, &f.Config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, back.Close()) })
	c, err := f.Compare(context.Background(), back, weights.Run{Threads: 2})
	require.NoError(t, err)
	assert.Equal(t, f.Elements(), c.Weights)
	return f, back, c
}

// Opens writes a model with the config.json beside it, opens it as any checkpoint, and compares.
func Opens(t testing.TB, format weights.Format, m *checkpoint.Model, o weights.Options) {
	t.Helper()
	f, err := format.Layout(m, o)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model"+format.Suffix)
	require.NoError(t, os.WriteFile(path, Bytes(t, f), 0o600))
	shape, err := checkpoint.ShapeJSON(&f.Config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "model"+checkpoint.ShapeSuffix), shape, 0o600))
	assert.True(t, checkpoint.Is(path))
	back, err := checkpoint.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, back.Close()) })
	assert.Empty(t, back.Warnings)
	assert.Equal(t, f.Config, back.Config)
	_, err = f.Compare(context.Background(), back, weights.Run{Threads: 1})
	require.NoError(t, err)
}

// Faults changes single bytes of a written file, spread over all of it but the last ones, and requires that reading or comparing it says
// so. skip says which bytes mean nothing.
func Faults(t testing.TB, format weights.Format, m *checkpoint.Model, o weights.Options, skip func(at int) bool) {
	t.Helper()
	f, err := format.Layout(m, o)
	require.NoError(t, err)
	b := Bytes(t, f)
	path := filepath.Join(t.TempDir(), "model"+format.Suffix)
	tried := 0
	for at := 0; at < len(b); at += 1 + len(b)/150 {
		if skip != nil && skip(at) {
			continue
		}
		tried++
		b[at] ^= 0x55
		require.NoError(t, os.WriteFile(path, b, 0o600))
		b[at] ^= 0x55
		back, err := format.Open(path, &f.Config)
		if err != nil {
			continue
		}
		_, err = f.Compare(context.Background(), back, weights.Run{Threads: 1})
		assert.Error(t, err, "byte %d of %d", at, len(b))
		require.NoError(t, back.Close())
	}
	assert.Greater(t, tried, 50)
	for _, n := range []int{0, 10, len(b) / 2, len(b) - 32} {
		require.NoError(t, os.WriteFile(path, b[:n], 0o600))
		_, err := format.Open(path, &f.Config)
		assert.Error(t, err, "cut to %d of %d bytes", n, len(b))
	}
}
