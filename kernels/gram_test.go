package kernels_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

// Every row that this processor runs gives the sums of the definition, also those that no table of the suite chooses.
func TestGramRows(t *testing.T) {
	const wide = 2 * kernels.GramLanes
	a, b := make([]int16, 77*wide), make([]int16, 77*wide)
	x := uint32(1)
	for i := range a {
		x = x*1664525 + 1013904223
		a[i], b[i] = int16(x>>16)|1, int16(x>>13)|1
	}
	want := make([]int64, kernels.GramLanes*kernels.GramLanes)
	ref.Gram(want, a, b)
	table := kernels.Select(cpu.Detect())
	for _, r := range kernels.Rows() {
		if r.Op == kernels.OpGram && r.Runs(cpu.Detect()) {
			got := make([]int64, len(want))
			table.With(r).Gram(got, a, b, 1<<30)
			assert.Equal(t, want, got, r.Name)
		}
	}
}

func BenchmarkGram(b *testing.B) {
	const pairs = 256
	x, dst := make([]int16, pairs*2*kernels.GramLanes), make([]int64, kernels.GramLanes*kernels.GramLanes)
	for i := range x {
		x[i] = int16(i*i) >> 3
	}
	table := kernels.Select(cpu.Detect())
	for _, r := range kernels.Rows() {
		if r.Op != kernels.OpGram || !r.Runs(cpu.Detect()) {
			continue
		}
		for _, limit := range []int{255, 4095} {
			b.Run(fmt.Sprint(r.Name, "/", limit), func(b *testing.B) {
				t := table.With(r)
				for b.Loop() {
					t.Gram(dst, x, x, limit*limit)
				}
				b.ReportMetric(float64(b.N)*pairs*2*kernels.GramLanes*kernels.GramLanes/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
