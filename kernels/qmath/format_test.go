package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every code of a format that is a number survives being quantized again, and the largest is QMax.
func TestCodesOfFormatsComeBack(t *testing.T) {
	for _, kind := range NumberTypes() {
		f := FormatOf(kind)
		require.NoError(t, f.CheckFormat())
		c := Codec{Format: f, Scale: 0.5}
		largest := float32(0)
		for code := range int32(1) << f.Bits {
			v := c.Dequantize(code)
			if v-v != 0 { // NaN and infinity have codes too
				continue
			}
			require.Equal(t, v, c.Fake(v), "%s code %d", kind, code)
			largest = max(largest, v)
		}
		lo, hi := c.Limits()
		require.Equal(t, largest, hi)
		require.Equal(t, -largest, lo)
		require.Equal(t, hi, c.Fake(float32(math.Inf(1))), "infinity saturates")
		require.Equal(t, lo, c.Fake(2*lo))
		require.Zero(t, c.Fake(float32(math.NaN())))
	}
}

// The nearest number wins, compared with a search over all codes.
func TestFormatsRoundToTheNearest(t *testing.T) {
	for _, kind := range NumberTypes() {
		c := Codec{Format: FormatOf(kind), Scale: 1}
		_, hi := c.Limits()
		for i := range 4001 {
			x := hi * (float32(i)/2000 - 1)
			best := math.Inf(1)
			for code := range int32(1) << c.Bits {
				if d := math.Abs(float64(c.Dequantize(code)) - float64(x)); d < best {
					best = d
				}
			}
			require.Equal(t, best, math.Abs(float64(c.Fake(x))-float64(x)), "%s of %g", kind, x)
		}
	}
}

func TestFormatsThatAreWrong(t *testing.T) {
	for _, f := range []Format{{}, {Bits: 1, QMax: 1}, {Bits: 33, QMax: 1}, {Bits: 8, QMin: 1, QMax: 1}, {Bits: 8, QMax: 256},
		{Bits: 8, QMin: -448, QMax: 447, Type: FloatE4M3}, {Type: 99}} {
		require.Error(t, f.CheckFormat())
	}
	require.NoError(t, IntegerFormat(16, false).CheckFormat())
	require.Equal(t, Format{Bits: 8, QMax: 255}, IntegerFormat(8, true))
	require.Equal(t, "uint8", IntegerFormat(8, true).FormatName())
	require.Equal(t, "int4", IntegerFormat(4, false).FormatName())
	require.Equal(t, "e4m3", FormatOf(FloatE4M3).FormatName())
}
