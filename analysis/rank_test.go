package analysis_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
)

func ranks(places []analysis.Place) (list []int) {
	for _, p := range places {
		list = append(list, p.Rank)
	}
	return list
}

// What differs by more than chance is told apart, what does not shares a rank, and answers go before losses.
func TestRank(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 200
	common := make([]float64, n) // what makes a sample hard for all
	for i := range common {
		common[i] = r.ExpFloat64()
	}
	with := func(shift, spread float64) analysis.Candidate {
		c := analysis.Candidate{Losses: make([]float64, n)}
		for i := range c.Losses {
			c.Losses[i] = common[i] + shift + spread*r.NormFloat64()
		}
		return c
	}
	all := []analysis.Candidate{with(0.5, 0.01), with(0, 0.01), with(0, 0.01), with(0.5, 0.01), with(0.2, 0.01)}
	places, best := analysis.Rank(all, nil)
	require.Equal(t, []int{4, 1, 1, 4, 3}, ranks(places), "the samples' own differences drop out")
	require.Contains(t, []int{1, 2}, best)
	require.InDelta(t, 0.5, places[0].Behind.Mean, 0.01)
	require.Less(t, places[0].Behind.Error, 0.005)
	require.Zero(t, places[best].Behind.Mean)

	all[1].Tie, all[2].Tie = 2, 1
	_, best = analysis.Rank(all, nil)
	require.Equal(t, 2, best, "the cheaper one of those that cannot be told apart")
	all[2].Tie = 3
	_, best = analysis.Rank(all, nil)
	require.Equal(t, 1, best)

	for i := range all { // the one with the largest loss answers right; one wrong answer of 200 tells nothing
		all[i].Wrong = make([]float64, n)
		for k := range 30 {
			if i != 0 && i != 4 {
				all[i].Wrong[k] = 1
			}
		}
	}
	all[0].Wrong[0] = 1
	places, best = analysis.Rank(all, nil)
	require.Equal(t, []int{2, 3, 3, 5, 1}, ranks(places))
	require.Equal(t, 4, best)

	places, best = analysis.Rank([]analysis.Candidate{{Losses: []float64{3}}, {Losses: []float64{1}}}, nil)
	require.Equal(t, []int{1, 1}, ranks(places), "one sample tells nothing apart")
	require.Equal(t, 1, best)
	places, _ = analysis.Rank([]analysis.Candidate{{Losses: []float64{3, 1}}}, nil)
	require.Equal(t, []int{1}, ranks(places))
}

// Where all candidates are the same but for chance, any is told apart from another in about one of twenty runs at most.
func TestRankOfEquals(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	const runs = 400
	wrong := map[bool]int{}
	for range runs {
		for _, labelled := range []bool{false, true} {
			all := make([]analysis.Candidate, 6)
			for i := range all {
				for range 60 {
					all[i].Losses = append(all[i].Losses, r.NormFloat64())
					if labelled {
						x := 0.0
						if r.Float64() < 0.1 {
							x = 1
						}
						all[i].Wrong = append(all[i].Wrong, x)
					}
				}
			}
			places, _ := analysis.Rank(all, nil)
			for _, p := range places {
				if p.Rank != 1 {
					wrong[labelled]++
					break
				}
			}
		}
	}
	require.Less(t, wrong[false], runs*8/100)
	require.Less(t, wrong[true], runs*8/100)
}
