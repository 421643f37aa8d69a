package kerneltest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// gram tests sums of products of columns: of every number of rows about a block, of ordinary codes and of the largest, whose sums leave 32
// bits at once.
func (s Suite) gram(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	const wide = 2 * kernels.GramLanes
	for _, limit := range []int{255, 4095, qmath.MaxFixed} {
		for _, pairs := range []int{1, 2, 3, 31, 63, 64, 65, 130, 400} {
			a, b := make([]int16, pairs*wide), make([]int16, pairs*wide)
			for i := range a {
				a[i], b[i] = int16(rng.IntN(2*limit+1)-limit), int16(rng.IntN(2*limit+1)-limit)
			}
			if pairs%2 == 0 { // all as large as can be
				for i := range a {
					a[i], b[i] = int16(limit), int16(limit)
					if i%3 == 0 {
						b[i] = int16(-limit)
					}
				}
			}
			want := make([]int64, kernels.GramLanes*kernels.GramLanes)
			for i := range want {
				want[i] = int64(rng.Uint64() >> 8)
			}
			got := append([]int64{}, want...)
			ref.Gram(want, a, b)
			s.Table.Gram(got, a, b, limit*limit)
			require.Equal(t, want, got, "%d pairs of rows of up to %d", pairs, limit)
		}
	}
	require.Panics(t, func() { s.Table.Gram(make([]int64, 1), make([]int16, wide), make([]int16, wide), 1) })
	require.Panics(t, func() {
		s.Table.Gram(make([]int64, kernels.GramLanes*kernels.GramLanes), make([]int16, 2*wide), make([]int16, wide), 1)
	})
}
