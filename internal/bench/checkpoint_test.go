package bench_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/bench"
)

// Both versions are read back as models of the shape, and run with logits of an ordinary size.
func TestRandomCheckpointsRun(t *testing.T) {
	shape := checkpoint.Config{Family: checkpoint.Llama, Dim: 64, Hidden: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 16,
		Vocab: 300, Context: 32,
		NormEps: 1e-5, RopeTheta: 10000, BOS: 1, EOS: []int{1}}
	for _, group := range []int{0, 32} {
		for _, tied := range []bool{false, true} {
			c := shape
			c.Tied = tied
			var b, again, other bytes.Buffer
			require.NoError(t, bench.WriteCheckpoint(&b, c, group, 1))
			require.NoError(t, bench.WriteCheckpoint(&again, c, group, 1))
			require.NoError(t, bench.WriteCheckpoint(&other, c, group, 2))
			assert.True(t, bytes.Equal(b.Bytes(), again.Bytes()))
			assert.False(t, bytes.Equal(b.Bytes(), other.Bytes()))
			path := filepath.Join(t.TempDir(), "random.bin")
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
			m, err := checkpoint.Open(path)
			require.NoError(t, err)
			assert.Equal(t, c, m.Config)
			e, err := decode.New(context.Background(), m, decode.Options{})
			require.NoError(t, err)
			logits, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&e.Config), Tokens: []int{1, 2, 3}, Want: 3}})
			require.NoError(t, err)
			sum := 0.0
			for _, x := range logits {
				sum += float64(x) * float64(x)
			}
			assert.InDelta(t, 1, math.Sqrt(sum/float64(len(logits))), 0.3, "group %d", group)
			require.NoError(t, m.Close())
		}
	}
}

func TestRandomCheckpointsThatCannotBe(t *testing.T) {
	c, err := bench.CheckpointShape("110M")
	require.NoError(t, err)
	assert.ErrorContains(t, bench.WriteCheckpoint(io.Discard, c, 100, 1), "groups of 100 do not divide")
	_, err = bench.CheckpointShape("7B")
	assert.ErrorContains(t, err, `no shape "7B": there are 15M, 110M, 1.1B`)
}
