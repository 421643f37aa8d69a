package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// function is one function of one number.
type function struct {
	name  string
	op    kernels.Op
	run   func(t *kernels.Table, dst, a []float32)
	fused func(x float32) float32 // what rows with the arithmetic FMA32 compute; nil if all rows compute exact
	exact func(x float64) float64
	// ulps is the bound on the error of rows with the arithmetic FMA32 from min to max, in units in the last place; outside,
	// the error is at most absolute * |x|.
	ulps, min, max, absolute float64
}

var anywhere = math.Inf(1)

var functions = []function{
	{"exp", kernels.OpExp, (*kernels.Table).Exp, ref.Exp, math.Exp, 1.1, -anywhere, anywhere, 0},
	{"sigmoid", kernels.OpSigmoid, (*kernels.Table).Sigmoid, ref.Sigmoid, ref.Sigmoid64, 2.5, -anywhere, anywhere, 0},
	{"tanh", kernels.OpTanh, (*kernels.Table).Tanh, ref.Tanh, math.Tanh, 2.5, -anywhere, anywhere, 0},
	{"erf", kernels.OpErf, (*kernels.Table).Erf, ref.Erf, math.Erf, 1, -anywhere, anywhere, 0},
	{"swish", kernels.OpSwish, func(t *kernels.Table, dst, a []float32) { t.Swish(dst, a, 1) },
		func(x float32) float32 { return ref.Swish(x, 1) }, func(x float64) float64 { return x * ref.Sigmoid64(x) }, 3, -87, anywhere, 0x1p-140},
	{"gelu", kernels.OpGelu, (*kernels.Table).Gelu, ref.Gelu, ref.Gelu64, 2, 0, anywhere, 0x1p-24},
	{"gelu tanh", kernels.OpGeluTanh, (*kernels.Table).GeluTanh, ref.GeluTanh, ref.GeluTanh64, 4, -1, anywhere, 0x1p-24},
	{"sqrt", kernels.OpSqrt, (*kernels.Table).Sqrt, nil, math.Sqrt, 0, 0, 0, 0},
	{"round", kernels.OpRound, (*kernels.Table).Round, nil, math.RoundToEven, 0, 0, 0, 0},
	{"add scalar", kernels.OpAddScalar, func(t *kernels.Table, dst, a []float32) { t.AddScalar(dst, a, 3) }, nil,
		func(x float64) float64 { return x + 3 }, 0, 0, 0, 0},
	{"mul scalar", kernels.OpMulScalar, func(t *kernels.Table, dst, a []float32) { t.MulScalar(dst, a, 3) }, nil,
		func(x float64) float64 { return x * 3 }, 0, 0, 0, 0},
	{"div scalar", kernels.OpDivScalar, func(t *kernels.Table, dst, a []float32) { t.DivScalar(dst, a, 3) }, nil,
		func(x float64) float64 { return x / 3 }, 0, 0, 0, 0},
	{"scalar sub", kernels.OpScalarSub, func(t *kernels.Table, dst, a []float32) { t.ScalarSub(dst, 3, a) }, nil,
		func(x float64) float64 { return 3 - x }, 0, 0, 0, 0},
	{"scalar div", kernels.OpScalarDiv, func(t *kernels.Table, dst, a []float32) { t.ScalarDiv(dst, 3, a) }, nil,
		func(x float64) float64 { return 3 / x }, 0, 0, 0, 0},
}

// definition returns what the table's row computes, to the bit.
func (f function) definition(t *kernels.Table) func(x float32) float32 {
	if f.fused != nil && t.Rows()[f.op].Arith == ref.FMA32 {
		return f.fused
	}
	return func(x float32) float32 { return float32(f.exact(float64(x))) }
}

// edges are numbers at which a function changes its ways.
var edges = []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1, -1, 1e-45,
	-1e-45, 0x1p-126,
	-87.33655, -87.33654, -103.97208, -103.97207, -104, -104.1, 88.72283, 88.72284, 89, 0.875, -0.875, 3.93, -3.93, 10, -10, 1e30, -1e30,
	math.MaxFloat32, -math.MaxFloat32}

func (s Suite) math(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for n := range 150 {
		for k, d := range []data{ordinary, wide, extreme, func(rng *rand.Rand, n int) []float32 {
			return fill(n, func() float32 { return edges[rng.IntN(len(edges))] })
		}} {
			a := s.copyOf(d(rng, n))
			for _, f := range functions {
				want, one := make([]float32, n), f.definition(s.Table)
				for i, x := range a {
					want[i] = one(x)
				}
				dst := s.Memory.New(n)
				f.run(s.Table, dst, a)
				requireSame(t, want, dst, "%s of %d, data %d", f.name, n, k)
				inPlace := s.copyOf(a)
				f.run(s.Table, inPlace, inPlace)
				requireSame(t, want, inPlace, "%s of %d in place", f.name, n)
			}
			s.hard(t, a)
			require.NoError(t, s.Memory.Check())
		}
	}
}

// hard tests the functions made of straight lines, whose bits are the same in every row.
func (s Suite) hard(t *testing.T, a []float32) {
	sigmoid, swish := make([]float32, len(a)), make([]float32, len(a))
	for i, x := range a {
		sigmoid[i], swish[i] = ref.HardSigmoid(x, 0.2, 0.5), x*ref.HardSigmoid(x, float32(1.0/6), 0.5)
	}
	dst := s.Memory.New(len(a))
	s.Table.HardSigmoid(dst, a, 0.2, 0.5)
	requireSame(t, sigmoid, dst, "hard sigmoid of %d", len(a))
	s.Table.HardSwish(dst, a)
	requireSame(t, swish, dst, "hard swish of %d", len(a))
}

// accuracy holds every function to its bound over the whole range of float32: one in 997 of all numbers, fewer
// in a short test.
func (s Suite) accuracy(t *testing.T) {
	if s.Serial { // the same numbers with other memory
		return
	}
	step := uint64(997)
	if !longtest.Wanted(t) {
		step = 99991
	}
	for _, f := range functions {
		if row := s.Table.Rows()[f.op]; f.fused != nil && row.Arith == ref.FMA32 {
			worst, at := f.Worst(s.Table, step)
			assert.LessOrEqualf(t, worst, 1.0, "%s of %g (%08x) is off by %.3f of its bound", row.Name, at, math.Float32bits(at), worst)
		}
	}
}

// Worst returns the largest error of f, as a fraction of its bound, among every step-th of the float32 numbers in the order
// of their bits, and where it occurs.
func (f function) Worst(table *kernels.Table, step uint64) (worst float64, at float32) {
	x, y := make([]float32, 0, 1<<12), make([]float32, 1<<12)
	for bits := uint64(0); bits < 1<<32; {
		for x = x[:0]; len(x) < cap(x) && bits < 1<<32; bits += step {
			x = append(x, math.Float32frombits(uint32(bits)))
		}
		f.run(table, y[:len(x)], x)
		for i, v := range x {
			if e := f.deviation(v, y[i]); e > worst {
				worst, at = e, v
			}
		}
	}
	return worst, at
}

// deviation is the error of y as a fraction of the bound: infinite where NaN, an infinity or the sign of a zero is wrong.
func (f function) deviation(x, y float32) float64 {
	exact := f.exact(float64(x))
	rounded := float32(exact)
	switch {
	case math.Float32bits(rounded) == math.Float32bits(y) || rounded != rounded && y != y:
		return 0
	case float64(x) < f.min || float64(x) > f.max:
		return math.Abs(float64(y)-exact) / (f.absolute * math.Abs(float64(x)))
	case y != y || rounded != rounded || rounded == 0 && exact == 0 || math.IsInf(float64(y), 0) && math.Abs(exact) < math.MaxFloat32:
		return math.Inf(1)
	case math.IsInf(float64(y), 0) || math.IsInf(float64(rounded), 0):
		return math.Abs(math.Min(math.Abs(float64(y)), 0x1p128)-math.Min(math.Abs(exact), 0x1p128)) / math.Ldexp(f.ulps, 128-24)
	}
	_, exponent := math.Frexp(exact)
	return math.Abs(float64(y)-exact) / math.Ldexp(f.ulps, max(exponent, -125)-24)
}
