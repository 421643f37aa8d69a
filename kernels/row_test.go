package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Operations on rows take their memory from pools.
func TestRowAllocations(t *testing.T) {
	table := kernels.Select(cpu.Detect())
	const rows, n = 300, 100 // several pieces
	dst, src, scale, mean := make([]float32, rows*n), make([]float32, rows*n), make([]float32, n), make([]float32, rows)
	pieces := 0
	par := func(n int, body func(i int)) {
		pieces = n
		for i := range n {
			body(i)
		}
	}
	for name, run := range map[string]func(){
		"softmax":     func() { table.Softmax(par, dst, src, n) },
		"log softmax": func() { table.LogSoftmax(par, dst, src, n) },
		"layer norm":  func() { table.LayerNorm(par, dst, src, scale, nil, n, 1e-5, mean, nil) },
		"rms norm":    func() { table.RMSNorm(par, dst, src, scale, n, 1e-5) },
		"sums":        func() { table.Sums(par, mean, src, n, 2) },
		"squares":     func() { table.SquareSums(par, mean, src, n) },
		"maxima":      func() { table.Maxima(par, mean, src, n) },
	} {
		pieces = 0
		run()
		assert.Greater(t, pieces, 1, name)
		allocs := testing.AllocsPerRun(50, run)
		assert.True(t, racing || allocs < 1, "%s: %v allocations", name, allocs) // a collection may empty the pools
	}
}
