package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Products are part of every token: in the long run they allocate nothing.
func TestGroupsDoNotAllocate(t *testing.T) {
	if racing {
		t.Skip("pools drop things at random under the race detector")
	}
	for name, size := range map[string]int{"panels": 32, "plain": 32, "classes": 20} {
		table := kernels.Select(cpu.Detect())
		g, err := table.PackGroups(nil, kernels.GroupMatrix{Rows: 40, Cols: 64, Size: size, Plain: name == "plain",
			Read: func([]int8, []float32, int) {}})
		assert.NoError(t, err)
		x, dst, rows := make([]float32, 3*64), make([]float32, 3*40), new(kernels.GroupRows)
		products := []kernels.GroupsProduct{{Matrix: g, Dst: dst}}
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			g.Prepare(rows, nil, x, 3)
			table.MulGroups(nil, rows, products)
			table.Combine(kernels.Combination{Dst: dst, S: x, M: x, Rows: 2, N: 2, StepDst: 32, Blocks: 2, Step: 16, BlockStep: 32})
		}), name)
	}
}
