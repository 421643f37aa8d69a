package search

import (
	"context"
	"fmt"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/internal/work/planning"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// integers runs what was found as integers on the held-out samples, of which simulated has the simulation, and says what that adds. Where
// nothing can run them it says so and goes on.
func (s *searcher) integers(ctx context.Context, choice []int, simulated half, found *Found) error {
	out, err := s.placed(ctx, choice)
	if err != nil {
		return err
	}
	profile, err := s.Planned.ProfileNamed("")
	if err != nil {
		return err
	}
	forward, err := s.forward(out.Derived)
	if err == nil {
		var run *analysis.Measured
		if run, err = s.held.ev.MeasureOf(ctx, forward, s.budget.scorer); err == nil {
			shown := s.budget.ofOutputs()
			before, _ := shown.amounts([]half{simulated})
			after, n := shown.amounts([]half{{s.held, run}})
			a, b := s.goal.Plain(before), s.goal.Plain(after)
			d := analysis.Paired(a, b)
			found.Integers = &analysis.IntegersAdded{Profile: profile.Name, Samples: n, Value: s.budget.figure(analysis.NewEstimate(b).Mean),
				More: d.Mean, Error: analysis.NewSpread(d).NSRError}
			return nil
		}
	}
	if ctx.Err() != nil {
		return err
	}
	s.Detail("what the integers add is not known: %v", err)
	return nil
}

// forward runs a derived plan as integers; what has no integer form is simulated.
func (s *searcher) forward(out *planning.Derived) (analysis.Forward, error) {
	profile, err := s.Planned.ProfileNamed("")
	if err != nil {
		return nil, err
	}
	backend, err := s.Planned.Catalog.Present("")
	if err != nil {
		return nil, err
	}
	g, _ := s.Planned.TunedGraph(out.Set)
	lowered, err := lower.CompilePartial(g, out.Set, s.Planned.Target, profile)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	x, err := program.New(lowered, backend, s.o.Threads)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
		return x.Run(ctx, feeds, nil)
	}, nil
}
