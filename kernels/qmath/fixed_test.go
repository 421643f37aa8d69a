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

// Many numbers of which none is limited go another way than those beside one that is.
func TestFixedCodesAreTheNearest(t *testing.T) {
	for _, step := range []float64{0x1p-90, 0x1p-8, 1, 0x1p90} {
		f := Fixed{step, MaxFixed}
		var src []float32
		for q := 1 - MaxFixed; q < MaxFixed; q += 7 {
			for _, off := range []float64{-0.5, -0.25, 0, 0.5} {
				src = append(src, float32((float64(q)+off*float64(q/8%2))*step))
			}
		}
		src = append(src, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32)
		dst, beside := make([]int16, len(src)), make([]int16, len(src)+1)
		n, finite := f.Codes(dst, src)
		require.Zero(t, n)
		require.True(t, finite)
		n, _ = f.Codes(beside, append(src, float32(40000*step)))
		require.Equal(t, uint64(1), n)
		require.Equal(t, beside[:len(src)], dst)
		for i, v := range src {
			require.Equal(t, math.RoundToEven(float64(v)/step), float64(dst[i]), "%g of step %g", v, step)
		}
	}
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
