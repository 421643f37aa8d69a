package analysis_test

import (
	"encoding/base64"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

func painted(t *testing.T, text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return b
}

// Rows are the channels of what has them in front, and the last dimension of what has them there.
func TestHeatsAreCutIntoRows(t *testing.T) {
	for _, c := range []struct {
		shape         []int
		what          string
		rows, columns int
		second        int // the place of row 1, column 0
	}{
		{[]int{1, 3, 4, 5}, "channel", 3, 20, 20},
		{[]int{1, 50, 6}, "column", 6, 50, 1},
		{[]int{1, 1, 80, 90}, "row", 80, 90, 90},
		{[]int{1, 7}, "row", 1, 7, -1},
	} {
		p := analysis.PlaneOf(c.shape)
		assert.Equal(t, []any{c.what, c.rows, c.columns}, []any{p.What, p.Rows, p.Columns}, "%v", c.shape)
		if c.second >= 0 && p.What != "column" {
			assert.Equal(t, c.second, p.At(1, 0), "%v", c.shape)
		}
	}
	p, ok := analysis.ChannelOf([]int{1, 3, 2, 2}, 2)
	require.True(t, ok)
	assert.Equal(t, 11, p.At(1, 1))
	for _, channel := range []int{-1, 3} {
		_, ok = analysis.ChannelOf([]int{1, 3, 2, 2}, channel)
		assert.False(t, ok)
	}
}

// One outlier takes the ends of the scale, and nothing from the others; the difference has its sign, and its own scale.
func TestHeatsAreNotFlattenedByAnOutlier(t *testing.T) {
	x, q := make([]float32, 400), make([]float32, 400)
	for i := range x {
		x[i] = float32(i%200) / 200
		q[i] = x[i]
	}
	x[7], q[7], q[205] = 1e6, 1e6, x[205]-0.5
	h := analysis.NewHeat("x", analysis.PlaneOf([]int{1, 2, 200}), x, q, nil)
	assert.Less(t, h.Hi, 1.1)
	assert.InDelta(t, 0.5, h.Most, 1e-6)
	colours := painted(t, h.Float)
	assert.Len(t, colours, h.Rows*h.Columns)
	assert.Less(t, colours[h.Columns/4], colours[h.Columns-2])
	low := byte(255)
	for _, c := range painted(t, h.Difference) {
		low = min(low, c)
	}
	assert.Equal(t, byte(1), low)
	assert.Empty(t, h.Int8)
	require.Len(t, h.NSR, 2)
	assert.Zero(t, *h.NSR[0])
	assert.Positive(t, *h.NSR[1])
	x[3] = float32(math.NaN())
	h = analysis.NewHeat("x", analysis.PlaneOf([]int{1, 2, 200}), x, q, q)
	assert.Nil(t, h.NSR[0])
	assert.NotEmpty(t, h.Int8)
}
