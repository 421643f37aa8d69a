package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
)

// SearchText writes the ranking that a search started from and the best sets that it tried. metric names what the budget is on.
func SearchText(w io.Writer, metric string, ranking []analysis.LayerError, points []analysis.Point) error {
	t := &tables{w: w, limit: mostRows, hint: "--json lists them"}
	if len(ranking) > 0 {
		t.begin("NSR of the outputs with one operator quantized alone; ranks that these samples cannot tell apart overlap", "rank", "operator",
			"NSR", "MACs")
		for _, l := range WorstFirst(ranking) {
			x := l.Judged()
			t.row(places(l.Places(), len(ranking)), shorten(l.Node, 48), WithError(x.NSR, x.NSRError), count(l.MACs))
		}
		t.end()
	}
	if len(points) == 0 {
		return t.err
	}
	if points[0].Formats != nil {
		return mixedText(t, metric, points)
	}
	t.begin("Best sets tried, on the fitting samples", "in FP32", "MACs in FP32", "Q/DQ boundaries", metric, "budget")
	pareto := slices.DeleteFunc(slices.Clone(points), func(p analysis.Point) bool { return !p.Pareto })
	arrange.Stable(pareto, func(a, b analysis.Point) int {
		return cmp.Or(cmp.Compare(a.MACs, b.MACs), cmp.Compare(a.Borders, b.Borders), cmp.Compare(len(a.FP32), len(b.FP32)))
	})
	pareto = slices.CompactFunc(pareto, func(a, b analysis.Point) bool {
		return a.MACs == b.MACs && a.Borders == b.Borders && len(a.FP32) == len(b.FP32) && a.Metric == b.Metric
	})
	for _, p := range pareto {
		met := "missed"
		if p.Met {
			met = "met"
		}
		t.row(plain.Count(len(p.FP32), "operator"), count(p.MACs), fmt.Sprint(p.Borders), WithError(p.Metric, p.Error), met)
	}
	t.end()
	return t.err
}

// places writes the ranks that an operator may have among so many; nothing where nobody ranked, "open" where they say nothing: more than
// four, and more than half of all.
func places(r [2]int, among int) string {
	switch {
	case r[0] == 0:
		return ""
	case r[0] == r[1]:
		return fmt.Sprint(r[0])
	case r[1]-r[0] >= 4 && 2*(r[1]-r[0]+1) > among:
		return "open"
	}
	return fmt.Sprintf("%d-%d", r[0], r[1])
}

// mixedText writes the points of a search in several formats, in the order in which they were tried.
func mixedText(t *tables, metric string, points []analysis.Point) error {
	t.begin("Choices tried, on the fitting samples", "cost", "Q/DQ boundaries", metric, "budget", "operators")
	for _, p := range points {
		met := "missed"
		if p.Met {
			met = "met"
		}
		var formats []string
		for _, name := range slices.Sorted(maps.Keys(p.Formats)) {
			formats = append(formats, fmt.Sprintf("%d %s", p.Formats[name], name))
		}
		t.row(small(p.Cost), fmt.Sprint(p.Borders), WithError(p.Metric, p.Error), met, strings.Join(formats, ", "))
	}
	t.end()
	return t.err
}
