package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/ref"
)

// rowArith is the arithmetic of exponentials in row operations.
func (s Suite) rowArith() kernels.Arith {
	if s.Table.Arith() == ref.Float64 {
		return ref.Float64
	}
	if s.Table.Rows()[kernels.OpRowExp].Arith == ref.FMA32 {
		return ref.FMA32
	}
	return ref.Float32
}

// rows tests the row operations on rows of every length, for every way to share them.
func (s Suite) rows(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for n := 1; n < 70; n++ {
		s.rowsOf(t, n, 3, ordinary(rng, 3*n), ordinary(rng, n), ordinary(rng, n))
		s.rowsOf(t, n, 2, extreme(rng, 2*n), ordinary(rng, n), ordinary(rng, n))
	}
	s.rowsOf(t, 769, 65, ordinary(rng, 65*769), ordinary(rng, 769), ordinary(rng, 769))
	low := fill(40, func() float32 { return float32(math.Inf(-1)) })
	s.rowsOf(t, 20, 2, low, ordinary(rng, 20), ordinary(rng, 20))
}

func (s Suite) rowsOf(t *testing.T, n, rows int, x, scale, bias []float32) {
	x, scale, bias = s.copyOf(x), s.copyOf(scale), s.copyOf(bias)
	each := func(f func(dst, src []float32)) []float32 {
		want := make([]float32, n*rows)
		for r := range rows {
			f(want[r*n:][:n], x[r*n:][:n])
		}
		return want
	}
	one := func(f func(src []float32) float32) []float32 {
		want := make([]float32, rows)
		for r := range rows {
			want[r] = f(x[r*n:][:n])
		}
		return want
	}
	for _, c := range []struct {
		name string
		want []float32
		run  func(par kernels.Parallel, dst, src []float32)
	}{
		{"softmax", each(func(d, x []float32) { ref.Softmax(s.rowArith(), d, x) }),
			func(par kernels.Parallel, d, x []float32) { s.Table.Softmax(par, d, x, n) }},
		{"log softmax", each(func(d, x []float32) { ref.LogSoftmax(s.rowArith(), d, x) }),
			func(par kernels.Parallel, d, x []float32) { s.Table.LogSoftmax(par, d, x, n) }},
		{"layer norm", each(func(d, x []float32) { ref.LayerNorm(d, x, scale, bias, 1e-5) }),
			func(par kernels.Parallel, d, x []float32) {
				s.Table.LayerNorm(par, d, x, scale, bias, n, 1e-5, nil, nil)
			}},
		{"layer norm without bias", each(func(d, x []float32) { ref.LayerNorm(d, x, scale, nil, 1e-5) }),
			func(par kernels.Parallel, d, x []float32) {
				s.Table.LayerNorm(par, d, x, scale, nil, n, 1e-5, nil, nil)
			}},
		{"layer norm without scale", each(func(d, x []float32) { ref.LayerNorm(d, x, nil, bias, 1e-5) }),
			func(par kernels.Parallel, d, x []float32) { s.Table.LayerNorm(par, d, x, nil, bias, n, 1e-5, nil, nil) }},
		{"rms norm", each(func(d, x []float32) { ref.RMSNorm(d, x, scale, 1e-5) }),
			func(par kernels.Parallel, d, x []float32) { s.Table.RMSNorm(par, d, x, scale, n, 1e-5) }},
		{"sum", one(func(x []float32) float32 { return float32(ref.Sum(x)) }),
			func(par kernels.Parallel, d, x []float32) { s.Table.Sums(par, d, x, n, 1) }},
		{"square sum", one(func(x []float32) float32 { return float32(ref.SumSquares(x, 0)) }),
			func(par kernels.Parallel, d, x []float32) { s.Table.SquareSums(par, d, x, n) }},
		{"max", one(maximum), func(par kernels.Parallel, d, x []float32) { s.Table.Maxima(par, d, x, n) }},
	} {
		for i, par := range s.ways() {
			dst := s.Memory.New(len(c.want))
			c.run(par, dst, x)
			requireSame(t, c.want, dst, "%s of %d x %d, way %d", c.name, rows, n, i)
			if len(c.want) == len(x) {
				inPlace := s.copyOf(x)
				c.run(par, inPlace, inPlace)
				requireSame(t, c.want, inPlace, "%s of %d x %d in place, way %d", c.name, rows, n, i)
			}
		}
	}
	mean, inv := s.Memory.New(rows), s.Memory.New(rows)
	s.Table.LayerNorm(nil, s.Memory.New(len(x)), x, scale, bias, n, 1e-5, mean, inv)
	requireSame(t, one(func(x []float32) float32 { return float32(ref.Sum(x) / float64(n)) }), mean, "mean of %d", n)
	requireSame(t, one(func(x []float32) float32 {
		return float32(1 / math.Sqrt(ref.SumSquares(x, ref.Sum(x)/float64(n))/float64(n)+1e-5))
	}), inv, "deviation of %d", n)
	require.NoError(t, s.Memory.Check())
}

func maximum(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = ref.Larger(top, v)
	}
	return top
}

// softmaxBound holds the softmax to the bound stated at ref.Softmax.
func (s Suite) softmaxBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	for n := 1; n < 3000; n = n*3/2 + 1 {
		x := fill(n, func() float32 { return float32(rng.NormFloat64() * 8) })
		got := make([]float32, n)
		s.Table.Softmax(nil, got, x, n)
		top, sum := maximum(x), 0.0
		for _, v := range x {
			sum += math.Exp(float64(v) - float64(top))
		}
		for i, v := range x {
			exact := math.Exp(float64(v)-float64(top)) / sum
			bound := (math.Abs(float64(v-top))/2 + 3) * 0x1p-23
			assert.LessOrEqual(t, math.Abs(float64(got[i])-exact), bound*exact, "element %d of %d", i, n)
		}
	}
}
