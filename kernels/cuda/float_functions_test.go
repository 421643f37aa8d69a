package cuda_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
	"qwb/kernels/ref"
)

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
