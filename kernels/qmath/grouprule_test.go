package qmath_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/kernels/qmath"
)

// normal returns numbers like those of weights: normally distributed, with some that are far out.
func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.04
		if r.IntN(50) == 0 {
			x[i] *= 4
		}
	}
	return x
}

// TestGroupRuleIsQuantizeGroups: the rule of 8 bits is the function that states the arithmetic, for every rounding.
func TestGroupRuleIsQuantizeGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 3, 8, 32, 96} {
		x := normal(r, 500)
		copy(x[100:], make([]float32, 100))
		for i := 300; i < 400; i++ {
			x[i] = float32(r.IntN(20)) * 0x1p-149 // scales that underflow, or nearly so
		}
		for i := 400; i < 500; i++ {
			x[i] = float32(r.IntN(255)-127) / 2 // ties
		}
		n := (len(x) + size - 1) / size
		for _, rounding := range []qmath.Rounding{qmath.HalfEven, qmath.HalfAwayFromZero} {
			want, got := make([]int8, len(x)), make([]int8, len(x))
			wantScales, scales := make([]float32, n), make([]float32, n)
			qmath.QuantizeGroups(want, wantScales, x, size, rounding)
			require.True(t, qmath.GroupRule{Size: size, Max: qmath.GroupMax, Rounding: rounding}.Quantize(got, scales, x))
			assert.Equal(t, want, got, "groups of %d, %s", size, rounding)
			assert.Equal(t, wantScales, scales)
		}
	}
}

func TestGroupRuleOfFourBits(t *testing.T) {
	codes, scales := make([]int8, 6), make([]float32, 2)
	rule := qmath.GroupRule{Size: 4, Max: qmath.Int4Max}
	require.True(t, rule.Quantize(codes, scales, []float32{-7, 2.5, 3.5, 0, 3.5, -0.2}))
	assert.Equal(t, []int8{-7, 2, 4, 0, 7, 0}, codes)
	assert.Equal(t, []float32{1, 0.5}, scales)

	// With -8 the largest magnitude gets that code, whatever its sign, and the other side ends at 7.
	rule.Min = qmath.Int4Min
	require.True(t, rule.Quantize(codes, scales, []float32{-4, 4, 1.25, 0.3, 4, -3.9}))
	assert.Equal(t, []int8{-8, 7, 2, 1, -8, 7}, codes)
	assert.Equal(t, []float32{0.5, -0.5}, scales)
}

// TestGroupRuleIsQ40: with Min the codes of 4 bits are those of Q4_0 but for its rounding of scales to half precision and of ties.
func TestGroupRuleIsQ40(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	differ, below := 0, 0
	for range 200 {
		x := normal(r, qmath.BlockSize)
		want, got, scales := make([]int8, len(x)), make([]int8, len(x)), make([]float32, 1)
		d, ok := qmath.BlockRule{Bits: 4, Scale: qmath.HalfScale}.Quantize(want, x)
		require.True(t, ok)
		require.True(t, qmath.GroupRule{Size: len(x), Max: qmath.Int4Max, Min: qmath.Int4Min}.Quantize(got, scales, x))
		assert.InEpsilon(t, d, scales[0], 1e-3)
		for i := range want {
			if want[i] != got[i] {
				differ++
			}
		}
		symmetric, plain := make([]int8, len(x)), make([]float32, 1)
		require.True(t, qmath.GroupRule{Size: len(x), Max: qmath.Int4Max}.Quantize(symmetric, plain, x))
		if qmath.SquaredError(x, got, scales[0]) < qmath.SquaredError(x, symmetric, plain[0]) {
			below++
		}
	}
	assert.Less(t, differ, 3)
	assert.Greater(t, below, 120, "groups in which the error is smaller than with codes from -7 to 7")
}

func TestNotFiniteGroups(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for at := range 5 {
			x := []float32{1, 2, 3, 4, 5}
			x[at] = bad
			assert.False(t, qmath.GroupRule{Size: 2, Max: 127}.Quantize(make([]int8, 5), make([]float32, 3), x))
			_, ok := qmath.BlockRule{Bits: 8}.Quantize(make([]int8, 5), x)
			assert.False(t, ok)
		}
	}
}

// squaredError is the error of a group with a scale, computed without the rule.
func squaredError(x []float32, scale float64, lo, hi float64) float64 {
	sum := 0.0
	for _, v := range x {
		q := min(max(math.RoundToEven(float64(v)/scale), lo), hi)
		d := float64(v) - q*scale
		sum += d * d
	}
	return sum
}

// TestSearchedScalesAreTheBest compares with a fine grid of scales over all that the search may take: none has a smaller error, and
// the error is never above that of the plain scale.
func TestSearchedScalesAreTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	better := 0
	for range 200 {
		size := []int{4, 16, 32, 64}[r.IntN(4)]
		limit := []int32{qmath.GroupMax, qmath.Int4Max}[r.IntN(2)]
		x := normal(r, size)
		codes, scales := make([]int8, size), make([]float32, 1)
		rule := qmath.GroupRule{Size: size, Max: limit}
		lo, m := -float64(limit), float64(limit)
		if limit == qmath.Int4Max && r.IntN(2) == 0 {
			rule.Min, lo = qmath.Int4Min, qmath.Int4Min
		}
		require.True(t, rule.Quantize(codes, scales, x))
		plain := scales[0]
		rule.Search = true
		require.True(t, rule.Quantize(codes, scales, x))
		got := squaredError(x, float64(scales[0]), lo, m)
		assert.InDelta(t, got, qmath.SquaredError(x, codes, scales[0]), 1e-5*got) // quotients are rounded to float32 before they are rounded
		assert.LessOrEqual(t, got, squaredError(x, float64(plain), lo, m))
		if scales[0] != plain {
			better++
		}
		top := math.Abs(float64(plain)) * m / (m - 0.5) * -lo / m
		for i := range 20000 {
			s := top * (1 - 0.9*float64(i)/20000)
			if rule.Min != 0 && i%2 == 1 {
				s = -s
			}
			if e := squaredError(x, s, lo, m); e < got*(1-1e-5) {
				t.Fatalf("groups of %d up to %d: the error of scale %g is %g, that of the one found, %g, is %g", size, limit, s, e, scales[0], got)
			}
		}
	}
	assert.Greater(t, better, 100)
}

func TestSearchOfZerosAndExactGroups(t *testing.T) {
	rule := qmath.GroupRule{Size: 4, Max: 7, Search: true}
	codes, scales := make([]int8, 8), make([]float32, 2)
	require.True(t, rule.Quantize(codes, scales, []float32{0, 0, 0, 0, 3.5, -1.5, 0.5, 0}))
	assert.Equal(t, []int8{0, 0, 0, 0, 7, -3, 1, 0}, codes)
	assert.Equal(t, []float32{0, 0.5}, scales)
}

// The weighted scale is as good as the best of many, and that of equal weights is what Search takes.
func TestWeightedScale(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	lost := func(x []float32, w []float64, s, lo, hi float64) (sum float64) {
		for i, v := range x {
			d := float64(v) - s*min(max(math.RoundToEven(float64(v)/s), lo), hi)
			sum += w[i] * d * d
		}
		return sum
	}
	for _, rule := range []qmath.GroupRule{{Size: 32, Max: qmath.GroupMax, Search: true},
		{Size: 32, Max: qmath.Int4Max, Min: qmath.Int4Min, Search: true}} {
		for range 20 {
			x, w, ones := make([]float32, 32), make([]float64, 32), make([]float64, 32)
			most := 0.0
			for i := range x {
				x[i], w[i], ones[i] = float32(random.NormFloat64()), math.Exp(3*random.NormFloat64()), 1
				most = max(most, math.Abs(float64(x[i]))/float64(rule.Max))
			}
			lo, hi := float64(rule.Least()), float64(rule.Max)
			got := lost(x, w, float64(rule.Weighted(x, w)), lo, hi)
			for k := -875; k <= 875; k++ { // those that cut the largest
				if s := most * float64(k) / 1000; s > 0 || s < 0 && rule.Min != 0 {
					require.LessOrEqual(t, got, lost(x, w, s, lo, hi)*(1+1e-5))
				}
			}
			codes, scales := make([]int8, 32), make([]float32, 1)
			rule.Quantize(codes, scales, x)
			require.InDelta(t, scales[0], rule.Weighted(x, ones), 0)
			require.InDelta(t, scales[0], rule.Weighted(x, make([]float64, 32)), 0)
		}
	}
	require.Zero(t, qmath.GroupRule{Size: 2, Max: 7}.Weighted([]float32{0, 0}, []float64{1, 1}))
}
