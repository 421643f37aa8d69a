package kerneltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/ref"
)

// compare tests the sums of comparisons on every tail, across blocks, on ordinary and extreme values.
func (s Suite) compare(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	lengths := []int{ref.CompareBlock - 1, ref.CompareBlock, ref.CompareBlock + 17, 3*ref.CompareBlock + 5}
	for n := range 70 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		for _, d := range []data{ordinary, extreme} {
			x, y, z := s.copyOf(d(rng, n)), s.copyOf(d(rng, n)), s.copyOf(d(rng, n))
			noise, signal, other, dot := ref.Compare(x, y)
			n1, s1, o1, d1 := s.Table.Compare(x, y)
			requireSums(t, n, []float64{noise, signal, other, dot}, []float64{n1, s1, o1, d1})
			signal, first, second := ref.Parts(x, y, z)
			s1, f1, e1 := s.Table.Parts(x, y, z)
			requireSums(t, n, []float64{signal, first, second}, []float64{s1, f1, e1})
			require.NoError(t, s.Memory.Check())
		}
	}
	for _, n := range []int{1, 3, 7, 8, 9, 16, 24, 33, 70} {
		for _, rows := range []int{0, 1, 2, 5, 300} {
			x, y := s.copyOf(ordinary(rng, n*rows)), s.copyOf(extreme(rng, n*rows))
			want := make([]float64, n)
			for c := range want {
				want[c] = rng.NormFloat64()
			}
			got := slices.Clone(want)
			ref.AddDifferences(want, x, y, 0)
			s.Table.AddDifferences(got, x, y)
			requireSums(t, n, want, got)
			require.NoError(t, s.Memory.Check())
		}
	}
	require.Panics(t, func() { s.Table.Compare(make([]float32, 3), make([]float32, 2)) })
	require.Panics(t, func() { s.Table.Parts(make([]float32, 3), make([]float32, 3), make([]float32, 2)) })
}

// requireSums fails unless sums are equal bit for bit, any NaN counting as the same.
func requireSums(t *testing.T, n int, want, got []float64) {
	t.Helper()
	for i, w := range want {
		if g := got[i]; math.Float64bits(w) != math.Float64bits(g) && (w == w || g == g) {
			t.Fatalf("sum %d of %d elements is %g, want %g", i, n, g, w)
		}
	}
}
