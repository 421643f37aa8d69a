package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

func (s Suite) elementwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	inf := float32(math.Inf(1))
	grids := []qmath.Grid{
		{Scale: 0.02, QMin: -128, QMax: 127}, {Scale: 0.1, ZeroPoint: 77, QMin: 0, QMax: 255}, {Scale: 0x1p-126, QMin: -8, QMax: 7},
		{Scale: 1, QMin: math.MinInt32, QMax: math.MaxInt32}, {Scale: 0.25, QMin: -128, QMax: 127, Rounding: qmath.HalfUp},
	}
	for n := range 100 {
		for _, d := range []data{ordinary, extreme} {
			a, b := s.copyOf(d(rng, n)), s.copyOf(d(rng, n))
			for _, op := range []struct {
				name string
				f    func(dst, a, b []float32)
				want func(x, y float32) float32
			}{
				{"add", s.Table.Add, func(x, y float32) float32 { return x + y }},
				{"sub", s.Table.Sub, func(x, y float32) float32 { return x - y }},
				{"mul", s.Table.Mul, func(x, y float32) float32 { return x * y }},
				{"div", s.Table.Div, func(x, y float32) float32 { return x / y }},
				{"add row", s.Table.AddRow, func(x, y float32) float32 { return x + y }},
				{"mul row", s.Table.MulRow, func(x, y float32) float32 { return x * y }},
				{"relu", func(dst, a, _ []float32) { s.Table.Limits(dst, a, 0, inf) }, func(x, _ float32) float32 { return ref.Limit(x, 0, inf) }},
				{"clip", func(dst, a, _ []float32) { s.Table.Limits(dst, a, -1, 0.5) }, func(x, _ float32) float32 { return ref.Limit(x, -1, 0.5) }},
				{"clip to nothing", func(dst, a, _ []float32) { s.Table.Limits(dst, a, 3, -2) }, func(x, _ float32) float32 {
					return ref.Limit(x, 3, -2)
				}},
			} {
				want := make([]float32, n)
				for i := range want {
					want[i] = op.want(a[i], b[i])
				}
				dst := s.Memory.New(n)
				op.f(dst, a, b)
				requireSame(t, want, dst, "%s of %d", op.name, n)
				inPlace := s.copyOf(a)
				op.f(inPlace, inPlace, b)
				requireSame(t, want, inPlace, "%s of %d in place", op.name, n)
			}
			for _, g := range grids {
				want, dst := make([]float32, n), s.Memory.New(n)
				for i := range want {
					want[i] = g.Fake(a[i])
				}
				s.Table.FakeQuantize(dst, a, g)
				requireSame(t, want, dst, "%+v of %d", g, n)
			}
			require.NoError(t, s.Memory.Check())
		}
	}
}

// broadcasts tests the operations with one value per channel, and with one value.
func (s Suite) broadcasts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	const rows, n = 37, 29
	x, scale, bias := ordinary(rng, rows*n), ordinary(rng, n), ordinary(rng, n)
	for name, f := range map[string]struct {
		run  func(dst []float32)
		want func(i int) float32
	}{
		"add row": {func(d []float32) { s.Table.AddRow(d, x, bias) }, func(i int) float32 { return x[i] + bias[i%n] }},
		"mul row": {func(d []float32) { s.Table.MulRow(d, x, scale) }, func(i int) float32 { return x[i] * scale[i%n] }},
		"mul add row": {func(d []float32) { kernels.MulAddRow(d, x, scale, bias) }, func(i int) float32 {
			return float32(x[i]*scale[i%n]) + bias[i%n]
		}},
		"add scalar": {func(d []float32) { kernels.AddScalar(d, x, 3) }, func(i int) float32 { return x[i] + 3 }},
		"mul scalar": {func(d []float32) { kernels.MulScalar(d, x, 3) }, func(i int) float32 { return x[i] * 3 }},
	} {
		got, want := s.Memory.New(rows*n), make([]float32, rows*n)
		f.run(got)
		for i := range want {
			want[i] = f.want(i)
		}
		requireSame(t, want, got, "%s", name)
	}
	require.NoError(t, s.Memory.Check())
}

// misuse: slices that are too short are refused before anything is written.
func (s Suite) misuse(t *testing.T) {
	shape := kernels.ConvShape{N: 1, H: 4, W: 4, C: 2, M: 3, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 4}
	src, w, dst := make([]float32, shape.InLen()), make([]float32, shape.WeightLen()), make([]float32, shape.OutLen())
	conv := s.Table.PackConvF32(w, shape)
	product := s.Table.PackGemmF32(w, 3, 5, 5, false)
	var scratch []float32
	none := kernels.Epilogue{}
	wrong := shape
	wrong.C = 1
	for name, f := range map[string]func(){
		"short weights":     func() { s.Table.PackConvF32(w[1:], shape) },
		"groups":            func() { odd := shape; odd.Group = 2; s.Table.PackConvF32(w, odd) },
		"short src":         func() { conv.Run(nil, dst, src[1:], shape, &scratch, none) },
		"short dst":         func() { conv.Run(nil, dst[1:], src, shape, &scratch, none) },
		"other shape":       func() { conv.Run(nil, dst, src, wrong, &scratch, none) },
		"short bias":        func() { conv.Run(nil, dst, src, shape, &scratch, kernels.Epilogue{Bias: w[:2]}) },
		"short a":           func() { product.Run(nil, dst, 5, src[:5], 3, 2, none) },
		"rows overlap":      func() { product.Run(nil, dst, 4, src, 3, 2, none) },
		"pool's channels":   func() { s.Table.MaxPool(nil, dst, src, shape) },
		"broken rows":       func() { s.Table.NewMeter().ChannelMinMax(src[:5], dst[:2], src[:2]) },
		"few counters":      func() { s.Table.NewMeter().Count(src, 100, 21, make([]uint32, kernels.BinSide(21))) },
		"no exponent":       func() { s.Table.NewMeter().Count(src, 0, 21, make([]uint32, kernels.BinZeros+kernels.BinSide(21))) },
		"short elementwise": func() { s.Table.Add(dst, dst, dst[1:]) },
	} {
		require.Panics(t, f, name)
	}
	for _, x := range dst {
		require.Zero(t, x)
	}
}
