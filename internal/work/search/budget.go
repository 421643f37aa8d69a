package search

import (
	"context"
	"fmt"
	"math"
	"strings"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/internal/plain"
	"qwb/internal/work/fault"
)

// Budget is what a search has to reach.
type Budget struct {
	Name   string // nsr (as analyze and gate have it), plain_nsr, cosine or drop: of the metric of the data, top-1 where none is named
	At     float64
	scorer task.Scorer
	metric *task.Metric
}

// metricName is the name of what the budget is on.
func (b *Budget) metricName() string {
	switch {
	case b.Name != "drop":
		return b.Name
	case b.metric == nil:
		return "top1"
	}
	return b.metric.Name
}

// ofOutputs is the budget's metric as outputs alone show it.
func (b *Budget) ofOutputs() *Budget {
	o := *b
	if o.Name == "nsr" {
		o.Name = "plain_nsr"
	}
	return &o
}

// goal is the budget as a limit on the mean of amounts of which larger is worse.
func (b *Budget) goal() analysis.Goal {
	switch b.Name {
	case "cosine":
		return analysis.Goal{Limit: 1 - b.At, Guard: analysis.Skewed}
	case "nsr", "plain_nsr":
		return analysis.Goal{Limit: b.At, Guard: analysis.Skewed}
	}
	if b.metric.Graded {
		return analysis.Goal{Limit: b.At, Guard: analysis.Graded}
	}
	size := 1.0
	if b.metric.Percent {
		size = 100
	}
	return analysis.Goal{Limit: b.At, Guard: func(amounts []float64) analysis.Estimate { return analysis.Guarded(amounts, size) }}
}

// openBudget opens the metric of a drop. closing is to be called in the end.
func (s *searcher) openBudget(ctx context.Context) (closing func(), err error) {
	b, o := s.budget, s.o.Data
	if b.Name != "drop" {
		return func() {}, nil
	}
	switch m := &o.Metric; {
	case len(m.Names) > 1:
		return func() {}, fault.Usagef("--metric: a budget is on one metric")
	case len(m.Names) == 0 && m.Command == "":
		if err := s.set.RequireLabels(); err != nil {
			return func() {}, err
		}
		m.Names = []string{"top1"}
	}
	scorings, closing, err := s.Scorings(ctx, s.Planned.Reference, s.set, o)
	if err == nil {
		b.metric, b.scorer = scorings[0].Metric, scorings[0].Scorer
	}
	return closing, err
}

// figure turns an amount into what people know: a cosine is 1 minus it.
func (b *Budget) figure(amount float64) float64 {
	if b.Name == "cosine" {
		return 1 - amount
	}
	return amount
}

// amounts are by how much samples are worse than in float, by output, and of how many samples: of steps those of their blocks.
func (b *Budget) amounts(list []half) (pieces [][]float64, samples int) {
	out := b.bySample(list)
	if len(out) == 0 {
		return nil, 0
	}
	var steps []analysis.Blocks
	all := 0
	for _, h := range list {
		steps, all = append(steps, h.side.blocks), all+len(h.side.hashes)
	}
	if samples = len(out[0]); samples < all { // of last steps
		return out, samples
	}
	blocks := analysis.JoinBlocks(steps, func(i int) int { return len(list[i].side.hashes) })
	for k := range out {
		out[k] = blocks.Of(out[k])
	}
	return out, samples
}

// bySample are the amounts of single samples; where errors of last steps alone count, those of these.
func (b *Budget) bySample(list []half) [][]float64 {
	if b.Name == "drop" {
		var before, after []task.Record
		for _, h := range list {
			before, after = append(before, h.side.float...), append(after, h.run.Records...)
		}
		return [][]float64{task.Difference(b.scorer, before, after, b.metric)}
	}
	var out [][]float64
	if b.Name == "nsr" {
		var losses analysis.Losses
		for _, h := range list {
			losses = append(losses, h.run.Losses...)
		}
		return losses.ByOutput()
	}
	for _, h := range list {
		for _, outputs := range h.run.Errors {
			if out == nil {
				out = make([][]float64, len(outputs))
			}
			for k, e := range outputs {
				x := e.NSR
				if b.Name == "cosine" {
					x = max(1-e.Cosine, 0)
				}
				out[k] = append(out[k], x)
			}
		}
	}
	return out
}

// half is a run of the samples of a side.
type half struct {
	side *sampleSide
	run  *analysis.Measured
}

// trial puts runs of different samples together.
func (b *Budget) trial(list ...half) *analysis.Trial {
	var losses analysis.Losses
	for _, h := range list {
		losses = append(losses, h.run.Losses...)
	}
	amounts, samples := b.amounts(list)
	return &analysis.Trial{Loss: losses.Estimate().Mean, Parts: losses.Means(), Amounts: amounts, Samples: samples}
}

// a puts the article in front of a figure.
func a(text string) string {
	if strings.HasPrefix(text, "NSR") {
		return "an " + text
	}
	return "a " + text
}

// unit is what stands behind figures of the budget.
func (b *Budget) unit() string {
	if b.Name == "drop" && b.metric != nil && b.metric.Percent {
		return " pp"
	}
	return ""
}

// said is a limit as messages have it.
func (b *Budget) said() string {
	switch b.Name {
	case "nsr":
		return fmt.Sprintf("NSR of at most %g", b.At)
	case "plain_nsr":
		return fmt.Sprintf("plain NSR of at most %g", b.At)
	case "cosine":
		return fmt.Sprintf("cosine of at least %g", b.At)
	}
	return fmt.Sprintf("%s drop of at most %g%s", b.metricName(), b.At, b.unit())
}

// changing is the share of samples whose answer changes that is assumed before anything was measured.
const changing = 0.02

// tooFew says why so many samples (or what else they are), of which held are held out, cannot confirm the budget whatever they show, and
// how many would do; nothing if they may. claims: an error is to be below a limit, not as small as a cost allows.
func (b *Budget) tooFew(goal analysis.Goal, what string, samples, held int, claims bool) (why string, needed int) {
	if held < analysis.MinHeldOut {
		if needed = 2 * analysis.MinHeldOut; claims && b.Name != "drop" {
			needed = analysis.MinHeldOut
		}
		why = fmt.Sprintf("%s can confirm nothing: give at least %d that differ", plain.Count(samples, what), needed)
	}
	if b.Name != "drop" || !(goal.Limit > 0) {
		return why, needed
	}
	risk := analysis.Attempt(0)
	if best := goal.Best(samples, risk); best > goal.Limit {
		size := goal.Guard(nil).Error // of two opposite samples, the same that the guard adds to the others
		least := leastSamples(func(n int) bool { return goal.Best(n, risk) <= goal.Limit })
		needed = max(needed, leastSamples(func(n int) bool {
			e := analysis.Estimate{Error: size * math.Sqrt((changing*float64(n)+2)/float64((n+2)*(n+1))), N: n + 2}
			return e.Upper(risk) <= goal.Limit
		}))
		why = fmt.Sprintf("%s cannot decide %s: if quantization changed nothing on any of them, the drop could still be %.2g%s. "+
			"It takes %s if nothing changes, about %d if %g %% of the answers do",
			plain.Count(samples, what), a(b.said()), best, b.unit(), plain.Count(least, what), needed, 100*changing)
	}
	return why, needed
}

// leastSamples is the smallest number for which enough holds, which holds for all above it.
func leastSamples(enough func(n int) bool) int {
	lo, hi := 1, 2
	for ; !enough(hi) && hi < 1<<24; hi *= 2 {
		lo = hi
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// rounded is a needed number of samples as a person would say it: two digits, rounded up.
func rounded(n int) int {
	step := 1
	for n/step >= 100 {
		step *= 10
	}
	return (n + step - 1) / step * step
}
