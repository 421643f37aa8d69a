package qmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Integers are the nearest ones, ties to even, limited; NaN and infinite numbers have a code of their own.
func TestFixedCodes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, f := range []Fixed{{0.25, 100}, {0.1, 100}, {3, 100}, {0x1p-1010, 100}} {
		src := []float32{0, float32(math.Copysign(0, -1)), float32(f.Step), float32(-2 * f.Step), float32(1.4 * f.Step), float32(-1.6 * f.Step),
			float32(100 * f.Step), float32(1000 * f.Step), float32(-1000 * f.Step)}
		want := []int16{0, 0, 1, -2, 1, -2, 100, 100, -100}
		limited := uint64(2)
		if f.Step < 1e-100 { // no float32
			want, limited = make([]int16, len(src)), 0
		}
		dst := make([]int16, len(src))
		n, finite := f.Codes(dst, src)
		require.Equal(t, want, dst, "step %g", f.Step)
		require.Equal(t, limited, n)
		require.True(t, finite)
	}
	f := Fixed{0.5, 10}
	dst := make([]int16, 7)
	n, finite := f.Codes(dst, []float32{nan, inf, -inf, 0.25, 0.75, 1.25, -0.25})
	require.Equal(t, []int16{NotFinite, NotFinite, NotFinite, 0, 2, 2, 0}, dst)
	require.Zero(t, n)
	require.False(t, finite)
}

func TestFixedFor(t *testing.T) {
	for _, largest := range []float32{1, 3, 2047, 2048, 0x1p-20, 1e30} {
		f := FixedFor(largest, 2047, 4095)
		require.LessOrEqual(t, float64(largest)/f.Step, 2047.0)
		require.Greater(t, float64(largest)/f.Step, 2047.0/2)
		m, _ := math.Frexp(f.Step)
		require.Equal(t, 0.5, m)
	}
	require.Equal(t, Fixed{1, 4095}, FixedFor(0, 2047, 4095))
	require.Equal(t, Fixed{1, 4095}, FixedFor(float32(math.Inf(1)), 2047, 4095))
}
