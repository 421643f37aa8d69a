package analysis

import (
	"context"
	"slices"

	"qwb/graph/exec"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Together compares the sum of the rows with the error of the whole network. Where the whole is far above the sum, operators work together:
// no row shows what they do, and Nodes are a few of them that make most of it.
type Together struct {
	Sum   float64 `json:"sum"`   // of the rows, by output and part: the largest
	Whole float64 `json:"whole"` // the output, or part, that loses most of those that rows add up
	// Nodes quantized and nothing else give NSR, on so many samples; nil where the sum is not far below the whole, or more than mostTogether
	// operators are needed. Alone is the sum of their rows on these samples.
	Nodes   []string `json:"nodes,omitempty"`
	NSR     float64  `json:"nsr,omitempty"`
	Alone   float64  `json:"alone,omitempty"`
	Samples int      `json:"samples,omitempty"`
}

// far is the factor between the sum of the rows and the whole from which on the one says nothing about the other.
const far = 3

// Apart reports whether the sum of the rows says nothing about the whole.
func (t *Together) Apart() bool { return t.Whole > far*t.Sum || t.Sum > far*t.Whole }

const (
	mostTogether = 4   // operators that are looked for
	mostOfIt     = 0.5 // of the error of the whole is what they have to make
)

// together looks for operators that work together, on the first samples: the shortest beginning of the network that, quantized, has most of
// the error of the whole ends with one of them; with that one quantized too the shortest beginning ends with the next, until they have it
// by themselves. This takes at most mostTogether * (log2 of the number of rows + 1) runs of each sample.
func (a *analyzer) together(ctx context.Context, r *Report, results []*sampleResult) (*Together, error) {
	t := &Together{Whole: a.whole(results)}
	t.Sum, _ = SumOfRows(r.Layerwise)
	if !(t.Whole > far*t.Sum) || len(a.groups) < 2 {
		return t, nil
	}
	s, err := a.newSubsets(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { r.Forwards += s.forwards / float64(r.Samples) }()
	all := make([]int, len(a.groups))
	for i := range all {
		all[i] = i
	}
	whole, err := s.loss(ctx, all)
	if err != nil {
		return nil, err
	}
	var needed []int
	for len(needed) < mostTogether && len(all) > 0 {
		with := func(n int) []int { return append(slices.Clone(needed), all[:n]...) }
		lo, hi := 0, len(all) // with(hi) has most of the error, with(lo) has not
		for hi-lo > 1 {
			mid := (lo + hi) / 2
			x, err := s.loss(ctx, with(mid))
			if err != nil {
				return nil, err
			}
			if x >= mostOfIt*whole {
				hi = mid
			} else {
				lo = mid
			}
		}
		needed, all = append(needed, all[hi-1]), all[:hi-1]
		if t.NSR, err = s.loss(ctx, needed); err != nil {
			return nil, err
		}
		if t.NSR >= mostOfIt*whole {
			slices.Sort(needed)
			for _, i := range needed {
				t.Nodes = append(t.Nodes, a.g.Node(a.groups[i].node).Name)
				t.Alone += NewEstimate(r.Layerwise[i].losses[:len(a.probed)]).Mean
			}
			t.Samples = len(a.probed)
			return t, nil
		}
	}
	t.NSR = 0
	return t, nil
}

// whole is the error of the whole quantized network as rows have it: by what counts for float, so that all of both stands in the same
// output or part.
func (a *analyzer) whole(results []*sampleResult) float64 {
	weights := a.judge.weigh(&a.floats)
	losses := make(Losses, len(results))
	for k, s := range results {
		losses[k] = weights.row(k, s.losses, func(i int) float64 { return a.tally.noise[k][i] })
	}
	return losses.Estimate().Mean
}

// subsets runs the network with some of the rows quantized.
type subsets struct {
	*analyzer
	evaluator *Evaluator
	forwards  float64
}

func (a *analyzer) newSubsets(ctx context.Context) (*subsets, error) {
	e, err := NewEvaluator(ctx, a.given, func() exec.Iterator { return &exec.InMemory{Samples: a.probed} }, a.cfg.Threads, 0, a.cfg.Parts...)
	return &subsets{a, e, float64(len(a.probed))}, err
}

func (s *subsets) loss(ctx context.Context, rows []int) (float64, error) {
	in := map[tqc.SlotID]bool{}
	for _, i := range rows {
		for _, slot := range s.groups[i].slots {
			in[slot] = true
		}
	}
	losses, err := outputsUnder(ctx, s.evaluator, func() *exec.Hooks {
		return s.sim.NewHooks(sim.View{Mask: func(id tqc.SlotID) bool { return in[id] }})
	}, s.evaluator.losses)
	if s.forwards += float64(len(s.probed)); err != nil {
		return 0, err
	}
	return Losses(losses).Estimate().Mean, nil
}
