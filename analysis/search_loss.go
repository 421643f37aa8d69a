package analysis

import (
	"context"
	"errors"
	"fmt"
	"math"

	"qwb/analysis/assign"
)

// SearchLoss looks for the choice that loses least among those that cost no more than a limit: assign.MinError on predicted losses, placed,
// evaluated, and again with the predictions that follow from what was measured, until a choice repeats. The one candidate of the result is the
// point with the smallest loss. What units cost together is known only when they are placed: where that is more than the solver was told, its
// limit is lowered. The error is assign.ErrBound, which says what the least cost is, where no choice is cheap enough.
func SearchLoss(ctx context.Context, cfg SearchConfig, limit float64) (*SearchResult, error) {
	s := &searcher{cfg: cfg, seen: map[string]int{}, limit: cfg.MaxEvaluations, model: newModel(cfg.Units, cfg.Start.Loss), failing: math.Inf(1)}
	if s.limit == 0 {
		s.limit = DefaultEvaluations
	}
	if s.cfg.Metric == nil {
		s.cfg.Metric = func(x float64) float64 { return x }
	}
	best, err := s.lose(ctx, limit)
	if err == nil && best < 0 {
		err = fmt.Errorf("%w: no choice that was placed costs %.6g or less", assign.ErrBound, limit)
	}
	markPareto(s.points, false)
	r := &SearchResult{Points: s.points}
	if best >= 0 {
		r.Candidates = []int{best}
	}
	return r, err
}

// lose is SearchLoss; it returns the best point, -1 where none costs so little.
func (s *searcher) lose(ctx context.Context, limit float64) (best int, err error) {
	best = -1
	take := func(point int) {
		if p := &s.points[point]; p.Cost <= limit && (best < 0 || p.Trial.Loss < s.points[best].Trial.Loss) {
			best = point
		}
	}
	start := make([]int, len(s.cfg.Units))
	place, err := s.cfg.Place(ctx, start)
	if err != nil {
		return best, err
	}
	take(s.add(start, place, s.cfg.Start))
	var cheapest float64
	for _, u := range s.cfg.Units {
		least := math.Inf(1)
		for _, o := range u.Options {
			least = min(least, o.Cost)
		}
		cheapest += least
	}
	for len(s.points) <= s.limit {
		// What is not in any unit, and what units cost together, is the difference between a placement and its sum.
		told := limit - (place.Cost - s.sum(place.Chosen))
		var sol assign.Solution
		fits := false
		for range solutions {
			if sol, err = assign.MinError(ctx, s.model.units(), told); err != nil {
				if errors.Is(err, assign.ErrBound) && best >= 0 {
					err = nil
				} else if errors.Is(err, assign.ErrBound) {
					err = fmt.Errorf("%w: %.6g at least", assign.ErrBound, cheapest+place.Cost-s.sum(place.Chosen))
				}
				return best, err
			}
			if place, err = s.cfg.Place(ctx, sol.Choice); err != nil {
				return best, err
			}
			if fits = place.Cost <= limit; fits {
				break
			}
			told = min(told-(place.Cost-limit), sol.Cost-(place.Cost-limit))
		}
		if !fits {
			return best, nil
		}
		if _, known := s.seen[fmt.Sprint(place.Chosen)]; known {
			return best, nil
		}
		point, err := s.try(ctx, sol.Choice, place)
		if errors.Is(err, errSpent) {
			return best, nil
		}
		if err != nil {
			return best, err
		}
		take(point)
	}
	return best, nil
}

// sum is what a choice costs by the solver's figures.
func (s *searcher) sum(chosen []int) (cost float64) {
	for i, k := range chosen {
		cost += s.cfg.Units[i].Options[k].Cost
	}
	return cost
}
