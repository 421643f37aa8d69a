package kernels_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/kernels/qmath"
)

// eachTable runs f as a sub-benchmark for every instruction set of this machine.
func eachTable(b *testing.B, f func(b *testing.B, t *kernels.Table)) {
	tables := kerneltest.Tables(cpu.Detect())
	for _, isa := range slices.Sorted(maps.Keys(tables)) {
		b.Run("isa="+isa, func(b *testing.B) { f(b, tables[isa]) })
	}
}

// square is a convolution of an h x h image with same padding.
func square(h, c, m, k, stride, group int) kernels.ConvShape {
	p := (k - 1) / 2
	out := (h+2*p-k)/stride + 1
	return kernels.ConvShape{N: 1, H: h, W: h, C: c, M: m, KH: k, KW: k, StrideH: stride, StrideW: stride, PadTop: p, PadLeft: p,
		PadBottom: p, PadRight: p, OutH: out, OutW: out, Group: group}
}

// resnet50 lists the convolutions of ResNet-50 at 224 with how often each occurs.
var resnet50 = []struct {
	times int
	s     kernels.ConvShape
}{
	{1, square(224, 3, 64, 7, 2, 1)},
	{1, square(56, 64, 64, 1, 1, 1)}, {3, square(56, 64, 64, 3, 1, 1)}, {4, square(56, 64, 256, 1, 1, 1)}, {2, square(56, 256, 64, 1, 1, 1)},
	{1, square(56, 256, 128, 1, 1, 1)}, {1, square(56, 128, 128, 3, 2, 1)}, {3, square(28, 128, 128, 3, 1, 1)},
	{4, square(28, 128, 512, 1, 1, 1)}, {3, square(28, 512, 128, 1, 1, 1)}, {1, square(56, 256, 512, 1, 2, 1)},
	{1, square(28, 512, 256, 1, 1, 1)}, {1, square(28, 256, 256, 3, 2, 1)}, {5, square(14, 256, 256, 3, 1, 1)},
	{6, square(14, 256, 1024, 1, 1, 1)}, {5, square(14, 1024, 256, 1, 1, 1)}, {1, square(28, 512, 1024, 1, 2, 1)},
	{1, square(14, 1024, 512, 1, 1, 1)}, {1, square(14, 512, 512, 3, 2, 1)}, {2, square(7, 512, 512, 3, 1, 1)},
	{3, square(7, 512, 2048, 1, 1, 1)}, {2, square(7, 2048, 512, 1, 1, 1)}, {1, square(14, 1024, 2048, 1, 2, 1)},
}

func macs(s kernels.ConvShape) float64 {
	return float64(s.N*s.OutH*s.OutW) * float64(s.M*s.C/s.Group*s.KH*s.KW)
}

func benchConv(b *testing.B, t *kernels.Table, s kernels.ConvShape) {
	src, w, dst := make([]float32, s.InLen()), make([]float32, s.WeightLen()), make([]float32, s.OutLen())
	fill(src, 1)
	fill(w, 2)
	c := t.PackConvF32(w, s)
	var scratch []float32
	for b.Loop() {
		c.Run(nil, dst, src, s, &scratch, kernels.Epilogue{Act: kernels.Relu})
	}
	b.ReportMetric(2*macs(s)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}

func fill(s []float32, seed uint32) {
	for i := range s {
		seed = seed*1664525 + 1013904223
		s[i] = float32(int32(seed)>>8) / (1 << 23)
	}
}

func BenchmarkConv(b *testing.B) {
	eachTable(b, func(b *testing.B, t *kernels.Table) {
		for _, c := range resnet50 {
			b.Run(fmt.Sprintf("h=%d/c=%d/m=%d/k=%d/stride=%d", c.s.H, c.s.C, c.s.M, c.s.KH, c.s.StrideH), func(b *testing.B) {
				benchConv(b, t, c.s)
			})
		}
	})
}

func BenchmarkDepthwise(b *testing.B) {
	eachTable(b, func(b *testing.B, t *kernels.Table) {
		for _, s := range []kernels.ConvShape{square(112, 32, 32, 3, 1, 32), square(56, 128, 128, 3, 1, 128), square(14, 512, 512, 3, 1, 512),
			square(7, 1024, 1024, 3, 1, 1024)} {
			b.Run(fmt.Sprintf("h=%d/c=%d/k=%d", s.H, s.C, s.KH), func(b *testing.B) { benchConv(b, t, s) })
		}
	})
}

// BenchmarkResNet50 runs all convolutions of the network.
func BenchmarkResNet50(b *testing.B) {
	eachTable(b, func(b *testing.B, t *kernels.Table) {
		var run []func()
		total := 0.0
		var scratch []float32
		for _, c := range resnet50 {
			src, w, dst := make([]float32, c.s.InLen()), make([]float32, c.s.WeightLen()), make([]float32, c.s.OutLen())
			fill(src, 1)
			fill(w, 2)
			p := t.PackConvF32(w, c.s)
			for range c.times {
				run = append(run, func() { p.Run(nil, dst, src, c.s, &scratch, kernels.Epilogue{Act: kernels.Relu}) })
			}
			total += macs(c.s) * float64(c.times)
		}
		for b.Loop() {
			for _, f := range run {
				f()
			}
		}
		b.ReportMetric(2*total*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
	})
}

func BenchmarkGemm(b *testing.B) {
	eachTable(b, func(b *testing.B, t *kernels.Table) {
		for _, size := range [][3]int{{512, 512, 512}, {128, 768, 3072}, {1, 1000, 2048}} {
			m, n, k := size[0], size[1], size[2]
			b.Run(fmt.Sprintf("m=%d/n=%d/k=%d", m, n, k), func(b *testing.B) {
				x, w, dst := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
				fill(x, 1)
				fill(w, 2)
				packed := t.PackGemmF32(w, k, n, n, false)
				for b.Loop() {
					packed.Run(nil, dst, n, x, k, m, kernels.Epilogue{})
				}
				b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
			})
		}
	})
}

func BenchmarkElementwise(b *testing.B) {
	x, y, dst := make([]float32, 1<<16), make([]float32, 1<<16), make([]float32, 1<<16)
	fill(x, 1)
	fill(y, 2)
	s := kernels.ConvShape{N: 1, H: 32, W: 32, C: 64, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 16, OutW: 16}
	eachTable(b, func(b *testing.B, t *kernels.Table) {
		for _, c := range []struct {
			op  string
			run func()
		}{
			{"add", func() { t.Add(dst, x, y) }},
			{"relu", func() { t.Limits(dst, x, 0, 10) }},
			{"fake", func() { t.FakeQuantize(dst, x, qmath.Grid{Scale: 0.01, QMin: -128, QMax: 127}) }},
			{"maxpool", func() { t.MaxPool(nil, dst, x, s) }},
			{"exp", func() { t.Exp(dst, x) }},
			{"sigmoid", func() { t.Sigmoid(dst, x) }},
			{"tanh", func() { t.Tanh(dst, x) }},
			{"erf", func() { t.Erf(dst, x) }},
			{"gelu", func() { t.Gelu(dst, x) }},
			{"softmax", func() { t.Softmax(nil, dst, x, 128) }},
			{"layernorm", func() { t.LayerNorm(nil, dst, x, y[:512], y[512:1024], 512, 1e-5, nil, nil) }},
			{"sum", func() { t.Sums(nil, dst[:128], x, 512, 1) }},
		} {
			b.Run("op="+c.op, func(b *testing.B) {
				b.SetBytes(int64(4 * len(x)))
				for b.Loop() {
					c.run()
				}
			})
		}
	})
}
