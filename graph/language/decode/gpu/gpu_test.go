package gpu_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/graph/language/decode/gpu"
	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
)

// engine packs a model of the test data.
func engine(t testing.TB, name string, o decode.Options) *decode.Engine {
	t.Helper()
	m, err := checkpoint.Open(file(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	e, err := decode.New(context.Background(), m, o)
	require.NoError(t, err)
	return e
}

func file(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/")
	}
	return filepath.Join(dir, "models", "llm", name)
}

// passes runs three texts through an engine: prompts of different lengths at once, then a token of each, again and again, then a
// piece of one of so many tokens. It returns all logits.
func passes(t *testing.T, e *decode.Engine, piece int) (all []float32) {
	t.Helper()
	caches := []*decode.Cache{decode.NewCache(&e.Config), decode.NewCache(&e.Config), decode.NewCache(&e.Config)}
	run := func(batch ...decode.Sequence) {
		logits, err := e.Forward(context.Background(), batch)
		require.NoError(t, err)
		all = append(all, logits...)
	}
	run(decode.Sequence{Cache: caches[0], Tokens: []int{1, 403, 407, 261, 378}, Want: 2},
		decode.Sequence{Cache: caches[1], Tokens: []int{1}, Want: 1})
	for i := range 4 {
		run(decode.Sequence{Cache: caches[0], Tokens: []int{17 + i}, Want: 1}, decode.Sequence{Cache: caches[1], Tokens: []int{9 + i}, Want: 1})
	}
	long := make([]int, piece)
	for i := range long {
		long[i] = (i*37 + 5) % e.Vocab
	}
	run(decode.Sequence{Cache: caches[1], Tokens: long, Want: 1}, decode.Sequence{Cache: caches[2], Tokens: []int{1, 2}, Want: 0})
	run(decode.Sequence{Cache: caches[2], Tokens: []int{3}, Want: 1})
	return all
}

// TestDeviceGivesTheSameLogits: an engine on a device is the engine on the processor, bit for bit, for all forms of weights.
func TestDeviceGivesTheSameLogits(t *testing.T) {
	long := longtest.Wanted(t)
	for i, c := range []struct {
		name, file string
		weights    decode.Weights
	}{
		{"floats", "stories260K.bin", decode.Weights{}},
		{"stored codes", "stories260K-q8.bin", decode.Weights{}},
		{"groups of 32", "stories260K.bin", decode.Weights{Group: 32}},
		{"groups of 4, 4 bits", "stories260K.bin", decode.Weights{Group: 4, Bits: 4}},
		{"groups of 32, 4 bits", "stories260K.bin", decode.Weights{Group: 32, Bits: 4}},
		{"groups that cross rows", "stories260K.bin", decode.Weights{Group: 128}},
		{"groups of 8 and floats", "stories260K.bin", decode.Weights{Group: 8, Float: true}},
		{"groups of 16, 4 bits, and floats", "stories260K.bin", decode.Weights{Group: 16, Bits: 4, Float: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			piece := 6
			if c.weights == (decode.Weights{}) {
				piece = 70 // beyond the first memory of a cache
			}
			want := passes(t, engine(t, c.file, decode.Options{Weights: c.weights}), piece)
			cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
				if d.Emulated && !long && (i+d.Arch)%2 != 0 {
					return // the other one of the interpreted devices, 61 and 80
				}
				e := engine(t, c.file, decode.Options{Weights: c.weights, Device: gpu.On(d)})
				got := passes(t, e, piece)
				require.NoError(t, e.Close())
				require.Len(t, got, len(want))
				if !slices.Equal(got, want) {
					different := 0
					for i := range got {
						if got[i] != want[i] {
							different++
						}
					}
					assert.Zero(t, different, "of %d logits", len(got))
				}
				assert.Zero(t, d.PoolStats().Allocated, "memory is left behind")
			})
		})
	}
}

// TestDeviceRefuses: what an engine on a device cannot do is said.
func TestDeviceRefuses(t *testing.T) {
	d := cudatest.Device(t, 80)
	m, err := checkpoint.Open(file(t, "stories260K.bin"))
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	_, err = decode.New(context.Background(), m, decode.Options{Device: gpu.On(d), Reference: true})
	require.ErrorContains(t, err, "processor")
	e, err := decode.New(context.Background(), m, decode.Options{Device: gpu.On(d)})
	require.NoError(t, err)
	_, err = e.Replace(context.Background(), m, checkpoint.Part{Role: checkpoint.Query}, decode.Weights{Group: 4})
	require.ErrorContains(t, err, "not replaced")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	cache := decode.NewCache(&e.Config)
	_, err = e.Forward(cancelled, []decode.Sequence{{Cache: cache, Tokens: []int{1}, Want: 1}})
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, cache.Len())
	require.NoError(t, e.Close())
	assert.Zero(t, d.PoolStats().Allocated)
}
