package search

import (
	"context"
	"errors"
	"slices"

	"qwb/analysis"
	"qwb/analysis/assign"
)

// crossed reports whether the halves take turns: where there are few samples, each half is searched on and judges what was found on the
// other one. A drop of a metric needs so many samples that it is never asked; an error below a cost is not claimed.
func (s *searcher) crossed() bool {
	n := s.pieces(s.fit) + s.pieces(s.held)
	return s.budget.Name != "drop" && s.o.MaxCost == nil && len(s.fit.hashes) > 0 && len(s.held.hashes) > 0 &&
		n >= analysis.MinHeldOut && n < analysis.CrossedBelow
}

// turn is the search on one half, and what may be claimed of it, from the surest to the cheapest.
type turn struct {
	*searcher
	list   []*analysis.Point
	surest *analysis.Point // of all that it tried; nil if it tried none
}

// takeTurns searches on both halves. What is judged, over all samples with wider error bars, is the way to a set: the surest of both halves
// first, then the next. What is decided asks of each operator what the half asked that wants more, and has to meet the limit on all
// samples.
func (s *searcher) takeTurns(ctx context.Context, found *Found, result *Result, refuse func(string, int) error) ([]int, error) {
	turns, err := s.turns(ctx, found)
	if err != nil {
		return nil, err
	}
	if len(turns[0].list) == 0 && len(turns[1].list) == 0 {
		if s.asIs {
			return nil, s.asIntegers(ctx, found)
		}
		return nil, refuse(s.unmet(), 0)
	}
	for i, t := range turns { // of a half that found nothing, the nearest
		if len(t.list) == 0 && t.surest != nil {
			turns[i].list = []*analysis.Point{t.surest}
		}
		if len(turns[i].list) == 0 {
			return nil, refuse(s.unmet(), 0)
		}
	}
	asIs := *found
	found.Claimed, found.Crossed = false, true
	hashes := append(slices.Clone(s.fit.hashes), s.held.hashes...)
	var last []int
	var missed *analysis.Trial
	var confirmed half
	for k := range max(len(turns[0].list), len(turns[1].list)) {
		var judged, fitted []half
		var choices [][]int
		for _, t := range turns {
			p := t.list[min(k, len(t.list)-1)]
			_, h, err := s.trial(ctx, t.held, p.Choice)
			if err != nil {
				return nil, err
			}
			judged, choices = append(judged, h), append(choices, p.Choice)
		}
		choice := s.dearer(choices[0], choices[1])
		over, err := s.beyond(ctx, choice)
		if err != nil {
			return nil, err
		}
		if over {
			continue // the next ones are cheaper
		}
		var own half
		for _, h := range []*sampleSide{s.fit, s.held} {
			if _, own, err = s.trial(ctx, h, choice); err != nil {
				return nil, err
			}
			fitted = append(fitted, own)
		}
		t, whole := s.budget.trial(judged...), s.budget.trial(fitted...)
		plain, _ := s.goal.Estimates(whole)
		holds := s.goal.Upper(t, s.goal.Risk) <= s.goal.Limit && plain.Mean <= s.goal.Limit
		if holds || last == nil {
			found.Fit, found.HeldOut = s.shown(whole, 0, nil), s.shown(t, s.goal.Risk, hashes)
			result.Before, result.After = s.shown(s.budget.trial(s.fit.start, s.held.start), 0, nil).Value, found.HeldOut.Value
			last, missed, confirmed = choice, t, own
		}
		if !holds {
			break
		}
		found.Claimed, found.Apply = true, s.apply(choice)
	}
	if !found.Claimed && s.asIs {
		*found = asIs
		result.After = result.Before
		return nil, s.asIntegers(ctx, found)
	}
	if last == nil {
		return nil, refuse(s.unmet(), 0)
	}
	return s.concluded(ctx, found, last, missed, confirmed, refuse)
}

// turns searches on each half.
func (s *searcher) turns(ctx context.Context, found *Found) (list []turn, err error) {
	sides := []*sampleSide{s.fit, s.held}
	for i, side := range sides {
		one := *s
		one.fit, one.held, one.units, one.mix = side, sides[1-i], nil, nil
		ranking, err := one.rank(ctx)
		if err != nil {
			return nil, err
		}
		r, err := one.searched(ctx)
		s.count = one.count
		if i == 0 {
			s.units, s.mix = one.units, one.mix
			found.Ranking, found.Search = ranking, r
		}
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(one.units, s.units, func(a, b assign.Unit) bool { return a.Name == b.Name && len(a.Options) == len(b.Options) }) {
			return nil, errors.New("dispatch: the halves rank other operators")
		}
		t := turn{searcher: &one}
		for _, k := range r.Candidates {
			if p := &r.Points[k]; !s.asIs || p.Cost < r.Points[0].Cost {
				t.list = append(t.list, p)
			}
		}
		if r.Surest > 0 {
			t.surest = &r.Points[r.Surest]
			if len(t.list) > 0 && t.surest.Cost > t.list[0].Cost { // few samples know little of margins
				t.list = append([]*analysis.Point{t.surest}, t.list...)
			}
		}
		list = append(list, t)
	}
	return list, nil
}

// dearer is, by operator, the dearer of two choices.
func (s *searcher) dearer(a, b []int) []int {
	choice := slices.Clone(a)
	for i, k := range b {
		if o := s.units[i].Options; o[k].Cost > o[choice[i]].Cost {
			choice[i] = k
		}
	}
	return choice
}

// concluded decides a choice, or refuses it where nothing is claimed and nobody insists.
func (s *searcher) concluded(ctx context.Context, found *Found, choice []int, missed *analysis.Trial, confirmed half,
	refuse func(string, int) error) ([]int, error) {
	if err := s.companions(ctx, choice, found); err != nil {
		return nil, err
	}
	if found.Claimed {
		return choice, s.integers(ctx, choice, confirmed, found)
	}
	why := s.unsupported(found)
	found.Refused, found.Needed = why, s.needed(missed, 2)
	if s.o.Force {
		return choice, nil
	}
	found.Apply = s.apply(choice)
	return nil, refuse(why, found.Needed)
}
