package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/ref"
)

// sums is a product whose sums are known, to try outputs on.
type sums struct {
	packed  *kernels.GemmU8S8
	a       []byte
	m, n, k int
	terms   kernels.Terms
	want    []int32
}

// newSums draws a product of m x n sums: small ones, so that ties occur, or of all magnitudes up to the ends of int32.
func (s Suite) newSums(rng *rand.Rand, m, n int, small bool) sums {
	x := sums{m: m, n: n, k: 1 + rng.IntN(9), want: make([]int32, m*n)}
	x.a = s.bytesOf(codes(rng, m*x.k, false))
	b := signed(codes(rng, x.k*n, false))
	x.terms = kernels.Terms{Column: make([]int32, n), Row: make([]int32, m)}
	for j := range x.terms.Column {
		x.terms.Column[j] = int32(rng.Uint32()) >> rng.IntN(31)
		if rng.IntN(8) == 0 {
			x.terms.Column[j] = []int32{math.MaxInt32, math.MinInt32, 0}[rng.IntN(3)]
		}
	}
	if small {
		clear(b)
		for i := range x.terms.Row {
			x.terms.Row[i] = int32(rng.IntN(200) - 100)
		}
		for j := range x.terms.Column {
			x.terms.Column[j] = int32(rng.IntN(2000) - 1000)
		}
	}
	x.packed = s.Table.PackGemmU8S8(b, x.k, n, n, false)
	ref.GemmU8S8(s.products(), x.want, x.a, x.k, b, n, false, m, n, x.k, x.terms.Column)
	addRows(x.want, x.terms, n)
	return x
}

// run sends the sums to out.
func (x sums) run(par kernels.Parallel, out kernels.Output) {
	x.packed.Run(par, x.a, x.k, x.m, x.terms, out)
}

// outputs checks every kind of output, on sizes around those of vectors and tiles.
func (s Suite) outputs(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	for _, size := range [][2]int{{1, 1}, {3, 7}, {14, 32}, {29, 33}, {6, 64}, {17, 81}, {40, 130}, {2, 15}, {5, 17}, {7, 40}, {230, 48}} {
		for round := range 30 {
			x := s.newSums(rng, size[0], size[1], round%2 == 0)
			s.scaled(t, rng, x)
			s.real(t, rng, x)
			s.shifted(t, rng, x)
			s.toFunc(t, x)
			require.NoError(t, s.Memory.Check())
		}
	}
}

// randomScale draws a Scale of n columns with every option in play. Half of the factors are powers of two, which make ties.
func randomScale(rng *rand.Rand, n int) kernels.Scale {
	one := func() float32 {
		x := float32(math.Ldexp(1, -rng.IntN(24)))
		if rng.IntN(2) == 0 {
			x *= 1 + rng.Float32()
		}
		return x
	}
	sc := kernels.Scale{Factor: fill(n, one), Zero: byte(rng.IntN(256))}
	if rng.IntN(4) == 0 {
		return sc
	}
	if rng.IntN(2) == 0 {
		sc.Bias = fill(n, func() float32 { return float32(rng.IntN(64)-32) / 4 * one() })
	}
	if rng.IntN(3) == 0 {
		sc.Lo, sc.Hi = -float32(rng.IntN(3)), float32(1+rng.IntN(100))
	}
	if rng.IntN(3) == 0 {
		sc.Divisor = one()
	}
	if rng.IntN(3) == 0 {
		sc.QMin, sc.QMax = byte(rng.IntN(100)), byte(100+rng.IntN(156))
	}
	if rng.IntN(8) == 0 {
		sc.Factor[rng.IntN(n)] *= []float32{-1, 0, 0x1p90, -0x1p90}[rng.IntN(4)]
	}
	return sc
}

func (s Suite) scaled(t *testing.T, rng *rand.Rand, x sums) {
	t.Helper()
	sc := randomScale(rng, x.n)
	ldd := x.n + rng.IntN(3)
	want := codes(rng, extent(x.m, x.n, ldd), false)
	out := &kernels.StoreScaled{Ldd: ldd}
	if rng.IntN(2) == 0 {
		sc.ResidualScale, sc.ResidualZero = float32(1+rng.IntN(8))/4, byte(rng.IntN(256))
		out.Ldr = x.n + rng.IntN(3)
		out.Residual = s.bytesOf(codes(rng, extent(x.m, x.n, out.Ldr), false))
	}
	require.NoError(t, sc.Check())
	out.Scale = sc
	full := sc.Full()
	before := append([]byte(nil), want...)
	for i := range x.m {
		for j := range x.n {
			r := byte(0)
			if out.Residual != nil {
				r = out.Residual[i*out.Ldr+j]
			}
			want[i*ldd+j] = full.Code(x.want[i*x.n+j], j, r, out.Residual != nil)
		}
	}
	for way, par := range s.ways() {
		out.Dst = s.bytesOf(before)
		x.run(par, out)
		requireEqual(t, want, out.Dst, "%d x %d %+v way %d", x.m, x.n, sc, way)
	}
}

func (s Suite) real(t *testing.T, rng *rand.Rand, x sums) {
	t.Helper()
	sc := randomScale(rng, x.n)
	ldd := x.n + rng.IntN(3)
	before := ordinary(rng, extent(x.m, x.n, ldd))
	want := append([]float32(nil), before...)
	full := sc.Full()
	for i := range x.m {
		for j := range x.n {
			want[i*ldd+j] = full.Real(x.want[i*x.n+j], j, 0, false)
		}
	}
	for way, par := range s.ways() {
		out := &kernels.StoreF32{Dst: s.copyOf(before), Ldd: ldd, Scale: sc}
		x.run(par, out)
		requireSame(t, want, out.Dst, "%d x %d %+v way %d", x.m, x.n, sc, way)
	}
}

func (s Suite) shifted(t *testing.T, rng *rand.Rand, x sums) {
	t.Helper()
	sh := kernels.Shift{Mul: make([]int32, x.n), Exp: make([]int8, x.n), Rounding: kernels.ShiftRounding(rng.IntN(6)),
		Zero: byte(rng.IntN(256))}
	for j := range x.n {
		sh.Mul[j], sh.Exp[j] = 1<<30+int32(rng.IntN(1<<30)), int8(-rng.IntN(24))
		switch rng.IntN(8) {
		case 0:
			sh.Mul[j] = 1 << 30 // a power of two: ties
		case 1:
			sh.Mul[j], sh.Exp[j] = int32(rng.Uint32()>>rng.IntN(32)>>1), int8(rng.IntN(62)-31)
		case 2:
			sh.Mul[j], sh.Exp[j] = []int32{0, 1, math.MaxInt32}[rng.IntN(3)], []int8{-31, 30, 0, 1}[rng.IntN(4)]
		}
	}
	if rng.IntN(3) == 0 {
		sh.QMin, sh.QMax = byte(rng.IntN(100)), byte(100+rng.IntN(156))
	}
	require.NoError(t, sh.Check())
	ldd := x.n + rng.IntN(3)
	before := codes(rng, extent(x.m, x.n, ldd), false)
	want := append([]byte(nil), before...)
	full := sh.Full()
	for i := range x.m {
		for j := range x.n {
			want[i*ldd+j] = full.Code(x.want[i*x.n+j], j)
		}
	}
	for way, par := range s.ways() {
		out := &kernels.StoreShifted{Dst: s.bytesOf(before), Ldd: ldd, Shift: sh}
		x.run(par, out)
		requireEqual(t, want, out.Dst, "%d x %d %+v way %d", x.m, x.n, sh, way)
	}
}

// toFunc checks that a function gets every sum once.
func (s Suite) toFunc(t *testing.T, x sums) {
	t.Helper()
	for way, par := range s.ways() {
		dst := make([]int32, x.m*x.n)
		x.run(par, kernels.StoreFunc(func(s *kernels.Sums) {
			for i := range s.Rows {
				for j := range s.Cols {
					dst[(s.Row+i)*x.n+s.Col+j] += s.Acc[i*s.Stride+j]
				}
			}
		}))
		requireEqual(t, x.want, dst, "%d x %d way %d", x.m, x.n, way)
	}
}

// misuseInteger checks that slices too short panic before anything is written.
func (s Suite) misuseInteger(t *testing.T) {
	shape := kernels.ConvShape{N: 1, H: 4, W: 4, C: 2, M: 3, KH: 3, KW: 3, OutH: 2, OutW: 2}
	gemm, conv := s.Table.PackGemmU8S8(make([]int8, 6), 2, 3, 3, false), s.Table.PackConvU8S8(make([]int8, 54), shape)
	out := &kernels.StoreS32{Dst: make([]int32, 12), Ldd: 3}
	src, scratch := make([]uint8, 32), []uint8(nil)
	gemm.Run(nil, src[:8], 2, 4, kernels.Terms{}, out)
	conv.Run(nil, src, shape, 0, &scratch, kernels.Terms{}, out)
	other := shape
	other.KW = 2
	for name, f := range map[string]func(){
		"b":              func() { s.Table.PackGemmU8S8(make([]int8, 5), 2, 3, 3, false) },
		"a":              func() { gemm.Run(nil, src[:7], 2, 4, kernels.Terms{}, out) },
		"signed a":       func() { gemm.RunS8(nil, make([]int8, 7), 2, 4, &scratch, kernels.Terms{}, out) },
		"column terms":   func() { gemm.Run(nil, src, 2, 4, kernels.Terms{Column: make([]int32, 2)}, out) },
		"row terms":      func() { gemm.Run(nil, src, 2, 4, kernels.Terms{Row: make([]int32, 3)}, out) },
		"dst":            func() { gemm.Run(nil, src, 2, 5, kernels.Terms{}, out) },
		"factors":        func() { gemm.Run(nil, src, 2, 4, kernels.Terms{}, &kernels.StoreScaled{Dst: src, Ldd: 3}) },
		"multipliers":    func() { gemm.Run(nil, src, 2, 4, kernels.Terms{}, &kernels.StoreShifted{Dst: src, Ldd: 3}) },
		"src":            func() { conv.Run(nil, src[:31], shape, 0, &scratch, kernels.Terms{}, out) },
		"another kernel": func() { conv.Run(nil, src, other, 0, &scratch, kernels.Terms{}, out) },
	} {
		require.Panics(t, f, name)
	}
}
