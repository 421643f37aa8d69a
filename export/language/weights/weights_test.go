package weights_test

import (
	"context"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

func TestGroups(t *testing.T) {
	for _, c := range []struct {
		dim, hidden, asked int
		straddle           bool
		fallback           string
		floats             bool
		size, warnings     int
		err                string
	}{
		{64, 128, 0, false, "", false, 64, 0, ""},
		{64, 96, 0, false, "", false, 32, 1, ""},
		{288, 768, 0, false, "", false, 32, 1, ""},
		{288, 768, 96, false, "", false, 96, 0, ""},
		{288, 768, 64, false, "", false, 0, 0, "do not divide the rows of 288 elements of embedding; sizes that fit: 96, 48, 32, 24, 16, 12"},
		{64, 172, 0, true, "", false, 4, 1, ""},
		{64, 172, 8, true, "", false, 8, 1, ""},
		{64, 172, 8, false, "", false, 0, 0, "groups of 8 elements do not divide the rows of 172 elements of down; sizes that fit: 4, 2, 1"},
		{64, 172, 7, true, "", false, 0, 0, "groups of 7 elements do not divide the 19200 elements of embedding"},
		{62, 99, 0, false, "", false, 1, 1, ""},
		{64, 172, 0, true, weights.FallbackError, true, 0, 0, "groups of 64 elements do not divide the rows of 172 elements of down"},
		{64, 172, 8, true, weights.FallbackError, true, 0, 0, "groups of 8 elements do not divide the rows of 172 elements of down"},
		{64, 172, 8, true, weights.FallbackIgnore, true, 8, 1, ""},
		{64, 172, 8, true, weights.FallbackIgnore, false, 0, 0, "and the format has no float matrices; sizes that fit: 4, 2, 1"},
		{64, 172, 32, false, weights.FallbackAdjust, false, 4, 1, ""},
		{64, 172, 3, false, weights.FallbackAdjust, false, 1, 1, ""},
		{64, 172, 4, false, weights.FallbackAdjust, false, 4, 0, ""},
		{64, 128, -3, true, "", false, 0, 0, "groups of -3 elements"},
	} {
		shape := weightstest.Llama()
		shape.Dim, shape.Hidden, shape.HeadDim = c.dim, c.hidden, c.dim/shape.Heads
		asked := weights.Sizing{Asked: c.asked, Fallback: c.fallback, Straddle: c.straddle, Floats: c.floats}
		size, warnings, err := weights.Groups(&shape, asked)
		if c.err != "" {
			assert.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.size, size, "%+v", c)
		assert.Len(t, warnings, c.warnings, "%+v", c)
	}
}

// TestStraddling: the sentence names matrix, width and sizes that fit, and there is none where no group straddles rows.
func TestStraddling(t *testing.T) {
	c := weightstest.Llama()
	c.Hidden = 172
	assert.Empty(t, weights.Straddling(&c, 4))
	assert.Contains(t, weights.Straddling(&c, 8), "groups of 8 elements do not divide the rows of 172 elements of down")
	assert.Contains(t, weights.Straddling(&c, 8), "leaves out the last 4 elements of each row")
	assert.Contains(t, weights.Straddling(&c, 8), "sizes that fit: 4, 2, 1")
}

// file is a layout of all parts of a model.
func file(m *checkpoint.Model, e weights.Encoding) *weights.File {
	f := &weights.File{Source: m, Config: m.Config}
	f.Add([]byte("head"))
	for _, p := range m.Parts() {
		f.Put(p.Role, p.Layer, e)
	}
	return f
}

func TestWritingEndsWithItsContextAndItsWriter(t *testing.T) {
	f := file(weightstest.Model(t, weightstest.Llama(), 1), weights.Float)
	ctx, cancel := context.WithCancel(context.Background())
	err := f.Write(ctx, io.Discard, weights.Run{Threads: 2, Progress: func(done int64) {
		if done > f.Elements()/2 {
			cancel()
		}
	}})
	assert.ErrorIs(t, err, context.Canceled)

	full := errors.New("disk full")
	for _, n := range []int{0, 3, 5, 40} {
		assert.ErrorIs(t, f.Write(context.Background(), &limited{n, full}, weights.Run{Threads: 3}), full)
	}
}

// limited fails after some writes.
type limited struct {
	left int
	err  error
}

func (w *limited) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, w.err
	}
	return len(b), nil
}

// TestNotFiniteWeights: the element is named whatever the encoding, and the same one on any number of threads.
func TestNotFiniteWeights(t *testing.T) {
	part := checkpoint.Part{Role: checkpoint.Down, Layer: 1}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		m := weightstest.Edit(t, weightstest.Model(t, weightstest.Llama(), 1), part, func(x []float32) {
			x[3*96+5], x[9*96] = float32(bad), float32(bad)
		})
		for _, e := range []weights.Encoding{weights.Float, {Type: checkpoint.F16}, {Type: checkpoint.Groups, Group: 8}, {Type: checkpoint.GGQ4},
			{Type: checkpoint.WideQ8, Search: true}} {
			for _, threads := range []int{1, 4} {
				err := file(m, e).Write(context.Background(), io.Discard, weights.Run{Threads: threads})
				assert.ErrorContains(t, err, "(down of layer 1): element [3,5] is", e.Name())
			}
		}
	}
}

// TestAnotherModelIsNotTheSame: a model of another shape, or with one weight changed by less than a step, is found.
func TestAnotherModelIsNotTheSame(t *testing.T) {
	m := weightstest.Model(t, weightstest.Llama(), 1)
	f := file(m, weights.Float)
	c, err := f.Compare(context.Background(), m, weights.Run{Threads: 1})
	require.NoError(t, err)
	assert.Equal(t, weights.Comparison{Tensors: len(m.Parts()), Weights: f.Elements()}, c)

	other := weightstest.Edit(t, m, checkpoint.Part{Role: checkpoint.Key, Layer: 0}, func(x []float32) { x[7] = math.Nextafter32(x[7], 9) })
	_, err = f.Compare(context.Background(), other, weights.Run{Threads: 2})
	assert.ErrorContains(t, err, "key of layer 0: element [0,7] is")

	other.RopeTheta++
	_, err = f.Compare(context.Background(), other, weights.Run{Threads: 2})
	assert.ErrorContains(t, err, "another model")
}
