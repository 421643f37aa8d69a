package kernels_test

import (
	"fmt"
	"testing"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// tables returns one table for every instruction set that this machine runs.
func tables() map[string]*kernels.Table {
	f := cpu.Detect()
	out := map[string]*kernels.Table{"go": kernels.Select(cpu.Features{})}
	if f.AVX2 {
		out["avx2"] = kernels.Select(cpu.Features{AVX2: true})
	}
	if f.AVX512 {
		out["avx512"] = kernels.Select(f)
	}
	return out
}

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
	{1, square(56, 256, 128, 1, 1, 1)}, {1, square(56, 128, 128, 3, 2, 1)}, {3, square(28, 128, 128, 3, 1, 1)}, {4, square(28, 128, 512, 1, 1, 1)},
	{3, square(28, 512, 128, 1, 1, 1)}, {1, square(56, 256, 512, 1, 2, 1)},
	{1, square(28, 512, 256, 1, 1, 1)}, {1, square(28, 256, 256, 3, 2, 1)}, {5, square(14, 256, 256, 3, 1, 1)}, {6, square(14, 256, 1024, 1, 1, 1)},
	{5, square(14, 1024, 256, 1, 1, 1)}, {1, square(28, 512, 1024, 1, 2, 1)},
	{1, square(14, 1024, 512, 1, 1, 1)}, {1, square(14, 512, 512, 3, 2, 1)}, {2, square(7, 512, 512, 3, 1, 1)}, {3, square(7, 512, 2048, 1, 1, 1)},
	{2, square(7, 2048, 512, 1, 1, 1)}, {1, square(14, 1024, 2048, 1, 2, 1)},
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
	b.ResetTimer()
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
	for isa, t := range tables() {
		for _, c := range resnet50 {
			b.Run(fmt.Sprintf("isa=%s/h=%d/c=%d/m=%d/k=%d/stride=%d", isa, c.s.H, c.s.C, c.s.M, c.s.KH, c.s.StrideH), func(b *testing.B) { benchConv(b, t, c.s) })
		}
	}
}

func BenchmarkDepthwise(b *testing.B) {
	for isa, t := range tables() {
		for _, s := range []kernels.ConvShape{square(112, 32, 32, 3, 1, 32), square(56, 128, 128, 3, 1, 128), square(14, 512, 512, 3, 1, 512), square(7, 1024, 1024, 3, 1, 1024)} {
			b.Run(fmt.Sprintf("isa=%s/h=%d/c=%d/k=%d", isa, s.H, s.C, s.KH), func(b *testing.B) { benchConv(b, t, s) })
		}
	}
}
func BenchmarkResNet50(b *testing.B) {
	for isa, t := range tables() {
		b.Run("isa="+isa, func(b *testing.B) {
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
			b.ResetTimer()
			for b.Loop() {
				for _, f := range run {
					f()
				}
			}
			b.ReportMetric(2*total*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
		})
	}
}
