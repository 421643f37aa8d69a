package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/ref"
)

func (s Suite) gemm(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	var shapes [][3]int // m, n, k
	for m := range 30 {
		shapes = append(shapes, [3]int{m, 1 + rng.IntN(70), rng.IntN(40)})
	}
	for n := range 70 {
		shapes = append(shapes, [3]int{1 + rng.IntN(16), n, 1 + rng.IntN(20)})
	}
	for _, k := range []int{0, 1, 2, 3, 4, 5, 7, 8, 577, 1023, 1025, 2049} { // one pass over k, two, three
		shapes = append(shapes, [3]int{15, 33, k}, [3]int{1, 64, k})
	}
	shapes = append(shapes, [3]int{450, 40, 20}, [3]int{3, 1000, 64}) // several blocks of rows, of columns
	for i, shape := range shapes {
		for _, d := range []data{ordinary, wide, extreme} {
			s.gemmCase(t, rng, shape[0], shape[1], shape[2], i%2 == 1, d)
		}
	}
}

func (s Suite) gemmCase(t *testing.T, rng *rand.Rand, m, n, k int, trans bool, d data) {
	// Rows of a and dst lie a little apart; what lies between must stay as it is.
	lda, ldd, ldb := k+rng.IntN(3), n+rng.IntN(3), n
	const page = 1024 // elements; tiles are cut otherwise where rows are a page apart
	if m > 10 && m < 40 && max(k, n) <= page && rng.IntN(6) == 0 {
		lda, ldd = page, page
	}
	if trans {
		ldb = k
	}
	a, b := s.copyOf(d(rng, extent(m, k, lda))), d(rng, extent(n, k, k))
	ep := epilogue(rng, n)
	if rng.IntN(2) == 0 {
		ep.Add = s.copyOf(d(rng, m*n))
	}
	packed := s.Table.PackGemmF32(b, k, n, ldb, trans)
	init := ordinary(rng, extent(m, n, ldd))
	want := append([]float32(nil), init...)
	ref.Gemm(s.Table.Arith(), want, ldd, a, lda, b, ldb, trans, m, n, k, ep)
	for i, par := range s.ways() {
		dst := s.copyOf(init)
		packed.Run(par, dst, ldd, a, lda, m, ep)
		requireSame(t, want, dst, "m=%d n=%d k=%d trans=%v way %d", m, n, k, trans, i)
		dst = s.copyOf(init)
		ep, restore := s.done(t, ep, dst, m, n, ldd)
		packed.Run(par, dst, ldd, a, lda, m, ep)
		restore()
		requireSame(t, want, dst, "m=%d n=%d k=%d trans=%v way %d, row by row", m, n, k, trans, i)
	}
	require.NoError(t, s.Memory.Check())
}

// extent is the length of rows x cols elements with rows ld apart.
func extent(rows, cols, ld int) int {
	if rows == 0 {
		return 0
	}
	return (rows-1)*ld + cols
}

// epilogue draws one: with or without bias, any activation.
func epilogue(rng *rand.Rand, n int) kernels.Epilogue {
	ep := kernels.Epilogue{Act: kernels.Activation(rng.IntN(3)), Lo: -1, Hi: 2}
	if rng.IntN(2) == 0 {
		ep.Bias = ordinary(rng, n)
	}
	return ep
}

// Deviation is the bound on how far a sum of k products in float32 lies from the exact one: k+1 roundings, each of a partial
// sum of at most magnitude = sum of |a*b|, which may itself have grown by as much.
func Deviation(k int, magnitude float64) float64 {
	u := float64(k+1) * 0x1p-24
	return u / (1 - u) * magnitude
}

// bound checks Deviation for the table on one product.
func (s Suite) bound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	const m, n, k = 20, 37, 1500
	a, b := ordinary(rng, m*k), ordinary(rng, k*n)
	got, exact, magnitude := make([]float32, m*n), make([]float32, m*n), make([]float32, m*n)
	s.Table.PackGemmF32(b, k, n, n, false).Run(nil, got, n, a, k, m, kernels.Epilogue{})
	ref.Gemm(ref.Float64, exact, n, a, k, b, n, false, m, n, k, kernels.Epilogue{})
	ref.Gemm(ref.Float64, magnitude, n, absolute(a), k, absolute(b), n, false, m, n, k, kernels.Epilogue{})
	for i := range got {
		require.LessOrEqual(t, math.Abs(float64(got[i])-float64(exact[i])), Deviation(k, float64(magnitude[i])))
	}
}

func absolute(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(math.Abs(float64(v)))
	}
	return y
}
