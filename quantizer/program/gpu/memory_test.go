package gpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/program/gpu"
)

// Values that are needed at the same time lie apart, at multiples of 256, and the arena is not much larger than what is needed at the
// worst moment.
func TestArena(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + r.IntN(40)
		sizes, births, deaths := make([]int, n), make([]int, n), make([]int, n)
		for i := range n {
			sizes[i], births[i] = 1+r.IntN(5000), r.IntN(30)
			deaths[i] = births[i] + r.IntN(8)
		}
		offsets, total := gpu.Places(sizes, births, deaths)
		again, _ := gpu.Places(sizes, births, deaths)
		require.Equal(t, offsets, again)
		worst := 0
		for at := range 40 {
			sum := 0
			for i := range n {
				if births[i] <= at && at <= deaths[i] {
					sum += (sizes[i] + 255) &^ 255
				}
			}
			worst = max(worst, sum)
		}
		require.LessOrEqual(t, total, worst*3/2)
		for i := range n {
			require.Zero(t, offsets[i]%256)
			require.LessOrEqual(t, offsets[i]+sizes[i], total)
			for k := range i {
				if births[i] <= deaths[k] && births[k] <= deaths[i] {
					require.True(t, offsets[i]+sizes[i] <= offsets[k] || offsets[k]+sizes[k] <= offsets[i])
				}
			}
		}
	}
}

// Values that follow each other share memory.
func TestArenaReusesMemory(t *testing.T) {
	offsets, total := gpu.Places([]int{1000, 600, 1000, 200}, []int{0, 1, 2, 2}, []int{1, 2, 3, 3})
	require.Equal(t, 1792+200, total)
	require.Equal(t, offsets[0], offsets[2])
}
