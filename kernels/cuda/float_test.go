package cuda_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
	"qwb/kernels/ref"
)

// floatBench is a device with a stream, and what a test has put on it.
type floatBench struct {
	t *testing.T
	s *cuda.Stream
}

func newFloatBench(t *testing.T, d *cuda.Device) *floatBench {
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return &floatBench{t, s}
}

func rawBytes[T any](list []T) []byte {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), len(list)*int(unsafe.Sizeof(list[0])))
}

// put uploads elements, exactly: what lies behind them is not the kernel's to read.
func put[T any](b *floatBench, list []T) cuda.Buffer {
	b.t.Helper()
	buf, err := b.s.Device.Alloc(max(len(rawBytes(list)), 1))
	require.NoError(b.t, err)
	require.NoError(b.t, b.s.Upload(buf, rawBytes(list)))
	return buf
}

// room allocates n elements.
func room[T any](b *floatBench, n int) cuda.Buffer {
	b.t.Helper()
	return put(b, make([]T, n))
}

func get[T any](b *floatBench, buf cuda.Buffer, n int) []T {
	b.t.Helper()
	list := make([]T, n)
	require.NoError(b.t, b.s.Download(rawBytes(list), buf))
	require.NoError(b.t, b.s.Synchronize())
	return list
}

// sameFloats fails unless all bits are the same; NaNs may have any payload.
func sameFloats(t *testing.T, want, got []float32, what ...any) {
	t.Helper()
	require.Equal(t, len(want), len(got), what...)
	bad, first := 0, -1
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) && !(want[i] != want[i] && got[i] != got[i]) {
			if bad++; first < 0 {
				first = i
			}
		}
	}
	if bad > 0 {
		require.Failf(t, "floats differ", "%v: %d of %d, the first at %d: want %g (%08x), got %g (%08x)", what, bad, len(want), first,
			want[first], math.Float32bits(want[first]), got[first], math.Float32bits(got[first]))
	}
}

// someFloats are n numbers around 1, some of them special where odd says so.
func someFloats(r *rand.Rand, n int, odd bool) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(r.NormFloat64())
	}
	if odd {
		for _, v := range oddFloats {
			if n > 0 {
				list[r.IntN(n)] = v
			}
		}
	}
	return list
}

var (
	inf       = float32(math.Inf(1))
	nan       = float32(math.NaN())
	oddFloats = []float32{0, float32(math.Copysign(0, -1)), inf, -inf, nan, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
		math.MaxFloat32, -math.MaxFloat32, 1e-38, -1e-20}
)

func TestFloatProduct(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, c := range []struct {
			m, n, k        int
			transA, transB bool
			bias, add, lim bool
			odd            bool
		}{
			{m: 1, n: 1, k: 1}, {m: 3, n: 130, k: 70, bias: true}, {m: 16, n: 5, k: 0}, {m: 9, n: 33, k: 65, transA: true, transB: true, lim: true},
			{m: 17, n: 10, k: 33, bias: true, lim: true, odd: true}, {m: 65, n: 70, k: 40, transA: true, add: true},
			{m: 70, n: 66, k: 17, transB: true, bias: true, add: true, lim: true}, {m: 130, n: 129, k: 19, bias: true},
			{m: 129, n: 130, k: 8, transA: true, transB: true, odd: true},
			// Tiles for all multiprocessors: large ones.
			{m: 130, n: 1030, k: 19, bias: true, lim: true}, {m: 1030, n: 129, k: 9, transA: true, transB: true, add: true},
			{m: 257, n: 650, k: 16, odd: true},
		} {
			r := rand.New(rand.NewPCG(1, uint64(c.m)))
			b := newFloatBench(t, d)
			x, y := someFloats(r, c.m*c.k, c.odd), someFloats(r, c.k*c.n, false)
			f := cuda.FloatProduct{M: c.m, N: c.n, K: c.k, ARow: c.k, ACol: 1, BRow: c.n, BCol: 1, CRow: c.n}
			left := x
			if c.transA {
				f.ARow, f.ACol, left = 1, c.m, make([]float32, len(x))
				for i, v := range x {
					left[i%c.k*c.m+i/c.k] = v
				}
			}
			ldb := c.n
			if c.transB {
				f.BRow, f.BCol, ldb = 1, c.k, c.k
			}
			var ep ref.Epilogue
			out := room[float32](b, c.m*c.n)
			f.A, f.B, f.C = put(b, left).Ptr, put(b, y).Ptr, out.Ptr
			if c.bias {
				ep.Bias = someFloats(r, c.n, false)
				f.Bias = put(b, ep.Bias).Ptr
			}
			if c.add {
				ep.Add = someFloats(r, c.m*c.n, true)
				f.Add = put(b, ep.Add).Ptr
			}
			if c.lim {
				ep.Act, ep.Lo, ep.Hi = ref.Clip, -0.5, 2
				f.Limited, f.Lo, f.Hi = true, -0.5, 2
			}
			want := make([]float32, c.m*c.n)
			ref.Gemm(ref.FMA32, want, c.n, x, c.k, y, ldb, c.transB, c.m, c.n, c.k, ep)
			require.NoError(t, f.Launch(b.s), "%+v", c)
			sameFloats(t, want, get[float32](b, out, len(want)), fmt.Sprintf("%+v", c))
		}
	})
}

// A sum that underflows to -0 stays so: nothing may be added behind the last product.
func TestFloatProductKeepsMinusZero(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, m := range []int{1, 20, 70} {
			b := newFloatBench(t, d)
			n, k := 70, 3
			x, y := make([]float32, m*k), make([]float32, k*n)
			for i := range x {
				x[i] = -1e-30
			}
			for i := range y {
				y[i] = 1e-30
			}
			want := make([]float32, m*n)
			ref.Gemm(ref.FMA32, want, n, x, k, y, n, false, m, n, k, ref.Epilogue{})
			require.Equal(t, uint32(1<<31), math.Float32bits(want[0]))
			out := room[float32](b, m*n)
			f := cuda.FloatProduct{A: put(b, x).Ptr, B: put(b, y).Ptr, C: out.Ptr, M: m, N: n, K: k, ARow: k, ACol: 1, BRow: n, BCol: 1, CRow: n}
			require.NoError(t, f.Launch(b.s))
			sameFloats(t, want, get[float32](b, out, len(want)))
		}
	})
}

func TestFloatProductsOfABatch(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(2, 2))
		b := newFloatBench(t, d)
		const p, q, m, n, k = 2, 3, 18, 7, 5 // the right-hand side repeats along p
		x, y := someFloats(r, p*q*m*k, false), someFloats(r, q*k*n, false)
		out := room[float32](b, p*q*m*n)
		f := cuda.FloatProduct{A: put(b, x).Ptr, B: put(b, y).Ptr, C: out.Ptr, M: m, N: n, K: k, ARow: k, ACol: 1, BRow: n, BCol: 1, CRow: n,
			CBatch: m * n, Batch: []int{p, q}, ABatch: []int{q * m * k, m * k}, BBatch: []int{0, k * n}}
		require.NoError(t, f.Launch(b.s))
		want := make([]float32, p*q*m*n)
		for i := range p * q {
			ref.Gemm(ref.FMA32, want[i*m*n:], n, x[i*m*k:], k, y[i%q*k*n:], n, false, m, n, k, ref.Epilogue{})
		}
		sameFloats(t, want, get[float32](b, out, len(want)))
		f.Batch = []int{1, 1, 1, 1, 1}
		require.ErrorContains(t, f.Launch(b.s), "5 axes")
	})
}

func TestFloatConv(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, c := range []struct {
			s          ref.ConvShape
			transposed bool
			odd        bool
		}{
			{s: ref.ConvShape{N: 1, H: 5, W: 6, C: 3, M: 70, KH: 3, KW: 3, StrideH: 2, StrideW: 1, PadTop: 1, PadLeft: 1, PadRight: 1,
				OutH: 3, OutW: 6}},
			{s: ref.ConvShape{N: 2, H: 7, W: 5, C: 8, M: 130, KH: 3, KW: 2, DilH: 2, PadTop: 2, PadBottom: 2, OutH: 7, OutW: 4}},
			{s: ref.ConvShape{N: 2, H: 9, W: 9, C: 4, M: 66, KH: 1, KW: 1, OutH: 9, OutW: 9}, odd: true},
			{s: ref.ConvShape{N: 1, H: 6, W: 6, C: 8, M: 8, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, OutH: 6, OutW: 6,
				Group: 8}, odd: true},
			{s: ref.ConvShape{N: 2, H: 6, W: 5, C: 6, M: 6, KH: 3, KW: 3, StrideH: 2, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, OutH: 3,
				OutW: 5, Group: 6}},
			{s: ref.ConvShape{N: 2, D: 3, H: 3, W: 4, C: 12, M: 12, KD: 2, KH: 3, KW: 2, DilH: 2, PadTop: 2, PadBottom: 2, OutD: 2, OutH: 3,
				OutW: 3, Group: 12}},
			{s: ref.ConvShape{N: 1, H: 4, W: 5, C: 6, M: 12, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 3, OutW: 4, Group: 3}},
			{s: ref.ConvShape{N: 1, H: 4, W: 4, C: 6, M: 40, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, PadRight: 1, OutH: 3, OutW: 4, Group: 2}},
			{s: ref.ConvShape{N: 1, D: 3, H: 4, W: 3, C: 2, M: 5, KD: 2, KH: 2, KW: 3, PadFront: 1, PadLeft: 1, OutD: 3, OutH: 3, OutW: 2}},
			{s: ref.ConvShape{N: 4, H: 9, W: 9, C: 3, M: 1100, KH: 2, KW: 2, PadTop: 1, PadLeft: 1, StrideW: 2, OutH: 9, OutW: 5}}, // large tiles
			{s: ref.ConvShape{N: 9, H: 9, W: 9, C: 4, M: 260, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, OutH: 9, OutW: 9,
				Group: 2}, odd: true},
			{s: ref.ConvShape{N: 2, H: 3, W: 4, C: 4, M: 6, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 7, Group: 2},
				transposed: true},
			{s: ref.ConvShape{N: 1, H: 3, W: 3, C: 3, M: 5, KH: 2, KW: 4, StrideH: 1, StrideW: 3, DilW: 2, OutH: 4, OutW: 13},
				transposed: true, odd: true},
		} {
			r := rand.New(rand.NewPCG(3, uint64(c.s.H)))
			b := newFloatBench(t, d)
			s := c.s.Full()
			x, w := someFloats(r, s.InLen(), c.odd), someFloats(r, s.WeightLen(), c.odd)
			ep := ref.Epilogue{Bias: someFloats(r, s.M, false), Add: someFloats(r, s.OutLen(), false), Act: ref.Relu}
			want := make([]float32, s.OutLen())
			if c.transposed {
				ref.ConvTranspose(ref.FMA32, want, x, w, s, ep)
			} else {
				ref.Conv(ref.FMA32, want, x, w, s, ep)
			}
			conv, err := cuda.NewFloatConv(c.s, c.transposed)
			require.NoError(t, err)
			out := room[float32](b, len(want))
			require.NoError(t, conv.Launch(b.s, out.Ptr, put(b, x).Ptr, put(b, conv.Pack(w)).Ptr, put(b, conv.Table()).Ptr,
				cuda.FloatEpilogue{Bias: put(b, ep.Bias).Ptr, Add: put(b, ep.Add).Ptr, Limited: true, Lo: 0, Hi: inf}))
			sameFloats(t, want, get[float32](b, out, len(want)), fmt.Sprintf("%+v", c))
		}
	})
	_, err := cuda.NewFloatConv(ref.ConvShape{N: 1, H: 1, W: 1, C: 3, M: 4, KH: 1, KW: 1, OutH: 1, OutW: 1, Group: 2}, false)
	require.ErrorContains(t, err, "groups")
}

func TestFloatPools(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, s := range []ref.ConvShape{
			{N: 2, H: 6, W: 5, C: 3, KH: 3, KW: 2, StrideH: 2, StrideW: 2, PadTop: 1, PadRight: 1, OutH: 3, OutW: 3},
			{N: 1, H: 5, W: 5, C: 17, KH: 2, KW: 2, StrideH: 2, StrideW: 2, DilH: 2, PadBottom: 1, OutH: 3, OutW: 3}, // the last windows reach out
			{N: 1, D: 3, H: 3, W: 4, C: 2, KD: 2, KH: 2, KW: 2, PadFront: 1, PadBack: 1, OutD: 4, OutH: 2, OutW: 3},
		} {
			r := rand.New(rand.NewPCG(4, uint64(s.H)))
			b := newFloatBench(t, d)
			x := someFloats(r, s.InLen(), true)
			n := s.OutLen()
			in, out := put(b, x), room[float32](b, n)
			want := make([]float32, n)
			ref.MaxPool(want, x, s)
			require.NoError(t, cuda.FloatMaxPool(b.s, out.Ptr, in.Ptr, s))
			sameFloats(t, want, get[float32](b, out, n), "max", s)
			for _, pad := range []bool{false, true} {
				ref.AveragePool(ref.FMA32, want, x, s, pad)
				require.NoError(t, cuda.FloatAveragePool(b.s, out.Ptr, in.Ptr, s, pad))
				sameFloats(t, want, get[float32](b, out, n), "average", s, pad)
			}
			f := s.Full()
			positions := f.D * f.H * f.W
			small := room[float32](b, f.N*f.C)
			ref.GlobalAverage(ref.FMA32, want[:f.N*f.C], x, f.N, positions, f.C)
			require.NoError(t, cuda.FloatGlobalAverage(b.s, small.Ptr, in.Ptr, f.N, positions, f.C))
			sameFloats(t, want[:f.N*f.C], get[float32](b, small, f.N*f.C), "global", s)
			for i := range f.N * f.C {
				want[i] = -inf
				for p := range positions {
					want[i] = max(want[i], x[(i/f.C*positions+p)*f.C+i%f.C])
				}
			}
			require.NoError(t, cuda.FloatGlobalMax(b.s, small.Ptr, in.Ptr, f.N, positions, f.C))
			sameFloats(t, want[:f.N*f.C], get[float32](b, small, f.N*f.C), "global max", s)
		}
	})
}

// everyFloat is a number of each kind: all exponents, signs, and some random mantissas.
func everyFloat(r *rand.Rand) []float32 {
	list := slices.Clone(oddFloats)
	for e := range uint32(255) {
		for range 4 {
			bits := e<<23 | r.Uint32()&(1<<23-1)
			list = append(list, math.Float32frombits(bits), math.Float32frombits(bits|1<<31))
		}
	}
	for x := float32(-110); x < 95; x += 0.37 { // where exp and its kin are not 0, 1 or infinite
		list = append(list, x, x/16)
	}
	return list
}

// floatFunction is a function of one number with parameters, and what it is to give.
type floatFunction struct {
	f    cuda.FloatFunction
	a, b float32
	want func(x float32) float32
}

func floatFunctions() []floatFunction {
	in64 := func(f func(float64) float64) func(float32) float32 {
		return func(x float32) float32 { return float32(f(float64(x))) }
	}
	list := []floatFunction{
		{cuda.FloatLimit, 0, inf, func(x float32) float32 { return ref.Limit(x, 0, inf) }},
		{cuda.FloatLimit, -1, 6, func(x float32) float32 { return ref.Limit(x, -1, 6) }},
		{cuda.FloatLeaky, 0.1, 0, func(x float32) float32 {
			if x < 0 {
				return 0.1 * x
			}
			return x
		}},
		{cuda.FloatThreshold, 0.5, 0, func(x float32) float32 {
			if x > 0.5 {
				return x
			}
			return 0
		}},
		{cuda.FloatShrink, 0.25, 0.5, func(x float32) float32 {
			switch {
			case x < -0.5:
				return x + 0.25
			case x > 0.5:
				return x - 0.25
			}
			return 0
		}},
		{cuda.FloatHardSigmoid, 0.2, 0.5, func(x float32) float32 { return ref.HardSigmoid(x, 0.2, 0.5) }},
		{cuda.FloatHardSwish, 0, 0, func(x float32) float32 { return x * ref.HardSigmoid(x, 1.0/6, 0.5) }},
		{cuda.FloatSigmoid, 0, 0, ref.Sigmoid}, {cuda.FloatTanh, 0, 0, ref.Tanh}, {cuda.FloatErf, 0, 0, ref.Erf}, {cuda.FloatExp, 0, 0, ref.Exp},
		{cuda.FloatGelu, 0, 0, ref.Gelu}, {cuda.FloatGeluTanh, 0, 0, ref.GeluTanh},
		{cuda.FloatSwish, 1.7, 0, func(x float32) float32 { return ref.Swish(x, 1.7) }},
		{cuda.FloatSoftsign, 0, 0, func(x float32) float32 { return x / (1 + float32(math.Abs(float64(x)))) }},
		{cuda.FloatSqrt, 0, 0, ref.Sqrt}, {cuda.FloatReciprocal, 0, 0, func(x float32) float32 { return 1 / x }},
		{cuda.FloatFloor, 0, 0, in64(math.Floor)}, {cuda.FloatCeil, 0, 0, in64(math.Ceil)}, {cuda.FloatRound, 0, 0, in64(math.RoundToEven)},
		{cuda.FloatAbs, 0, 0, in64(math.Abs)}, {cuda.FloatNeg, 0, 0, func(x float32) float32 { return -x }},
		{cuda.FloatSign, 0, 0, func(x float32) float32 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		}},
		{cuda.FloatSquare, 0, 0, in64(func(x float64) float64 { return math.Pow(x, 2) })},
		{cuda.FloatCube, 0, 0, in64(func(x float64) float64 { return math.Pow(x, 3) })},
	}
	if runtime.GOARCH == "amd64" { // other processors fuse what package math adds and multiplies
		log := list[0]
		log.f, log.want = cuda.FloatLog, in64(math.Log)
		list = append(list, log)
	}
	return list
}

func TestFloatFunctions(t *testing.T) {
	list := floatFunctions()
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		x := everyFloat(rand.New(rand.NewPCG(5, 5)))
		in, out := put(b, x), room[float32](b, len(x))
		want := make([]float32, len(x))
		for _, c := range list {
			for i, v := range x {
				want[i] = c.want(v)
			}
			require.NoError(t, cuda.FloatUnary(b.s, c.f, out.Ptr, in.Ptr, len(x), c.a, c.b))
			sameFloats(t, want, get[float32](b, out, len(x)), "function", c.f)
		}
		// In place, and where nothing lies on 16 bytes.
		in = put(b, x)
		require.NoError(t, cuda.FloatUnary(b.s, cuda.FloatNeg, in.Ptr+4, in.Ptr+4, len(x)-1, 0, 0))
		require.NoError(t, cuda.FloatUnary(b.s, cuda.FloatNeg, in.Ptr, in.Ptr, len(x), 0, 0))
		for i, v := range x {
			if want[i] = v; i == 0 {
				want[i] = -v
			}
		}
		sameFloats(t, want, get[float32](b, in, len(x)), "in place")
		in = put(b, x)
		scale, bias := []float32{2, 0.3, -1}, []float32{0.1, 7, 1e-3}
		for i, v := range x {
			want[i] = float32(v*scale[i/2%3]) + bias[i/2%3]
		}
		require.NoError(t, cuda.FloatAffine(b.s, out.Ptr, in.Ptr, put(b, scale).Ptr, put(b, bias).Ptr, len(x), 2, 3))
		sameFloats(t, want, get[float32](b, out, len(x)), "affine")
	})
}

// The same functions compiled for this machine. Skipped where there is no compiler.
func TestFloatFunctionsOnHost(t *testing.T) {
	compiler, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("no C++ compiler (c++) to build the kernels' arithmetic for the host")
	}
	program := filepath.Join(t.TempDir(), "float_host")
	text, err := exec.Command(compiler, "-std=c++17", "-O2", "-ffp-contract=off", "-o", program, "testdata/float_host.cpp").CombinedOutput()
	require.NoError(t, err, "%s", text)
	type one struct {
		f       cuda.FloatFunction
		x, a, b float32
	}
	var cases []one
	var want []float32
	x := everyFloat(rand.New(rand.NewPCG(5, 6)))
	for _, c := range floatFunctions() {
		for _, v := range x {
			cases, want = append(cases, one{c.f, v, c.a, c.b}), append(want, c.want(v))
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin = bytes.NewReader(rawBytes(cases))
	out, err := cmd.Output()
	require.NoError(t, err)
	got := make([]float32, len(want))
	require.Equal(t, len(rawBytes(got)), copy(rawBytes(got), out))
	sameFloats(t, want, got)
}

func TestFloatOperations(t *testing.T) {
	list := map[cuda.FloatOperation]func(x, y float32) float32{
		cuda.FloatAdd: func(x, y float32) float32 { return x + y }, cuda.FloatSub: func(x, y float32) float32 { return x - y },
		cuda.FloatMul: func(x, y float32) float32 { return x * y }, cuda.FloatDiv: func(x, y float32) float32 { return x / y },
		cuda.FloatMaximum: func(x, y float32) float32 { return max(x, y) }, cuda.FloatMinimum: func(x, y float32) float32 { return min(x, y) },
		cuda.FloatPRelu: func(x, y float32) float32 {
			if x < 0 {
				return y * x
			}
			return x
		},
		cuda.FloatScaledAdd: func(x, y float32) float32 { return x + float32(0.3*y) },
		cuda.FloatAtLeast:   func(x, y float32) float32 { return ref.Limit(x, y, inf) },
		cuda.FloatAtMost:    func(x, y float32) float32 { return ref.Limit(x, -inf, y) },
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(6, 6))
		b := newFloatBench(t, d)
		// All pairs of special numbers, and the same number twice.
		n := len(oddFloats)
		x, y := put(b, oddFloats), put(b, oddFloats)
		out := room[float32](b, n*n)
		for op, f := range list {
			want := make([]float32, n*n)
			for i := range want {
				want[i] = f(oddFloats[i/n], oddFloats[i%n])
			}
			g := cuda.FloatBinary{Op: op, Sizes: []int{n, n}, AStep: []int{1, 0}, BStep: []int{0, 1}, Scale: 0.3}
			require.NoError(t, g.Launch(b.s, out.Ptr, x.Ptr, y.Ptr))
			sameFloats(t, want, get[float32](b, out, n*n), "operation", op)
		}
		a, c := someFloats(r, 2*3*4*5, false), someFloats(r, 3*5, false)
		want := make([]float32, len(a))
		for i, v := range a {
			want[i] = ref.Limit(v+c[i/20%3*5+i%5], -1, 0.5)
		}
		out = room[float32](b, len(a))
		g := cuda.FloatBinary{Sizes: []int{2, 3, 4, 5}, AStep: []int{60, 20, 5, 1}, BStep: []int{0, 5, 0, 1}, Limited: true, Lo: -1, Hi: 0.5}
		require.NoError(t, g.Launch(b.s, out.Ptr, put(b, a).Ptr, put(b, c).Ptr))
		sameFloats(t, want, get[float32](b, out, len(a)), "broadcast")
		// Four at a time: a row and a number for each, from both sides, and what does not allow it.
		a = someFloats(r, 3*8, true)
		for _, c := range []struct {
			aStep, bStep []int
			at           int // where b begins
		}{{[]int{8, 1}, []int{0, 1}, 0}, {[]int{8, 1}, []int{1, 0}, 0}, {[]int{0, 1}, []int{8, 1}, 0}, {[]int{1, 0}, []int{8, 1}, 4},
			{[]int{8, 1}, []int{8, 1}, 1}, {[]int{1, 3}, []int{8, 1}, 0}, {[]int{8, 1}, []int{3, 1}, 0}, {[]int{8, 1}, []int{0, 0}, 2}} {
			x, y, out := put(b, a), put(b, append(a[:24:24], a...)), room[float32](b, 24)
			want := make([]float32, 24)
			for i := range want {
				want[i] = a[i/8*c.aStep[0]+i%8*c.aStep[1]] * a[(c.at+i/8*c.bStep[0]+i%8*c.bStep[1])%24]
			}
			g := cuda.FloatBinary{Op: cuda.FloatMul, Sizes: []int{3, 8}, AStep: c.aStep, BStep: c.bStep}
			require.NoError(t, g.Launch(b.s, out.Ptr, x.Ptr, y.Ptr+driver.Ptr(4*c.at)))
			sameFloats(t, want, get[float32](b, out, 24), c)
		}
		g.Sizes, g.AStep, g.BStep = []int{1 << 20, 1 << 12}, []int{1 << 12, 1}, []int{0, 1}
		require.ErrorContains(t, g.Launch(b.s, out.Ptr, out.Ptr, out.Ptr), "2^31")
	})
}

func TestFloatChain(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(11, 1))
		b := newFloatBench(t, d)
		for _, size := range [][]int{{2, 3, 8}, {2, 3, 7}, {1, 1, 1}, {48, 1, 1}} {
			n := size[0] * size[1] * size[2]
			x, whole, row, column, one := someFloats(r, n, true), someFloats(r, n, true), someFloats(r, size[2], false), someFloats(r, size[1],
				false), []float32{0.7}
			f := cuda.FloatChain{Sizes: size, Links: []cuda.FloatLink{
				{Binary: true, Operation: cuda.FloatAdd, Step: []int{0, 0, 1}},
				{Function: cuda.FloatSigmoid},
				{Binary: true, Operation: cuda.FloatSub, Left: true, Step: []int{0, 1, 0}},
				{Binary: true, Operation: cuda.FloatDiv, Step: []int{0, 0, 0}},
				{Function: cuda.FloatLimit, A: -2, B: 3},
				{Binary: true, Operation: cuda.FloatMul, Step: []int{size[1] * size[2], size[2], 1}},
			}}
			want := make([]float32, n)
			for i, v := range x {
				v = ref.Sigmoid(v + row[i%size[2]])
				v = (column[i/size[2]%size[1]] - v) / one[0]
				want[i] = ref.Limit(v, -2, 3) * whole[i]
			}
			out := room[float32](b, n)
			others := []driver.Ptr{put(b, row).Ptr, 0, put(b, column).Ptr, put(b, one).Ptr, 0, put(b, whole).Ptr}
			require.NoError(t, f.Launch(b.s, out.Ptr, put(b, x).Ptr, others))
			sameFloats(t, want, get[float32](b, out, n), size)
			f.Links = append(f.Links, f.Links...)
			require.ErrorContains(t, f.Launch(b.s, out.Ptr, out.Ptr, others), "12 functions")
		}
	})
}

func TestFloatRows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, n := range []int{1, 5, 16, 37, 100, 300, 1030} { // the last as blocks of a row each
			r := rand.New(rand.NewPCG(7, uint64(n)))
			b := newFloatBench(t, d)
			const rows = 11
			x := someFloats(r, rows*n, false)
			copy(x[n:], slices.Repeat([]float32{-inf}, n))
			x[2*n] = inf
			x[3*n] = nan
			x[4*n] = -200
			in, out := put(b, x), room[float32](b, rows*n)
			each := func(f func(dst, src []float32)) []float32 {
				want := make([]float32, len(x))
				for i := range rows {
					f(want[i*n:][:n], x[i*n:][:n])
				}
				return want
			}
			require.NoError(t, cuda.FloatSoftmax(b.s, out.Ptr, in.Ptr, rows, n))
			sameFloats(t, each(func(dst, src []float32) { ref.Softmax(ref.FMA32, dst, src) }), get[float32](b, out, len(x)), "softmax", n)

			if runtime.GOARCH == "amd64" {
				require.NoError(t, cuda.FloatLogSoftmax(b.s, out.Ptr, in.Ptr, rows, n))
				sameFloats(t, each(func(dst, src []float32) { ref.LogSoftmax(ref.FMA32, dst, src) }), get[float32](b, out, len(x)), "log softmax", n)
			}

			scale, bias := someFloats(r, n, false), someFloats(r, n, false)
			norm := cuda.FloatNorm{Rows: rows, N: n, Eps: 1e-5, Center: true}
			mean, inv := room[float32](b, rows), room[float32](b, rows)
			require.NoError(t, norm.Launch(b.s, out.Ptr, in.Ptr, put(b, scale).Ptr, put(b, bias).Ptr, mean.Ptr, inv.Ptr))
			sameFloats(t, each(func(dst, src []float32) { ref.LayerNorm(dst, src, scale, bias, 1e-5) }), get[float32](b, out, len(x)),
				"layer norm", n)
			means := make([]float32, rows)
			for i := range means {
				means[i] = float32(ref.Sum(x[i*n:][:n]) / float64(n))
			}
			sameFloats(t, means, get[float32](b, mean, rows), "means", n)
			norm.Center = false
			require.NoError(t, norm.Launch(b.s, out.Ptr, in.Ptr, put(b, scale).Ptr, 0, 0, 0))
			sameFloats(t, each(func(dst, src []float32) { ref.RMSNorm(dst, src, scale, 1e-5) }), get[float32](b, out, len(x)), "RMS norm", n)
		}
	})
}

// Scale and bias by channel, in groups of rows.
func TestFloatGroupNorm(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(8, 8))
		b := newFloatBench(t, d)
		const images, groups, channels, plane = 2, 3, 2, 7 // channels of a group
		n := channels * plane
		x := someFloats(r, images*groups*n, false)
		for _, share := range []int{1, channels} {
			entries := groups * channels / share
			scale, bias := someFloats(r, entries, false), someFloats(r, entries, false)
			want := make([]float32, len(x))
			for i := range images * groups {
				s, o := make([]float32, n), make([]float32, n)
				for k := range n {
					s[k], o[k] = scale[(i%groups*channels+k/plane)/share], bias[(i%groups*channels+k/plane)/share]
				}
				ref.LayerNorm(want[i*n:][:n], x[i*n:][:n], s, o, 1e-3)
			}
			out := room[float32](b, len(x))
			norm := cuda.FloatNorm{Rows: images * groups, N: n, Eps: 1e-3, Center: true, Groups: groups, Inner: plane, Share: share}
			require.NoError(t, norm.Launch(b.s, out.Ptr, put(b, x).Ptr, put(b, scale).Ptr, put(b, bias).Ptr, 0, 0))
			sameFloats(t, want, get[float32](b, out, len(x)), share)
		}
	})
}

func TestFloatReductions(t *testing.T) {
	lanes := func(term func(float64) float64, last func(sum, n float64) float64) func(x []float32) float32 {
		return func(x []float32) float32 {
			var sums [ref.Lanes]float64
			for i, v := range x {
				sums[i%ref.Lanes] += term(float64(v))
			}
			return float32(last(ref.FoldLanes(&sums), float64(len(x))))
		}
	}
	same := func(x float64) float64 { return x }
	square := func(x float64) float64 { return x * x }
	sum := func(s, _ float64) float64 { return s }
	fold := func(start float64, f func(a, b float64) float64) func(x []float32) float32 {
		return func(x []float32) float32 {
			acc := start
			for _, v := range x {
				acc = f(acc, float64(v))
			}
			return float32(acc)
		}
	}
	list := map[cuda.FloatReduction]func(x []float32) float32{
		cuda.FloatSum: lanes(same, sum), cuda.FloatMean: lanes(same, func(s, n float64) float64 { return s / n }),
		cuda.FloatSquares: lanes(square, sum),
		cuda.FloatL1:      lanes(math.Abs, sum), cuda.FloatL2: lanes(square, func(s, _ float64) float64 { return math.Sqrt(s) }),
		cuda.FloatMax: fold(math.Inf(-1), math.Max), cuda.FloatMin: fold(math.Inf(1), math.Min),
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		const p, q, n, m = 3, 5, 7, 4
		for _, odd := range []bool{false, true} {
			x := someFloats(rand.New(rand.NewPCG(9, 9)), p*q*n*m, odd)
			in := put(b, x)
			for op, f := range list {
				// Over the second and the last axis.
				want := make([]float32, p*n)
				for i := range want {
					var group []float32
					for a := range q {
						for c := range m {
							group = append(group, x[((i/n*q+a)*n+i%n)*m+c])
						}
					}
					want[i] = f(group)
				}
				out := room[float32](b, p*n)
				require.NoError(t, cuda.FloatReduce(b.s, op, out.Ptr, in.Ptr, []int{p, n}, []int{q * n * m, m}, []int{q, m}, []int{n * m, 1}))
				sameFloats(t, want, get[float32](b, out, p*n), "reduction", op)
				// Over the last two, which are neighbours.
				for i := range p * q {
					want[i%len(want)] = f(x[i*n*m:][:n*m])
				}
				whole := make([]float32, p*q)
				for i := range whole {
					whole[i] = f(x[i*n*m:][:n*m])
				}
				rows := room[float32](b, p*q)
				require.NoError(t, cuda.FloatReduce(b.s, op, rows.Ptr, in.Ptr, []int{p, q}, []int{q * n * m, n * m}, []int{n, m}, []int{m, 1}))
				sameFloats(t, whole, get[float32](b, rows, p*q), "rows", op)
			}
			rows := room[float32](b, p*q)
			require.NoError(t, cuda.FloatReduce(b.s, cuda.FloatMaxima, rows.Ptr, in.Ptr, []int{p * q}, []int{n * m}, []int{n * m}, []int{1}))
			want := make([]float32, p*q)
			for i := range want {
				want[i] = -inf
				for _, v := range x[i*n*m:][:n*m] {
					want[i] = ref.Larger(want[i], v)
				}
			}
			sameFloats(t, want, get[float32](b, rows, p*q), "maxima")
		}
		require.ErrorContains(t, cuda.FloatReduce(b.s, cuda.FloatMaxima, 0, 0, []int{2}, []int{1}, []int{3}, []int{2}), "neighbours")
	})
}

func TestMoves(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		testMoves[uint8](b)
		testMoves[uint16](b)
		testMoves[uint32](b)
		testMoves[uint64](b)
		require.ErrorContains(t, cuda.MoveElements(b.s, 0, 0, 3, []int{1}, []int{1}, []int{1}), "3 bytes")
	})
}

func testMoves[T uint8 | uint16 | uint32 | uint64](b *floatBench) {
	t := b.t
	size := int(unsafe.Sizeof(T(0)))
	x := make([]T, 2*35*40)
	for i := range x {
		x[i] = T(i*2654435761 + 1)
	}
	in := put(b, x)
	check := func(what string, n int, want func(i int) T, launch func(dst driver.Ptr) error) {
		t.Helper()
		out := room[T](b, n)
		require.NoError(t, launch(out.Ptr))
		list := make([]T, n)
		for i := range list {
			list[i] = want(i)
		}
		assert.Equal(t, list, get[T](b, out, n), "%s of %d bytes", what, size)
	}
	check("layout", len(x), func(i int) T { return x[i/1400*1400+i%35*40+i/35%40] }, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr, size, []int{2, 35, 40}, []int{1400, 1, 35}, []int{1400, 40, 1})
	})
	check("reverse", 35, func(i int) T { return x[40*(34-i)] }, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr+driver.Ptr(34*40*size), size, []int{35}, []int{1}, []int{-40})
	})
	check("repeat", 12, func(i int) T { return x[i%3] }, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr, size, []int{2, 2, 3}, []int{6, 3, 1}, []int{0, 0, 1})
	})
	check("gap", 10, func(i int) T {
		if i%5 == 4 {
			return 0
		}
		return x[i/5*4+i%5]
	}, func(dst driver.Ptr) error {
		return cuda.MoveElements(b.s, dst, in.Ptr, size, []int{2, 4}, []int{5, 1}, []int{4, 1})
	})
	table := put(b, []int32{40, -1, 0, 3, 2, -5, 1})
	fill := T(0xfe)
	check("pick", 12, func(i int) T {
		a, c := []int{40, -1, 0}[i/4], []int{3, 2, -1, 1}[i%4]
		if a < 0 || c < 0 {
			return fill
		}
		return x[a+c]
	}, func(dst driver.Ptr) error {
		return cuda.PickElements(b.s, dst, in.Ptr, table.Ptr, size, []int{3, 4}, uint64(fill))
	})
	fault := put(b, []uint32{0})
	for _, wide := range []bool{false, true} {
		index := put(b, []int32{4, -1, 0})
		if wide {
			index = put(b, []int64{4, -1, 0})
		}
		check("gather", 2*3*40, func(i int) T { return x[i/120*1400+[]int{4, 34, 0}[i/40%3]*40+i%40] }, func(dst driver.Ptr) error {
			return cuda.GatherRows(b.s, dst, in.Ptr, index.Ptr, fault.Ptr, size, 2, 35, 40, 3, wide)
		})
	}
	require.Equal(t, []uint32{0}, get[uint32](b, fault, 1))
	check("gather outside", 40, func(i int) T { return x[i] }, func(dst driver.Ptr) error {
		return cuda.GatherRows(b.s, dst, in.Ptr, put(b, []int32{35}).Ptr, fault.Ptr, size, 1, 35, 40, 1, false)
	})
	require.Equal(t, []uint32{1}, get[uint32](b, fault, 1))
	check("select", 6, func(i int) T { return []T{x[0], x[11]}[i%2] }, func(dst driver.Ptr) error {
		return cuda.Select(b.s, dst, put(b, []uint8{1, 0}).Ptr, in.Ptr, in.Ptr+driver.Ptr(10*size), size, []int{3, 2}, []int{0, 1},
			[]int{0, 1}, []int{0, 1})
	})
}

func TestBlend(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		x := someFloats(rand.New(rand.NewPCG(10, 1)), 2*3*5, false)
		index, weight := []int32{0, 1, 2, -1, -1, -1, 1, 2}, []float32{0.25, 0.75, 1, 0, 0, 0, 0.1, 0.9}
		want := make([]float32, 2*4*5)
		for i := range want {
			o, k, e := i/20, i/5%4, i%5
			if k == 2 {
				want[i] = -7
				continue
			}
			for j := range 2 {
				if at := index[2*k+j]; at >= 0 {
					want[i] += float32(x[(o*3+int(at))*5+e] * weight[2*k+j])
				}
			}
		}
		out := room[float32](b, len(want))
		require.NoError(t, cuda.FloatBlend(b.s, out.Ptr, put(b, x).Ptr, put(b, index).Ptr, put(b, weight).Ptr, 2, 3, 5, 4, 2, -7))
		sameFloats(t, want, get[float32](b, out, len(want)))
	})
}

func TestComparisonsAndConversions(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		compare := func(op cuda.Comparison, n cuda.Number, x, y cuda.Buffer, count int, want func(i int) bool) {
			t.Helper()
			out := room[uint8](b, count)
			require.NoError(t, cuda.Compare(b.s, op, n, out.Ptr, x.Ptr, y.Ptr, []int{count}, []int{1}, []int{1}))
			for i, v := range get[uint8](b, out, count) {
				require.Equal(t, want(i), v == 1, "%d of comparison %d", i, op)
			}
		}
		x, y := append(oddFloats, 1, 2), append([]float32{nan, 0, inf}, oddFloats[1:]...)
		n := min(len(x), len(y))
		compare(cuda.CompareEqual, cuda.NumberFloat32, put(b, x), put(b, y), n, func(i int) bool { return x[i] == y[i] })
		compare(cuda.CompareGreater, cuda.NumberFloat32, put(b, x), put(b, y), n, func(i int) bool { return x[i] > y[i] })
		compare(cuda.CompareLessOrEqual, cuda.NumberFloat32, put(b, x), put(b, y), n, func(i int) bool { return x[i] <= y[i] })
		p, q := []int64{1, -1 << 60, 3, math.MaxInt64}, []int64{2, 5, 3, math.MinInt64}
		compare(cuda.CompareLess, cuda.NumberInt64, put(b, p), put(b, q), 4, func(i int) bool { return p[i] < q[i] })
		compare(cuda.CompareGreaterOrEqual, cuda.NumberInt64, put(b, p), put(b, q), 4, func(i int) bool { return p[i] >= q[i] })
		u, v := []uint8{0, 0, 1, 1}, []uint8{0, 1, 0, 1}
		compare(cuda.CompareAnd, cuda.NumberBool, put(b, u), put(b, v), 4, func(i int) bool { return u[i]&v[i] == 1 })
		compare(cuda.CompareOr, cuda.NumberBool, put(b, u), put(b, v), 4, func(i int) bool { return u[i]|v[i] == 1 })
		compare(cuda.CompareXor, cuda.NumberBool, put(b, u), put(b, v), 4, func(i int) bool { return u[i]^v[i] == 1 })

		big := []int64{0, 1, -1, 300, -129, 1 << 33, -1 << 40, 16777217, math.MinInt64}
		casted(b, cuda.NumberInt64, cuda.NumberFloat32, big, func(v int64) float32 { return float32(v) })
		casted(b, cuda.NumberInt64, cuda.NumberInt32, big, func(v int64) int32 { return int32(v) })
		casted(b, cuda.NumberInt64, cuda.NumberInt8, big, func(v int64) int8 { return int8(v) })
		casted(b, cuda.NumberInt64, cuda.NumberUint16, big, func(v int64) uint16 { return uint16(v) })
		casted(b, cuda.NumberInt64, cuda.NumberBool, big, func(v int64) bool { return v != 0 })
		casted(b, cuda.NumberInt8, cuda.NumberInt64, []int8{-128, 127, 0}, func(v int8) int64 { return int64(v) })
		casted(b, cuda.NumberUint8, cuda.NumberFloat32, []uint8{0, 255, 7}, func(v uint8) float32 { return float32(v) })
		casted(b, cuda.NumberUint32, cuda.NumberInt64, []uint32{math.MaxUint32, 1}, func(v uint32) int64 { return int64(v) })
		casted(b, cuda.NumberBool, cuda.NumberFloat32, []bool{true, false}, func(v bool) float32 {
			if v {
				return 1
			}
			return 0
		})
		floats := []float32{0, -0.9, 1.9, -1.9, 127.5, 300, -300.5, 2147483520, -2147483648}
		casted(b, cuda.NumberFloat32, cuda.NumberInt64, floats, func(v float32) int64 { return int64(v) })
		casted(b, cuda.NumberFloat32, cuda.NumberInt32, floats, func(v float32) int32 { return int32(v) })
		casted(b, cuda.NumberFloat32, cuda.NumberInt8, floats, func(v float32) int8 { return int8(int32(v)) })
		casted(b, cuda.NumberFloat32, cuda.NumberBool, floats, func(v float32) bool { return v != 0 })
		outside := []float32{nan, inf, -inf, 1e20, -1e20}
		casted(b, cuda.NumberFloat32, cuda.NumberInt64, outside, func(float32) int64 { return math.MinInt64 })
		casted(b, cuda.NumberFloat32, cuda.NumberInt32, outside, func(float32) int32 { return math.MinInt32 })
	})
}

func TestIntegers(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		b := newFloatBench(t, d)
		combined(b, cuda.NumberInt8, []int8{100, -100, 3, -128})
		combined(b, cuda.NumberUint8, []uint8{200, 100, 3, 0})
		combined(b, cuda.NumberInt16, []int16{30000, -30000, 3, 0})
		combined(b, cuda.NumberUint32, []uint32{math.MaxUint32, 1 << 31, 3, 0})
		combined(b, cuda.NumberInt32, []int32{math.MaxInt32, -1 << 30, 3, 0})
		combined(b, cuda.NumberInt64, []int64{math.MaxInt64, math.MinInt64, 1 << 40, -3})
		require.ErrorContains(t, cuda.CombineIntegers(b.s, cuda.IntegerAdd, cuda.NumberBool, 0, 0, 0, []int{1}, []int{1}, []int{1}), "no integer")
	})
}

// combined checks all pairs.
func combined[T int8 | uint8 | int16 | uint32 | int32 | int64](b *floatBench, n cuda.Number, list []T) {
	b.t.Helper()
	k := len(list)
	x, y := put(b, list), put(b, list)
	for op, f := range map[cuda.IntegerOperation]func(x, y T) T{
		cuda.IntegerAdd: func(x, y T) T { return x + y }, cuda.IntegerSub: func(x, y T) T {
			return x - y
		}, cuda.IntegerMul: func(x, y T) T { return x * y },
		cuda.IntegerMax: func(x, y T) T { return max(x, y) }, cuda.IntegerMin: func(x, y T) T { return min(x, y) },
	} {
		out := room[T](b, k*k)
		require.NoError(b.t, cuda.CombineIntegers(b.s, op, n, out.Ptr, x.Ptr, y.Ptr, []int{k, k}, []int{1, 0}, []int{0, 1}))
		for i, v := range get[T](b, out, k*k) {
			require.Equal(b.t, f(list[i/k], list[i%k]), v, "operation %d of %d and %d", op, list[i/k], list[i%k])
		}
	}
}

func casted[S, D any](b *floatBench, from, to cuda.Number, list []S, want func(S) D) {
	b.t.Helper()
	out := room[D](b, len(list))
	require.NoError(b.t, cuda.CastElements(b.s, out.Ptr, to, put(b, list).Ptr, from, len(list)))
	for i, v := range get[D](b, out, len(list)) {
		require.Equal(b.t, want(list[i]), v, "%v from %d to %d", list[i], from, to)
	}
}
