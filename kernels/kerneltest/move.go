package kerneltest

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// move tests what moves elements and computes nothing: NaN and zeros keep all their bits.
func (s Suite) move(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 3))
	for n := range 70 {
		x, y, dst := s.copyOf(extreme(rng, n)), s.copyOf(extreme(rng, n)), s.Memory.New(n)
		bytes := s.Memory.NewBytes(n)
		first, want := unsafe.Slice((*bool)(unsafe.Pointer(unsafe.SliceData(bytes))), n), make([]float32, n)
		for i := range want {
			if want[i] = y[i]; rng.IntN(2) == 0 {
				first[i], want[i] = true, x[i]
			}
		}
		s.Table.Choose(dst, first, x, y)
		requireSame(t, want, dst, "choosing of %d", n)
		s.Table.Choose(x, first, x, y)
		requireSame(t, want, x, "choosing of %d in place", n)
		require.NoError(t, s.Memory.Check())
	}
	for range 200 {
		rows, cols := rng.IntN(40), rng.IntN(40)
		lds, ldd := cols+rng.IntN(3), rows+rng.IntN(3)
		size := func(n, ld, used int) int { return max(n-1, 0)*ld + min(n, 1)*used }
		src, dst := s.copyOf(extreme(rng, size(rows, lds, cols))), s.Memory.New(size(cols, ldd, rows))
		want := make([]float32, len(dst))
		for i := range rows {
			for j := range cols {
				want[j*ldd+i] = src[i*lds+j]
			}
		}
		s.Table.Transpose(dst, ldd, src, lds, rows, cols)
		requireSame(t, want, dst, "%d x %d in rows of %d to rows of %d", rows, cols, lds, ldd)
		require.NoError(t, s.Memory.Check())
	}
}
