package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Every loop that runs here ends and leaves its operand as it was; every kind has one that runs everywhere.
func TestPeaks(t *testing.T) {
	everywhere := map[kernels.PeakKind]bool{}
	names := map[string]bool{}
	for _, p := range kernels.Peaks() {
		assert.False(t, names[p.Name], p.Name)
		names[p.Name] = true
		assert.Equal(t, p.Kind != kernels.PeakRead, p.Ops > 0, p.Name)
		everywhere[p.Kind] = everywhere[p.Kind] || p.Runs(cpu.Features{})
		if !p.Runs(cpu.Detect()) {
			t.Logf("%s does not run here", p.Name)
			continue
		}
		if p.Kind != kernels.PeakRead {
			p.Compute(0)
			p.Compute(1000)
			continue
		}
		for _, n := range []int{0, 1, 127, 128, 129, 5000} {
			s := make([]float32, n)
			fill(s, 7)
			p.Read(s)
			want := make([]float32, n)
			fill(want, 7)
			assert.Equal(t, want, s)
		}
	}
	for _, k := range []kernels.PeakKind{kernels.PeakFloat, kernels.PeakInteger, kernels.PeakRead, kernels.PeakPairs} {
		assert.True(t, everywhere[k], k)
		assert.Equal(t, "go", kernels.BestPeak(cpu.Features{}, k).ISA)
		assert.Equal(t, k, kernels.BestPeak(cpu.Detect(), k).Kind)
	}
}

func BenchmarkPeak(b *testing.B) {
	s := make([]float32, 1<<18)
	for _, p := range kernels.Peaks() {
		if !p.Runs(cpu.Detect()) {
			continue
		}
		b.Run("loop="+p.Name, func(b *testing.B) {
			for b.Loop() {
				if p.Kind == kernels.PeakRead {
					p.Read(s)
				} else {
					p.Compute(10000)
				}
			}
			if p.Kind == kernels.PeakRead {
				b.ReportMetric(float64(4*len(s))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			} else {
				b.ReportMetric(float64(p.Ops)*1e4*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
			}
		})
	}
}
