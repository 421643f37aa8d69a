package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
	"qwb/reports"
)

// Lines tells in a few lines what a search found and what may be claimed.
func (f *Found) Lines(r *Result) []string {
	var lines []string
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	b := f.Budget
	verdict := "not confirmed"
	if f.Claimed {
		verdict = "confirmed"
	}
	goal := b.said()
	if f.Limit != nil {
		if goal = f.Limit(); f.Claimed {
			verdict = "met"
		}
	}
	if f.Stopped {
		verdict = "interrupted; " + verdict
	}
	add("%s: %s (%s, %s)", goal, verdict, plain.Count(f.Samples, "sample"), plain.Count(r.Evaluations, "evaluation"))
	if f.Fit != nil {
		add("  fitted:   %s on %d samples", b.shown(f.Fit), f.Fit.Samples)
	}
	if h := f.HeldOut; h != nil {
		kind := ""
		if h.Kind == analysis.HeldOutHalf {
			kind = "; calibration has seen some of them"
		}
		if f.Fit == nil {
			add("  as it is: %s on all %d samples%s", b.shown(h), h.Samples, kind)
		} else if f.Crossed {
			add("  in turns: %s on all %d samples: sets found on each half, judged on the other one%s", b.shown(h), h.Samples, kind)
		} else {
			add("  held out: %s on %d samples%s", b.shown(h), h.Samples, kind)
		}
	}
	if i := f.Integers; i != nil {
		add("  as integers (%s): %s %.3g%s on %d held-out samples, %s%s worse than simulated", i.Profile, b.ofOutputs().What(), i.Value, b.unit(),
			i.Samples, reports.WithError(i.More, i.Error), b.unit())
	}
	if r.Cost != nil && (len(f.Formats) != 2 || f.Limit != nil) {
		add("  cost:     %s, was %s", CostWords(r.Cost.After), CostWords(r.Cost.Before))
	}
	if f.Needed > 0 && !f.Claimed {
		add("  about %d samples would decide", f.Needed)
	}
	if len(f.Along) > 0 {
		add("  FP32 too, since the target computes them on integers only with others, or they are not worth their Q/DQ: %s",
			strings.Join(f.Along, ", "))
	}
	if len(f.Units) > 0 {
		add("  NSR of the outputs with one operator alone in each format (--json has all of %d):", len(f.Units))
		worst := slices.SortedStableFunc(slices.Values(f.Units), func(a, b UnitErrors) int {
			return cmp.Compare(b.Formats[0].NSR, a.Formats[0].NSR)
		})
		for _, u := range worst[:min(10, len(worst))] {
			var words []string
			for _, o := range u.Formats {
				words = append(words, fmt.Sprintf("%s %.3g", o.Format, o.NSR))
			}
			add("    %s: %s", u.Unit, strings.Join(words, ", "))
		}
	}
	if f.Apply != "" {
		add("  to take it all the same: %s", f.Apply)
	}
	return append(lines, "")
}

// shown is a figure with its error and limit.
func (b *Budget) shown(f *analysis.BudgetFigure) string {
	text := fmt.Sprintf("%s %s%s", b.What(), reports.WithError(f.Value, f.Error), b.unit())
	if f.Upper != nil {
		word := "at most"
		if b.Name == "cosine" {
			word = "at least"
		}
		text += fmt.Sprintf(", %s %.3g%s", word, *f.Upper, b.unit())
	}
	return text
}

// What names the metric of the budget.
func (b *Budget) What() string {
	switch b.Name {
	case "nsr":
		return "NSR"
	case "plain_nsr":
		return "plain NSR"
	case "cosine":
		return "cosine"
	}
	return b.metricName() + " drop"
}
