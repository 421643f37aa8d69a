package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"qwb/internal/plain"
	"qwb/internal/work/journal"
	"qwb/reports"
)

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.WithSearch(journal.Picked[Result]("goal.metric=metric goal.budget=budget before after held_out.value=held_out "+
	"held_out.error=held_out_error held_out.upper=upper claimed refused evaluations"),
	(*Result).Search)

// Search is what the search found, as pages show it; nil where nothing was searched.
func (r *Result) Search() *reports.Search {
	if r.Found == nil || len(r.Points) == 0 {
		return nil
	}
	budget := r.Goal.Budget
	s := &reports.Search{Command: "dispatch", Metric: MetricTitle(r.Goal.Metric), Cost: "MACs in FP32", Budget: &budget}
	for i := range r.Points {
		x := &r.Points[i]
		p := reports.SearchPoint{Label: plain.Count(len(x.FP32), "operator") + " in FP32", Metric: x.Metric, Error: x.Error,
			Cost: float64(x.MACs), Pareto: x.Pareto,
			Chosen: slices.Equal(x.FP32, r.FP32), FP32: x.FP32}
		if x.Formats != nil {
			s.Cost, p.Cost, p.Label = "cost", x.Cost, formatCounts(x.Formats)
		} else if len(x.FP32) > 0 {
			p.Command = fmt.Sprintf("qwb dispatch %s --fp32 %s", plain.Shell(r.Plan), plain.Shell(strings.Join(x.FP32, ",")))
		}
		s.Points = append(s.Points, p)
	}
	return s
}

// MetricTitle is the name of a budget's metric for people.
func MetricTitle(name string) string {
	switch name {
	case "nsr":
		return "NSR"
	case "plain_nsr":
		return "plain NSR"
	case "top1", "drop":
		return "drop of top-1, pp"
	}
	return name
}

func formatCounts(n map[string]int) string {
	var words []string
	for _, f := range slices.Sorted(maps.Keys(n)) {
		words = append(words, fmt.Sprintf("%d %s", n[f], f))
	}
	return strings.Join(words, ", ")
}
