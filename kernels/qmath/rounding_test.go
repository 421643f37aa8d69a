package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rows are what the names of the modes say about these numbers, written down by hand.
func TestRound(t *testing.T) {
	xs := []float64{-2.5, -1.5, -1.2, -0.5, -0.3, 0.3, 0.5, 1.2, 1.5, 2.5, 2.7}
	for mode, want := range map[Rounding][]float64{
		HalfEven:         {-2, -2, -1, 0, 0, 0, 0, 1, 2, 2, 3},
		HalfUp:           {-2, -1, -1, 0, 0, 0, 1, 1, 2, 3, 3},
		HalfDown:         {-3, -2, -1, -1, 0, 0, 0, 1, 1, 2, 3},
		HalfTowardsZero:  {-2, -1, -1, 0, 0, 0, 0, 1, 1, 2, 3},
		HalfAwayFromZero: {-3, -2, -1, -1, 0, 0, 1, 1, 2, 3, 3},
		Up:               {-2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3},
		Down:             {-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2},
	} {
		for i, x := range xs {
			assert.Equal(t, want[i], mode.Round(x)+0, "%v of %v", mode, x)
		}
	}
}

// The largest numbers below a half, and those that have no fractional part to speak of, defeat rounding by Floor(x + 0.5).
func TestRoundHard(t *testing.T) {
	below := math.Nextafter(0.5, 0)
	for _, mode := range []Rounding{HalfEven, HalfUp, HalfDown, HalfTowardsZero, HalfAwayFromZero} {
		assert.Zero(t, mode.Round(below), mode)
		assert.Zero(t, mode.Round(-below), mode)
	}
	for mode := HalfEven; mode <= Down; mode++ {
		for _, x := range []float64{1<<52 + 1, 1<<53 - 1, -(1<<52 + 1), 1e300, math.Inf(1), math.Inf(-1)} {
			assert.Equal(t, x, mode.Round(x), mode)
		}
		assert.True(t, math.IsNaN(mode.Round(math.NaN())), mode)
	}
}

func TestRoundingText(t *testing.T) {
	for mode := HalfEven; mode <= Down; mode++ {
		text, err := mode.MarshalText()
		require.NoError(t, err)
		var back Rounding
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, mode, back)
	}
	_, err := Rounding(99).MarshalText()
	assert.Error(t, err)
	var r Rounding
	assert.Error(t, r.UnmarshalText([]byte("sideways")))
}
