package observers

import (
	"testing"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

func BenchmarkWindowRows(b *testing.B) {
	const n, rows = 64, 1000
	data := make([]float32, n*rows)
	for i := range data {
		data[i] = float32((i*7919)%1000-400) / 97
	}
	for _, l := range []struct {
		name string
		Limits
	}{{"none", NoLimits}, {"relu6", Limits{0, 6}}} {
		b.Run("limits="+l.name, func(b *testing.B) {
			w := NewWindow(kernels.Select(cpu.Detect()), n, func(int, float32) {}, func(int, int64, int) {})
			b.SetBytes(4 * n * rows)
			for b.Loop() {
				w.Rows(data, 0, n, l.Limits, w.Open(6, rows))
			}
		})
	}
}
