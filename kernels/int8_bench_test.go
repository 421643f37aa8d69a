package kernels_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
)

// eachIntegerTable runs f as a sub-benchmark for every set of integer rows of this machine but the saturating one.
func eachIntegerTable(b *testing.B, f func(b *testing.B, t *kernels.Table)) {
	tables := kerneltest.IntegerTables(cpu.Detect())
	delete(tables, "saturating")
	for _, isa := range slices.Sorted(maps.Keys(tables)) {
		b.Run("isa="+isa, func(b *testing.B) { f(b, tables[isa]) })
	}
}

// measure runs f, which multiplies and adds macs times, and reports the best of its runs in 10^9 operations a second, and as a
// share of the integer peak of the core in the same seconds: runs and the peak's loop take turns, the best of each counts.
func measure(b *testing.B, macs float64, f func()) {
	peak := kernels.BestPeak(cpu.Detect(), kernels.PeakInteger)
	const iterations = 20_000
	best, bestPeak := time.Duration(1<<62), time.Duration(1<<62)
	f()
	for b.Loop() {
		t0 := time.Now()
		peak.Compute(iterations)
		t1 := time.Now()
		f()
		best, bestPeak = min(best, time.Since(t1)), min(bestPeak, t1.Sub(t0))
	}
	gops := 2 * macs / float64(best.Nanoseconds())
	b.ReportMetric(gops, "GOPS")
	b.ReportMetric(gops/(float64(peak.Ops*iterations)/float64(bestPeak.Nanoseconds())), "of-peak")
}

func bytes8(n int, seed uint32) []uint8 {
	s := make([]uint8, n)
	for i := range s {
		seed = seed*1664525 + 1013904223
		s[i] = uint8(seed >> 24)
	}
	return s
}

func weights8(n int, seed uint32) []int8 {
	s := make([]int8, n)
	for i, v := range bytes8(n, seed) {
		s[i] = int8(v)
	}
	return s
}

// factors8 are factors that bring sums of k products into the range of codes.
func factors8(n, k int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = 1 / (100 * float32(k))
	}
	return f
}

func BenchmarkInt8Gemm(b *testing.B) {
	eachIntegerTable(b, func(b *testing.B, t *kernels.Table) {
		for _, size := range [][3]int{{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {128, 768, 768}, {128, 3072, 768},
			{128, 768, 3072}, {1, 1000, 2048}} {
			m, n, k := size[0], size[1], size[2]
			x, packed := bytes8(m*k, 1), t.PackGemmU8S8(weights8(k*n, 2), k, n, n, false)
			shift := kernels.Shift{Mul: make([]int32, n), Exp: make([]int8, n), Zero: 128}
			for j := range n {
				shift.Mul[j], shift.Exp[j] = 1<<30+int32(j), -16
			}
			for _, o := range []struct {
				name string
				out  kernels.Output
			}{
				{"s32", &kernels.StoreS32{Dst: make([]int32, m*n), Ldd: n}},
				{"scale-u8", &kernels.StoreScaled{Dst: make([]uint8, m*n), Ldd: n, Scale: kernels.Scale{Factor: factors8(n, k), Zero: 128}}},
				{"scale-f32", &kernels.StoreF32{Dst: make([]float32, m*n), Ldd: n, Scale: kernels.Scale{Factor: factors8(n, k)}}},
				{"shift-u8", &kernels.StoreShifted{Dst: make([]uint8, m*n), Ldd: n, Shift: shift}},
			} {
				b.Run(fmt.Sprintf("m=%d/n=%d/k=%d/out=%s", m, n, k, o.name), func(b *testing.B) {
					measure(b, float64(m*n*k), func() { packed.Run(nil, x, k, m, kernels.Terms{}, o.out) })
				})
			}
		}
	})
}

// conv8 returns a function that runs a convolution with an output of codes.
func conv8(t *kernels.Table, s kernels.ConvShape) func() {
	src, w := bytes8(s.InLen(), 1), t.PackConvU8S8(weights8(s.WeightLen(), 2), s)
	out := &kernels.StoreScaled{Dst: make([]uint8, s.OutLen()), Ldd: s.M,
		Scale: kernels.Scale{Factor: factors8(s.M, s.C/s.Full().Group*s.KH*s.KW), Zero: 10}}
	terms, scratch := kernels.Terms{Column: make([]int32, s.M)}, []uint8(nil)
	return func() { w.Run(nil, src, s, 10, &scratch, terms, out) }
}

func BenchmarkInt8Conv(b *testing.B) {
	eachIntegerTable(b, func(b *testing.B, t *kernels.Table) {
		var all []func()
		total := 0.0
		for _, c := range resnet50 {
			f := conv8(t, c.s)
			for range c.times {
				all = append(all, f)
			}
			total += macs(c.s) * float64(c.times)
			b.Run(fmt.Sprintf("h=%d/c=%d/m=%d/k=%d/stride=%d", c.s.H, c.s.C, c.s.M, c.s.KH, c.s.StrideH), func(b *testing.B) {
				measure(b, macs(c.s), f)
			})
		}
		b.Run("net=resnet50", func(b *testing.B) {
			measure(b, total, func() {
				for _, f := range all {
					f()
				}
			})
		})
	})
}

// BenchmarkInt8Depthwise runs the depthwise convolutions of MobileNetV2.
func BenchmarkInt8Depthwise(b *testing.B) {
	shapes := []kernels.ConvShape{square(112, 32, 32, 3, 1, 32), square(112, 96, 96, 3, 2, 96), square(56, 144, 144, 3, 1, 144),
		square(56, 144, 144, 3, 2, 144),
		square(28, 192, 192, 3, 1, 192), square(28, 192, 192, 3, 2, 192), square(14, 384, 384, 3, 1, 384), square(14, 576, 576, 3, 1, 576),
		square(14, 576, 576, 3, 2, 576), square(7, 960, 960, 3, 1, 960), square(28, 240, 240, 5, 1, 240)}
	eachIntegerTable(b, func(b *testing.B, t *kernels.Table) {
		for _, s := range shapes {
			b.Run(fmt.Sprintf("h=%d/c=%d/k=%d/stride=%d", s.H, s.C, s.KH, s.StrideH), func(b *testing.B) { measure(b, macs(s), conv8(t, s)) })
		}
	})
}
