package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/ref"
)

// units tests sums in whole units: for every number of columns about a vector and a block, with limits that are whole numbers and others,
// of values that are whole, of which few or all are not, and of rows that end early.
func (s Suite) units(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	inf := float32(math.Inf(1))
	for _, n := range []int{1, 3, 4, 7, 8, 12, 17, 32, 33, 67, 96, 5000} {
		for _, rows := range []float64{0, 0.5, 1, 2.5, 16, 301} {
			if rows*float64(n) > 13000 {
				continue
			}
			for _, limits := range [][2]float32{{-inf, inf}, {0, inf}, {0, 6}, {-0.1, 0.3}, {-7, -7}} {
				for _, small := range []int{-30, -12, 0} {
					const scale = 1 << 20
					x := s.Memory.New(int(rows * float64(n)))
					for i := range x {
						x[i] = float32(rng.NormFloat64())
						switch rng.IntN(50) {
						case 0:
							x[i] = float32(math.Ldexp(float64(x[i]), small))
						case 1:
							x[i] = float32(math.Copysign(0, float64(x[i])))
						case 2:
							x[i] *= 1 << 23
						default:
							if small < 0 { // whole
								x[i] = float32(math.RoundToEven(float64(x[i])*(1<<16)) / (1 << 16))
							}
						}
					}
					want, got := make([]int64, n), make([]int64, n)
					for i := range want {
						want[i] = int64(rng.Uint64() >> 4)
					}
					copy(got, want)
					wantOdd, gotOdd := map[int]float32{}, map[int]float32{}
					ref.AddUnits(want, x, scale, limits[0], limits[1], func(i int, v float32) { wantOdd[i] = v })
					s.Table.AddUnits(got, x, scale, limits[0], limits[1], func(i int, v float32) {
						gotOdd[i] += v // twice would show
					})
					require.Equal(t, want, got, "%d columns, %v rows within %v", n, rows, limits)
					require.Equal(t, wantOdd, gotOdd, "%d columns, %v rows within %v", n, rows, limits)
				}
			}
		}
	}
	require.NoError(t, s.Memory.Check())
}
