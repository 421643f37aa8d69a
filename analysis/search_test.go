package analysis

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// interacting builds a search problem in which errors do not simply add up and borders depend on neighbours.
func interacting(seed uint64, n int) SearchConfig {
	rng := rand.New(rand.NewPCG(seed, 0))
	units := make([]Unit, n)
	for i := range units {
		units[i] = Unit{Name: string(rune('a' + i)), MACs: int64(100 + rng.IntN(900)), Error: math.Exp(rng.NormFloat64() * 1.5)}
	}
	return SearchConfig{Units: units, Evaluate: func(_ context.Context, fp32 []int) (float64, int64, int, error) {
		in := make([]bool, n)
		var macs int64
		for _, i := range fp32 {
			in[i] = true
			macs += units[i].MACs
		}
		var e float64
		borders := 0
		for i := range units {
			if !in[i] {
				e += units[i].Error
				if i > 0 && !in[i-1] {
					e += 0.1 * math.Sqrt(units[i].Error*units[i-1].Error) // neighbours' errors are correlated
				}
			}
			if i > 0 && in[i] != in[i-1] {
				borders++
			}
		}
		return e, macs, borders, nil
	}}
}

func optimum(t *testing.T, cfg SearchConfig) (macs int64, borders int) {
	macs = math.MaxInt64
	for mask := range 1 << len(cfg.Units) {
		var set []int
		for m := uint(mask); m != 0; m &= m - 1 {
			set = append(set, bits.TrailingZeros(m))
		}
		metric, w, b, err := cfg.Evaluate(context.Background(), set)
		require.NoError(t, err)
		if cfg.Met(metric) && (w < macs || w == macs && b < borders) {
			macs, borders = w, b
		}
	}
	return macs, borders
}

func TestSearchAgainstExhaustiveOptimumOfTwelveOperators(t *testing.T) {
	optimal, worst := 0, 1.0
	const problems = 60
	for seed := range uint64(problems) {
		cfg := interacting(seed, 12)
		total, _, _, _ := cfg.Evaluate(context.Background(), nil)
		budget := total * []float64{0.1, 0.3, 0.6}[seed%3]
		cfg.Met = func(m float64) bool { return m <= budget }
		res, err := Search(context.Background(), cfg)
		require.NoError(t, err)
		require.LessOrEqual(t, res.After.Metric, budget)
		require.LessOrEqual(t, len(res.Points), 32+8*12)
		want, _ := optimum(t, cfg)
		if res.After.MACs == want {
			optimal++
		}
		worst = max(worst, float64(res.After.MACs)/float64(want))
	}
	t.Logf("optimal in %d of %d problems, at worst %.3f times the optimum's work", optimal, problems, worst)
	require.GreaterOrEqual(t, optimal, problems*8/10)
	require.Less(t, worst, 1.25)
}

func TestSearchKeepsEverythingQuantizedWithinBudget(t *testing.T) {
	cfg := interacting(1, 5)
	cfg.Met = func(float64) bool { return true }
	res, err := Search(context.Background(), cfg)
	require.NoError(t, err)
	require.Empty(t, res.FP32)
	require.Len(t, res.Points, 1)
}

func TestSearchSaysWhenTheBudgetIsOutOfReach(t *testing.T) {
	cfg := interacting(1, 5)
	cfg.Met = func(float64) bool { return false }
	res, err := Search(context.Background(), cfg)
	require.ErrorIs(t, err, ErrBudget)
	require.Len(t, res.Points, 2)
}

func TestParetoPointsAreNotBeaten(t *testing.T) {
	p := []Point{{MACs: 1, Borders: 1, Metric: 3}, {MACs: 2, Borders: 1, Metric: 3}, {MACs: 3, Borders: 0, Metric: 1}}
	markPareto(p, false)
	require.Equal(t, []bool{true, false, true}, []bool{p[0].Pareto, p[1].Pareto, p[2].Pareto})
}
