package search

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/graph/exec"
)

// An error that stays for many steps is one piece of evidence, not many: the error bar of the budget is that of the blocks.
func TestAmountsOfStepsAreThoseOfBlocks(t *testing.T) {
	run := func(q *exec.Sequence, steps int) half {
		h := half{side: &sampleSide{hashes: make([][32]byte, steps)}, run: &analysis.Measured{}}
		for i := range steps {
			h.side.places = append(h.side.places, &exec.Sample{Sequence: q, Step: i})
			h.run.Errors = append(h.run.Errors, []analysis.Error{{NSR: float64(i / 50 % 2)}})
		}
		h.side.placed()
		return h
	}
	b := &Budget{Name: "plain_nsr"}
	estimate := func(list ...half) analysis.Estimate {
		trial := b.trial(list...)
		require.Equal(t, 200, trial.Samples)
		return analysis.NewEstimate(trial.Amounts[0])
	}
	pictures := estimate(run(nil, 200))
	recording := estimate(run(&exec.Sequence{Steps: 200}, 200))
	require.InDelta(t, pictures.Mean, recording.Mean, 1e-12)
	require.Equal(t, 13, recording.N)
	require.Greater(t, recording.Error, 2*pictures.Error)
	sides := estimate(run(&exec.Sequence{Steps: 100}, 100), run(&exec.Sequence{Steps: 100}, 100))
	require.InDelta(t, pictures.Mean, sides.Mean, 1e-12)
	require.Equal(t, 20, sides.N, "blocks of one side are none of the other's")

	s := &searcher{budget: b}
	side := run(&exec.Sequence{Steps: 100}, 100).side
	require.Equal(t, 10, s.pieces(side))
	side.ends = 3
	require.Equal(t, 3, s.pieces(side), "last steps alone count")
	s.budget = &Budget{Name: "drop"}
	require.Equal(t, 10, s.pieces(side), "a metric counts at every step")
}
