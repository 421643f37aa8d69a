package texts

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
)

// TestRelativeErrors: more bits lose less of every matrix, and types whose blocks rows are not wide enough for have no matrix.
func TestRelativeErrors(t *testing.T) {
	ctx := context.Background()
	m := weightstest.Model(t, small, 3)
	e, err := decode.New(ctx, m, decode.Options{Weights: decode.Weights{Float: true}})
	require.NoError(t, err)
	imatrix, err := Importance(ctx, e, ids())
	require.NoError(t, err)
	last := map[checkpoint.Part]float64{}
	for _, kind := range []checkpoint.Type{checkpoint.IQ4NL, checkpoint.GGQ50, checkpoint.GGQ8} {
		lost, tensors, err := RelativeErrors(ctx, m, imatrix, kind, true, 2)
		require.NoError(t, err)
		require.Len(t, lost, 7*small.Layers+2)
		for p, v := range lost {
			require.Equal(t, kind, tensors[p].Type)
			require.Positive(t, v)
			if was, ok := last[p]; ok {
				require.Less(t, v, was, "%s of %s", kind, p)
			}
		}
		last = lost
	}
	lost, _, err := RelativeErrors(ctx, m, imatrix, checkpoint.Q4K, false, 1)
	require.NoError(t, err)
	assert.Empty(t, lost)
}

// TestRelativeError: however many weights are read at once.
func TestRelativeError(t *testing.T) {
	row := func(x ...float32) *checkpoint.Tensor {
		data, err := binary.Append(nil, binary.LittleEndian, x)
		require.NoError(t, err)
		return checkpoint.NewTensor(checkpoint.Part{}, "", len(x)/2, 2, checkpoint.F32, data, nil, 0)
	}
	x, y := row(1, 2, 3, 4), row(1, 1, 3, 6)
	for _, strip := range []int{1, 4, 100} {
		assert.InDelta(t, 5.0/30, relativeError(&checkpoint.Model{}, x, y, nil, strip), 1e-15)
		assert.InDelta(t, 15.0/(10+60), relativeError(&checkpoint.Model{}, x, y, []float64{1, 3}, strip), 1e-15)
		assert.Zero(t, relativeError(&checkpoint.Model{}, row(0, 0), row(0, 0), nil, strip))
		assert.False(t, math.IsNaN(relativeError(&checkpoint.Model{}, x, x, []float64{0, 0}, strip)))
	}
}

// TestLargest: what a matrix reads at most lies between the root of its mean square and that of its sum of squares.
func TestLargest(t *testing.T) {
	ctx := context.Background()
	e, err := decode.New(ctx, weightstest.Model(t, small, 3), decode.Options{Weights: decode.Weights{Float: true}})
	require.NoError(t, err)
	imatrix, err := Importance(ctx, e, ids())
	require.NoError(t, err)
	most, err := Largest(ctx, e, ids())
	require.NoError(t, err)
	require.Len(t, most, 7*small.Layers+1) // and the classifier
	for p, v := range most {
		i := slices.IndexFunc(imatrix.Entries, func(x checkpoint.InputSquares) bool { return x.Name == checkpoint.GGUFName(p) })
		require.GreaterOrEqual(t, i, 0, p)
		rows, largest := imatrix.Entries[i].Counts[0], slices.Max(imatrix.Entries[i].Sums)
		require.LessOrEqual(t, float64(v*v), float64(largest)*1.0001, p)
		require.GreaterOrEqual(t, float64(v*v), float64(largest/rows)*0.9999, p)
	}
}
