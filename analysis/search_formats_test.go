package analysis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis/assign"
)

// mixture is a search problem of three formats, the second cheaper than the first and the third exact, whose outcomes are known without
// running anything: errors of neighbours add to each other, and a change between integers and float costs something.
type mixture struct {
	SearchConfig
	border float64
}

func newMixture(seed uint64, n int) *mixture {
	rng := rand.New(rand.NewPCG(seed, 7))
	m := &mixture{border: 30}
	for i := range n {
		size, sensitive := 100*math.Exp(rng.NormFloat64()), math.Exp(1.5*rng.NormFloat64())
		m.Units = append(m.Units, assign.Unit{Name: fmt.Sprint(i), Options: []assign.Option{{Name: "int8", Error: sensitive, Cost: 8 * size},
			{Name: "int4", Error: sensitive * (5 + 30*rng.Float64()), Cost: 4.5 * size}, {Name: "fp32", Cost: 32*size + 2*m.border}}})
	}
	m.Place = func(_ context.Context, choice []int) (*Placement, error) {
		_, cost := m.outcome(choice)
		return &Placement{Cost: cost, Chosen: slices.Clone(choice), Barred: !slices.ContainsFunc(choice, func(k int) bool { return k != 2 })}, nil
	}
	m.Evaluate = func(_ context.Context, choice []int) (*Trial, error) {
		loss, _ := m.outcome(choice)
		return exactly(loss), nil
	}
	m.Start, _ = m.Evaluate(context.Background(), make([]int, n))
	return m
}

func (m *mixture) outcome(choice []int) (loss, cost float64) {
	for i, k := range choice {
		o := m.Units[i].Options[k]
		loss += o.Error
		if cost += o.Cost; k == 2 {
			cost -= 2 * m.border
		}
		if i > 0 {
			before := m.Units[i-1].Options[choice[i-1]]
			loss += 0.2 * math.Sqrt(o.Error*before.Error)
			if (k == 2) != (choice[i-1] == 2) {
				cost += m.border
			}
		}
	}
	return loss, cost
}

// every calls f with every choice.
func (m *mixture) every(f func(loss, cost float64)) {
	choice := make([]int, len(m.Units))
	for {
		f(m.outcome(choice))
		i := 0
		for ; i < len(choice) && choice[i] == 2; i++ {
			choice[i] = 0
		}
		if i == len(choice) {
			return
		}
		choice[i]++
	}
}

// The budget on the error lies above and below that of the plan as it is: what is found then costs less or more than that.
func TestSearchInSeveralFormatsAgainstExhaustiveSearch(t *testing.T) {
	const problems = 24
	optimal, worst := 0, 1.0
	for seed := range uint64(problems) {
		m := newMixture(seed, 12)
		limit := m.Start.Loss * []float64{0.2, 0.6, 1.5, 4}[seed%4]
		m.Goal = Goal{Limit: limit, Guard: NewEstimate}
		res, err := Search(context.Background(), m.SearchConfig)
		require.NoError(t, err)
		require.LessOrEqual(t, len(res.Points), 1+DefaultEvaluations)
		found := claimed(t, res)
		if m.Start.Loss <= limit && res.Points[0].Cost < found.Cost {
			found = &res.Points[0]
		}
		require.LessOrEqual(t, found.Metric, limit)
		best := math.Inf(1)
		m.every(func(loss, cost float64) {
			if loss <= limit {
				best = min(best, cost)
			}
		})
		worst = max(worst, found.Cost/best)
		if found.Cost <= best*(1+1e-9) {
			optimal++
		}
	}
	t.Logf("optimal in %d of %d problems, at worst %.3f times the optimum's cost", optimal, problems, worst)
	require.GreaterOrEqual(t, optimal, problems-2)
	require.Less(t, worst, 1.02)
}

func TestSearchLossAgainstExhaustiveSearch(t *testing.T) {
	const problems = 24
	optimal, worst := 0, 1.0
	for seed := range uint64(problems) {
		m := newMixture(seed, 12)
		m.Goal = Goal{Limit: math.Inf(1), Guard: NewEstimate}
		_, asIs := m.outcome(make([]int, 12))
		limit := asIs * []float64{0.6, 0.8, 1, 1.5}[seed%4]
		res, err := SearchLoss(context.Background(), m.SearchConfig, limit)
		require.NoError(t, err)
		require.Len(t, res.Candidates, 1)
		require.LessOrEqual(t, len(res.Points), 1+DefaultEvaluations)
		found := &res.Points[res.Candidates[0]]
		require.LessOrEqual(t, found.Cost, limit)
		best := math.Inf(1)
		m.every(func(loss, cost float64) {
			if cost <= limit {
				best = min(best, loss)
			}
		})
		worst = max(worst, found.Trial.Loss/best)
		if found.Trial.Loss <= best*(1+1e-9) {
			optimal++
		}
	}
	t.Logf("optimal in %d of %d problems, at worst %.3f times the optimum's loss", optimal, problems, worst)
	require.GreaterOrEqual(t, optimal, problems-4)
	require.Less(t, worst, 1.05)
}

// No choice is cheap enough: the message says what the least is. None but the start: it is the candidate.
func TestSearchLossAtItsEnds(t *testing.T) {
	m := newMixture(3, 6)
	m.Goal = Goal{Limit: math.Inf(1), Guard: NewEstimate}
	least, asIs := math.Inf(1), 0.0
	m.every(func(_, cost float64) { least = min(least, cost) })
	_, err := SearchLoss(context.Background(), m.SearchConfig, 0.9*least)
	require.ErrorIs(t, err, assign.ErrBound)
	require.EqualError(t, err, fmt.Sprintf("no choice meets the bound: %.6g at least", least))
	for i := range m.Units {
		m.Units[i].Options = m.Units[i].Options[:1]
		asIs += m.Units[i].Options[0].Cost
	}
	res, err := SearchLoss(context.Background(), m.SearchConfig, asIs)
	require.NoError(t, err)
	require.Equal(t, []int{0}, res.Candidates)
}
