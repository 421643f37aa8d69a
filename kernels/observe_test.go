package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"qwb/kernels"
)

// measured lists data to measure: values around zero, and the same after a Relu.
func measured(n int) map[string][]float32 {
	rng := rand.New(rand.NewPCG(1, 1))
	normal, relu := make([]float32, n), make([]float32, n)
	for i := range normal {
		normal[i] = float32(rng.NormFloat64())
		relu[i] = max(normal[i], 0)
	}
	return map[string][]float32{"normal": normal, "relu": relu}
}

// BenchmarkMeter measures slices that stay in the second-level cache, and one that does not fit into any. Compare GB/s with
// BenchmarkPeak's of the same run.
func BenchmarkMeter(b *testing.B) {
	for _, n := range []int{1 << 17, 1 << 27} {
		data := measured(min(n, 1<<20))
		for _, kind := range []string{"normal", "relu"} {
			x := data[kind]
			for len(x) < n {
				x = append(x, x...)
			}
			eachTable(b, func(b *testing.B, t *kernels.Table) {
				m := t.NewMeter()
				const channels = 256
				lo, hi := make([]float32, channels), make([]float32, channels)
				counts := make([]uint32, kernels.BinZeros+2*kernels.BinSide(21))
				for _, c := range []struct {
					op  string
					run func()
				}{
					{"min-max", func() { m.MinMax(x) }},
					{"channel-min-max", func() { m.ChannelMinMax(x, lo, hi) }},
					{"bins", func() { m.Count(x, 127-18, 21, counts) }},
				} {
					b.Run(fmt.Sprintf("op=%s/data=%s/n=%d", c.op, kind, n), func(b *testing.B) {
						b.SetBytes(int64(4 * n))
						for b.Loop() {
							c.run()
						}
						b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
					})
				}
			})
		}
	}
}
