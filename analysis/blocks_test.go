package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
)

func TestBlocksOfSequences(t *testing.T) {
	require.Nil(t, NewBlocks([]int{1, 1, 1}), "samples that are no steps")
	require.Nil(t, NewBlocks(nil))
	require.Equal(t, Blocks{0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 7}, NewBlocks([]int{2, 1, 2, 2, 1, 2, 1, 2}), "few sequences of few steps")
	b := NewBlocks([]int{4, 4, 4, 4, 4, 4, 4, 4})
	require.Equal(t, 8, b.Count(32), "many sequences are a block each")
	require.Equal(t, 7, b[31])
	b = NewBlocks([]int{100})
	require.Equal(t, 10, b.Count(100), "one recording is cut into blocks of the root of its length")
	for i := range b {
		require.Equal(t, i/10, b[i])
	}

	one, other := &exec.Sequence{Steps: 3}, &exec.Sequence{Steps: 2}
	samples := []*exec.Sample{{Sequence: one}, {Sequence: one, Step: 1}, {Sequence: one, Step: 2}, {}, {Sequence: other},
		{Sequence: other, Step: 1}}
	require.Equal(t, Blocks{0, 0, 0, 1, 2, 2}, BlocksOf(samples))
	require.Nil(t, BlocksOf([]*exec.Sample{{}, {}}))
}

func TestBlocksKeepTheMeanAndAreCochransRatio(t *testing.T) {
	values, b := []float64{1, 2, 9, 4, 4, 7}, Blocks{0, 0, 1, 2, 2, 2}
	require.InDelta(t, 4.5, b.Estimate(values).Mean, 1e-12)
	// residuals of the blocks: 3-9, 9-4.5, 15-13.5; sqrt(3/2 * (36 + 20.25 + 2.25)) / 6
	require.InDelta(t, math.Sqrt(1.5*58.5)/6, b.Estimate(values).Error, 1e-12)
	require.Equal(t, 3, b.Estimate(values).N)
	require.Equal(t, values, Blocks(nil).Of(values))
	require.True(t, math.IsNaN(b.Estimate([]float64{1, math.NaN(), 1, 1, 1, 1}).Mean))

	m := meter{blocks: b}
	for i, x := range values {
		m.addUnless(i == 2, Error{NSR: x})
	}
	require.InDelta(t, 3.6, m.mean().NSR, 1e-12, "an empty sample takes its block with it")
	require.InDelta(t, math.Sqrt(2*(4.2*4.2+4.2*4.2))/5, *m.spread().NSRError, 1e-12)
}

// An error that goes on from step to step, x' = 0.9 x + noise, has a mean that is sqrt((1 + 0.9) / (1 - 0.9)), over 4 times, less certain
// than its steps taken as independent say. The intervals of blocks are to hold nearly as often as they claim.
func TestBlocksOfDependentSteps(t *testing.T) {
	const runs = 2000
	for _, steps := range [][]int{{1000}, {300, 300, 300}, {50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50}} {
		r := rand.New(rand.NewPCG(1, 2))
		b := NewBlocks(steps)
		byBlocks, bySteps := 0, 0
		for range runs {
			var values []float64
			for _, n := range steps {
				x := r.NormFloat64() / math.Sqrt(1-0.9*0.9)
				for range n {
					values = append(values, x)
					x = 0.9*x + r.NormFloat64()
				}
			}
			inside := func(e Estimate) int {
				if e.Lower(0.05) <= 0 && e.Upper(0.05) >= 0 {
					return 1
				}
				return 0
			}
			byBlocks, bySteps = byBlocks+inside(b.Estimate(values)), bySteps+inside(NewEstimate(values))
		}
		require.Greater(t, byBlocks, runs*82/100, "%v: intervals of 90 %%", steps)
		require.Less(t, byBlocks, runs*95/100, steps)
		require.Less(t, bySteps, runs*40/100, "as if steps were independent")
	}
}
