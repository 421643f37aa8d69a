package ref

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FMA equals one rounding of the exact value, for results of every size down to the denormals and for ties.
func TestFMA(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	check := func(x, y, z float32) {
		if sum := x + y + z; sum-sum != 0 {
			return // an input overflowed
		}
		exact := new(big.Rat).Mul(rat(x), rat(y))
		want, _ := exact.Add(exact, rat(z)).Float32()
		got := FMA(x, y, z)
		if want == 0 && got == 0 {
			return // a rational zero has no sign
		}
		require.Equal(t, math.Float32bits(want), math.Float32bits(got), "%b*%b + %b", x, y, z)
	}
	for range 100_000 {
		x := math.Ldexp(1+rng.Float64(), rng.IntN(40)-20)
		y := math.Ldexp(1+rng.Float64(), rng.IntN(40)-20)
		z := x * y * math.Ldexp(rng.Float64()*2-1, rng.IntN(60)-30)
		scale := math.Ldexp(1, []int{0, 0, -60, 40}[rng.IntN(4)])
		check(float32(x*scale), float32(y*scale), float32(z*scale*scale))
	}
	// A product that is half a unit of z, and a hair more or less: rounding twice goes wrong here.
	for _, hair := range []float32{0, 0x1p-23, -0x1p-23} {
		for _, z := range []float32{1, 1 + 0x1p-23, -1, 0x1p-149} {
			check(0x1p-12*(1+hair), 0x1p-12, z)
			check(0x1p-75*(1+hair), 0x1p-75, z)
		}
	}
}

func rat(x float32) *big.Rat { return new(big.Rat).SetFloat64(float64(x)) }

func TestFMASpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	assert.Equal(t, inf, FMA(inf, 1, 5))
	assert.Equal(t, -inf, FMA(1, 1, -inf))
	assert.True(t, isNaN(FMA(inf, 0, 1)))
	assert.True(t, isNaN(FMA(inf, 1, -inf)))
	assert.Equal(t, inf, FMA(math.MaxFloat32, 2, 0))
	assert.Equal(t, float32(math.MaxFloat32), FMA(math.MaxFloat32, 2, -math.MaxFloat32), "no overflow in between")
	minus := float32(math.Copysign(0, -1))
	assert.True(t, math.Signbit(float64(FMA(-1e-30, 1e-30, 0))), "underflow keeps its sign")
	assert.True(t, math.Signbit(float64(FMA(minus, 1, minus))))
	assert.False(t, math.Signbit(float64(FMA(1, 1, -1))))
}

func isNaN(x float32) bool { return x != x }

// The examples of this and the following tests are those of the ONNX operator documentation (one channel, one image).
func count(from, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(from + i)
	}
	return x
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

func TestConvONNX(t *testing.T) {
	for _, ar := range []Arith{Float64, Float32, FMA32} {
		s := ConvShape{N: 1, H: 5, W: 5, C: 1, M: 1, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, OutH: 5, OutW: 5}
		dst := make([]float32, 25)
		Conv(ar, dst, count(0, 25), ones(9), s, Epilogue{})
		assert.Equal(t, []float32{12, 21, 27, 33, 24, 33, 54, 63, 72, 51, 63, 99, 108, 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84},
			dst)

		s = ConvShape{N: 1, H: 7, W: 5, C: 1, M: 1, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1,
			OutH: 4, OutW: 3}
		dst = make([]float32, 12)
		Conv(ar, dst, count(0, 35), ones(9), s, Epilogue{})
		assert.Equal(t, []float32{12, 27, 24, 63, 108, 81, 123, 198, 141, 112, 177, 124}, dst)
	}
}

// Channels, groups, bias and activation, written out: two groups of one input and two output channels each, 1x2 kernel.
func TestConvGroups(t *testing.T) {
	s := ConvShape{N: 1, H: 1, W: 2, C: 2, M: 4, KH: 1, KW: 2, OutH: 1, OutW: 1, Group: 2}
	src := []float32{1, 10, 2, 20} // (channel 0, channel 1) at x = 0, 1
	w := []float32{1, 2, 3, 4, 5, 6, -7, 8}
	dst := make([]float32, 4)
	Conv(Float32, dst, src, w, s, Epilogue{Bias: []float32{100, 0, 0, 0.5}, Act: Clip, Lo: 0, Hi: 120})
	assert.Equal(t, []float32{100 + 1 + 4, 3 + 8, 120, 90.5}, dst)
}

func TestConvTransposeONNX(t *testing.T) {
	for _, ar := range []Arith{Float64, Float32, FMA32} {
		s := ConvShape{N: 1, H: 3, W: 3, C: 1, M: 2, KH: 3, KW: 3, OutH: 5, OutW: 5}
		dst := make([]float32, 50)
		ConvTranspose(ar, dst, count(0, 9), ones(18), s, Epilogue{})
		want := []float32{0, 1, 3, 3, 2, 3, 8, 15, 12, 7, 9, 21, 36, 27, 15, 9, 20, 33, 24, 13, 6, 13, 21, 15, 8}
		for i, x := range want {
			assert.Equal(t, []float32{x, x}, dst[2*i:2*i+2])
		}
		// Dilation 2, kernel 2x2.
		s = ConvShape{N: 1, H: 3, W: 3, C: 1, M: 1, KH: 2, KW: 2, DilH: 2, DilW: 2, OutH: 5, OutW: 5}
		dst = make([]float32, 25)
		ConvTranspose(ar, dst, []float32{3, 8, 1, 9, 5, 7, 3, 2, 6}, []float32{7, 2, 1, 9}, s, Epilogue{})
		assert.Equal(t, []float32{21, 56, 13, 16, 2, 63, 35, 67, 10, 14, 24, 22, 76, 76, 21, 9, 5, 88, 45, 63, 3, 2, 33, 18, 54}, dst)
	}
}

func TestPoolsONNX(t *testing.T) {
	s := ConvShape{N: 1, H: 5, W: 5, C: 1, KH: 5, KW: 5, PadTop: 2, PadLeft: 2, PadBottom: 2, PadRight: 2, OutH: 5, OutW: 5}
	dst := make([]float32, 25)
	MaxPool(dst, count(1, 25), s)
	assert.Equal(t, []float32{13, 14, 15, 15, 15, 18, 19, 20, 20, 20, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25}, dst)
	for _, ar := range []Arith{Float64, Float32} {
		AveragePool(ar, dst, count(1, 25), s, false)
		assert.Equal(t, []float32{7, 7.5, 8, 8.5, 9, 9.5, 10, 10.5, 11, 11.5, 12, 12.5, 13, 13.5, 14, 14.5, 15, 15.5, 16, 16.5, 17, 17.5, 18,
			18.5, 19}, dst)
		AveragePool(ar, dst, count(1, 25), s, true)
		assert.Equal(t, []float32{2.52, 3.6, 4.8, 4.08, 3.24}, dst[:5])
	}
	// Output size rounded up: the last windows hang over the end, where nothing counts.
	s = ConvShape{N: 1, H: 4, W: 4, C: 1, KH: 3, KW: 3, StrideH: 2, StrideW: 2, OutH: 2, OutW: 2}
	dst = dst[:4]
	AveragePool(Float32, dst, count(1, 16), s, true)
	assert.Equal(t, []float32{6, 7.5, 12, 13.5}, dst)
	MaxPool(dst, count(1, 16), s)
	assert.Equal(t, []float32{11, 12, 15, 16}, dst)
	GlobalAverage(Float32, dst, []float32{1, 2, 3, 4, 5, 9}, 1, 3, 2)
	assert.Equal(t, []float32{3, 5}, dst[:2])
}

func TestMaxPoolNaN(t *testing.T) {
	nan := float32(math.NaN())
	s := ConvShape{N: 1, H: 1, W: 3, C: 1, KH: 1, KW: 3, OutH: 1, OutW: 1}
	for _, src := range [][]float32{{nan, 1, 2}, {1, nan, 2}, {1, 2, nan}} {
		dst := []float32{0}
		MaxPool(dst, src, s)
		assert.True(t, isNaN(dst[0]), "%v", src)
	}
	dst := []float32{0}
	MaxPool(dst, nil, ConvShape{N: 1, C: 1, KH: 1, KW: 1, PadTop: 1, OutH: 1, OutW: 1})
	assert.Equal(t, float32(math.Inf(-1)), dst[0])
}

func TestPaddingIsData(t *testing.T) {
	s := ConvShape{N: 1, H: 1, W: 1, C: 1, M: 1, KH: 1, KW: 2, PadLeft: 1, OutH: 1, OutW: 1}
	dst := []float32{0}
	Conv(Float32, dst, []float32{1}, []float32{float32(math.Inf(1)), 1}, s, Epilogue{})
	assert.True(t, isNaN(dst[0]))
}

func TestRows(t *testing.T) {
	dst := make([]float32, 3)
	Softmax(Float64, dst, []float32{1000, 1000, float32(math.Inf(-1))})
	assert.Equal(t, []float32{0.5, 0.5, 0}, dst)
	Softmax(Float64, dst[:2], []float32{0, float32(math.Log(3))})
	assert.InDeltaSlice(t, []float32{0.25, 0.75}, dst[:2], 1e-7)
	Softmax(Float64, dst[:1], []float32{float32(math.Inf(-1))})
	assert.True(t, isNaN(dst[0]))
	LayerNorm(dst, []float32{1, 2, 3}, []float32{1, 1, 2}, []float32{0, 5, 0}, 0)
	assert.InDeltaSlice(t, []float32{-1.2247449, 5, 2.4494898}, dst, 1e-6)
}

func TestEpilogue(t *testing.T) {
	lo, hi := Epilogue{Act: Relu}.Limits()
	minus := float32(math.Copysign(0, -1))
	assert.Equal(t, []float32{0, 5}, []float32{Limit(-3, lo, hi), Limit(5, lo, hi)})
	assert.True(t, math.Signbit(float64(Limit(minus, lo, hi))), "-0 is not below 0")
	assert.True(t, isNaN(Limit(float32(math.NaN()), lo, hi)))
	assert.Equal(t, float32(-2), Limit(7, 3, -2), "the upper limit is applied last")
}

func TestShapeCheck(t *testing.T) {
	good := ConvShape{N: 1, H: 4, W: 4, C: 2, M: 4, KH: 3, KW: 3, OutH: 2, OutW: 2, Group: 2}
	require.NoError(t, good.Check())
	for want, change := range map[string]func(*ConvShape){
		"groups":        func(s *ConvShape) { s.Group = 3 },
		"kernel height": func(s *ConvShape) { s.KH = 0 },
		"stride":        func(s *ConvShape) { s.StrideH = -1 },
		"output width":  func(s *ConvShape) { s.OutW = -1 },
		"C is 0":        func(s *ConvShape) { s.C = 0 },
	} {
		bad := good
		change(&bad)
		assert.ErrorContains(t, bad.Check(), want)
	}
}
