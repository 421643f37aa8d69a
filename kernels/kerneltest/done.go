package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
)

// spoiled is what rows are overwritten with when they are done.
const spoiled = -555

// done gives an epilogue a Done that takes every row out of dst, whose rows of n elements are ldd apart, and leaves others in
// its place. What it returns puts the rows back: they then must be what they are without Done. It fails where a row was not done
// exactly once, or was written to afterwards.
func (s Suite) done(t *testing.T, ep kernels.Epilogue, dst []float32, rows, n, ldd int) (kernels.Epilogue, func()) {
	t.Helper()
	taken, times := make([]float32, rows*n), make([]int, rows)
	row := func(i int) []float32 { return dst[i*ldd:][:n] }
	ep.Done = func(from, to int) {
		for i := from; i < to; i++ {
			times[i]++
			copy(taken[i*n:][:n], row(i))
			for k := range n {
				row(i)[k] = spoiled
			}
		}
	}
	return ep, func() {
		for i := range times {
			if n == 0 {
				break
			}
			require.Equal(t, 1, times[i], "row %d of %d is done once", i, rows)
			for _, v := range row(i) {
				require.Equal(t, float32(spoiled), v, "row %d of %d is left alone when it is done", i, rows)
			}
			copy(row(i), taken[i*n:][:n])
		}
	}
}
