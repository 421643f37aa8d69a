package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
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
