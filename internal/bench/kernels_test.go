package bench_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/bench"
	"qwb/internal/longtest"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// No row is left out: a new one, or a new operation, needs a case.
func TestEveryRowHasACase(t *testing.T) {
	names := map[string]bool{}
	for _, k := range bench.Kernels() {
		assert.False(t, names[k.Name()], "%s is there twice", k.Name())
		names[k.Name()] = true
		assert.Positive(t, k.Ops, k.Name())
		assert.Positive(t, k.Bytes, k.Name())
	}
	for _, r := range kernels.Rows() {
		found := false
		for _, k := range bench.Kernels() {
			found = found || k.Takes(r)
		}
		assert.True(t, found, "%s is timed by no case of internal/bench", r.Name)
	}
}

// Every case runs, with the rows of this processor, on one thread and on two.
func TestCasesRun(t *testing.T) {
	longtest.Need(t, "runs matrix products of 2048")
	table := kernels.Select(cpu.Detect())
	for _, k := range bench.Kernels() {
		if !k.Takes(table.Rows()[k.Op]) {
			continue
		}
		require.NotPanics(t, func() {
			run := k.Prepare(table)
			run(nil)
			run(bench.Parallel(2))
		}, k.Name())
	}
}

func TestParallel(t *testing.T) {
	assert.Nil(t, bench.Parallel(1))
	for _, n := range []int{0, 1, 2, 100} {
		seen := make([]atomic.Int32, n)
		bench.Parallel(3)(n, func(i int) { seen[i].Add(1) })
		for i := range seen {
			assert.EqualValues(t, 1, seen[i].Load())
		}
	}
}

func TestPeakWorks(t *testing.T) {
	for _, threads := range []int{1, 3} {
		w, ops, name := bench.ComputePeak(cpu.Features{}, kernels.PeakFloat, threads)
		require.NoError(t, w(context.Background()))
		assert.Equal(t, "multiply-add-go", name)
		assert.EqualValues(t, 24*20_000*threads, ops)
		for _, n := range []int{1, 16 << 10, 8 << 20} {
			w, bytes, name := bench.ReadPeak(cpu.Detect(), n, threads)
			require.NoError(t, w(context.Background()))
			assert.NotEmpty(t, name)
			assert.GreaterOrEqual(t, bytes, 4e6*0.99)
		}
	}
}
