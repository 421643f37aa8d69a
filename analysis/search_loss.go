package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/analysis/assign"
	"qwb/internal/arrange"
)

// SearchLoss looks for the choice that loses least among those that cost no more than a limit: assign.MinError on predicted losses, placed,
// evaluated, and again with the predictions that follow from what was measured, until a choice repeats; then neighbours of the best point,
// those that are predicted to lose least first. The one candidate of the result is the point with the smallest loss. What units cost
// together is known only when they are placed: where that is more than the solver was told, its limit is lowered. The error is
// assign.ErrBound, which says what the least cost is, where no choice is cheap enough.
func SearchLoss(ctx context.Context, cfg SearchConfig, limit float64) (*SearchResult, error) {
	s := &searcher{cfg: cfg, seen: map[string]int{}, limit: cfg.MaxEvaluations, model: newModel(cfg.Units, cfg.Start.parts()),
		failing: math.Inf(1)}
	if s.limit == 0 {
		s.limit = DefaultEvaluations
	}
	if s.cfg.Metric == nil {
		s.cfg.Metric = func(x float64) float64 { return x }
	}
	best, err := s.lose(ctx, limit)
	for err == nil && best >= 0 && len(s.points) <= s.limit {
		var point int
		if point, err = s.beside(ctx, best, limit); err != nil || point < 0 {
			break
		}
		if s.points[point].Trial.Loss < s.points[best].Trial.Loss {
			best = point
		}
	}
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

// beside evaluates a neighbour of a point, with one unit or two in other options, that costs no more than a limit: of those that were not
// evaluated the one that is predicted to lose least, unless that is more than the point by more than predictions are wrong. -1:
// there is none.
func (s *searcher) beside(ctx context.Context, point int, limit float64) (int, error) {
	from, units := s.points[point].Choice, s.model.units()
	type move struct {
		unit, option int
		losses       []float64 // by part, beside the point's, as cost is
		cost         float64
	}
	var moves []move
	sums := assign.Sums(units, from)
	for i, k := range from {
		now := units[i].Options[k]
		for o, option := range units[i].Options {
			if o == k {
				continue
			}
			m := move{i, o, make([]float64, len(sums)), option.Cost - now.Cost}
			for c := range sums {
				m.losses[c] = option.Part(c) - now.Part(c)
			}
			moves = append(moves, m)
		}
	}
	// predicted is how much more than at the point is lost in the part that then loses most.
	predicted, asIs := func(a, b *move) float64 {
		most := math.Inf(-1)
		for c, x := range sums {
			if x += a.losses[c]; b != a {
				x += b.losses[c]
			}
			most = max(most, x)
		}
		return most
	}, slices.Max(sums)
	type pair struct {
		a, b int // b may be a
		loss float64
	}
	var list []pair
	most := s.points[point].Trial.Loss * NewEstimate(s.off).Mean
	for a := range moves {
		for b := a; b < len(moves) && (b == a || len(moves) <= pairsOf); b++ {
			cost := s.points[point].Cost + moves[a].cost
			if b > a {
				if moves[a].unit == moves[b].unit {
					continue
				}
				cost += moves[b].cost
			}
			if cost > near*limit {
				continue
			}
			if p := (pair{a, b, predicted(&moves[a], &moves[b]) - asIs}); p.loss < most {
				list = append(list, p)
			}
		}
	}
	arrange.Stable(list, func(x, y pair) int { return cmp.Compare(x.loss, y.loss) })
	next := slices.Clone(from)
	for _, p := range list[:min(len(list), neighbors)] {
		next[moves[p.a].unit] = moves[p.a].option
		next[moves[p.b].unit] = moves[p.b].option
		place, err := s.cfg.Place(ctx, next)
		if err != nil {
			return -1, err
		}
		if _, known := s.seen[fmt.Sprint(place.Chosen)]; !known && place.Cost <= limit {
			at, err := s.try(ctx, next, place)
			if errors.Is(err, errSpent) {
				return -1, nil
			}
			return at, err
		}
		next[moves[p.a].unit], next[moves[p.b].unit] = from[moves[p.a].unit], from[moves[p.b].unit]
	}
	return -1, nil
}

// near is by how much neighbours may seem too expensive: what units cost together may be less than their sum.
const near = 1.2

// pairsOf is of how many moves pairs are looked at: more would take longer than it is worth.
const pairsOf = 600
