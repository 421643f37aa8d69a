package search

import (
	"context"
	"fmt"

	"qwb/analysis"
)

// allow works out what work a choice may have, and says it.
func (s *searcher) allow() error {
	if s.o.MaxWork == nil {
		return nil
	}
	now, err := analysis.CostOf(s.start.Graph, s.start.Set, s.Derivation.Target, nil)
	if err != nil {
		return err
	}
	var all int64
	for _, n := range now.MACs {
		all += n
	}
	s.room = max(now.Work(), 1) * (1 + *s.o.MaxWork/100)
	s.Note("the plan has the work of %.4g M int8 MACs, everything in FP32 that of %.4g M; --max-work %g allows %.4g M", now.Work()/1e6,
		4*float64(all)/1e6, *s.o.MaxWork, s.room/1e6)
	return nil
}

// beyond reports whether a choice has more work than is allowed.
func (s *searcher) beyond(ctx context.Context, choice []int) (bool, error) {
	if s.room == 0 {
		return false, nil
	}
	out, err := s.placed(ctx, choice)
	if err != nil {
		return false, err
	}
	cost, err := analysis.CostOf(out.Graph, out.Set, s.Derivation.Target, nil)
	if err != nil || cost.Work() <= s.room*(1+1e-9) {
		return false, err
	}
	*s.barred = true
	return true, nil
}

// unmet says that no set that may be tried meets the budget.
func (s *searcher) unmet() string {
	if *s.barred {
		return fmt.Sprintf("no set with at most %g %% more work meets %s with certainty (--max-work)", *s.o.MaxWork, a(s.budget.said()))
	}
	return a(s.budget.said()) + " is met with certainty by FP32 everywhere only"
}
