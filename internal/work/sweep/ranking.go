package sweep

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/work/store"
)

// rank fills the result's rows, the best first.
func (s *Sweeping) rank() *Result {
	candidates := make([]analysis.Candidate, len(s.tried))
	for i, a := range s.answers {
		candidates[i].Losses, candidates[i].Tie = a.Losses.PerSample(), s.costs[i].Work()
		if s.device != nil {
			candidates[i].Tie = *s.costs[i].Seconds
		}
		for _, x := range a.Answers {
			wrong := 0.0
			if x.Class != x.Label {
				wrong = 1
			}
			candidates[i].Wrong = append(candidates[i].Wrong, wrong)
		}
	}
	of := s.bench.Blocks
	places, best := analysis.Rank(candidates, of)
	for i, p := range s.tried {
		row := Row{Platform: p.Target.Name, Observer: p.Observer, Granularity: p.Granularity, Dispatcher: p.Dispatcher, Format: p.Format,
			Cost: s.costs[i],
			NSR:  analysis.NewNSR(s.answers[i].Losses.EstimateBy(of)), Rank: places[i].Rank, Behind: places[i].Behind.Mean,
			BehindError: analysis.NewSpread(places[i].Behind).NSRError, Chosen: i == best,
			Default: p.own(), MACs: s.costs[i].Integer(), Bytes: s.costs[i].TotalBytes()}
		if noise := s.answers[i].Noise; noise != nil {
			row.Integers = analysis.Mismatches(noise.Slices)
		}
		if a := s.answers[i]; s.labelled {
			row.Answered = &Answered{a.Top1, a.Drop, a.DropError, a.Flips}
			s.r.FloatTop1 = &a.FloatTop1
		}
		s.r.Rows = append(s.r.Rows, row)
	}
	s.chosen, s.r.Mismatches = &s.tried[best], s.bench.Mismatches
	s.r.Command = s.chosen.command(s.Model, s.Plan, s.flags())
	first := s.r.Rows[best]
	arrange.Stable(s.r.Rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.NSR.NSR, b.NSR.NSR)) })
	at := slices.IndexFunc(s.r.Rows, func(r Row) bool { return r.Chosen })
	copy(s.r.Rows[1:at+1], s.r.Rows[:at])
	s.r.Rows[0] = first
	return s.r
}

// flags are what calibrate has to be told to see the same samples and to write the same plan.
func (s *Sweeping) flags() []string {
	var words []string
	for _, path := range s.Options.Data.Paths {
		words = append(words, "--data", path)
	}
	if s.Options.Data.Preprocess != "" {
		words = append(words, "--preprocess", s.Options.Data.Preprocess)
	}
	if s.Options.Data.Samples > 0 {
		words = append(words, "--samples", fmt.Sprint(s.Options.Data.Samples))
		if s.Options.Data.Seed != 0 {
			words = append(words, "--seed", fmt.Sprint(s.Options.Data.Seed))
		}
	}
	if plan := strings.TrimSuffix(filepath.Base(s.Model), filepath.Ext(s.Model)) + store.PlanSuffix; s.Plan != plan {
		words = append(words, "-o", s.Plan)
	}
	return words
}
