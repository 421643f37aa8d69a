package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"qwb/analysis"
)

// Text writes the report as tables: graph outputs, then layers with the largest error first, then the accumulated error in
// graph order, then tensors.
func Text(w io.Writer, r *analysis.Report) error {
	t := &tables{w: w}
	if len(r.Outputs) > 0 {
		t.begin("Error of the quantized graph", "output", "NSR", "MSE", "cosine")
		for _, o := range r.Outputs {
			t.row(shorten(o.Output, 48), number(o.NSR), number(o.MSE), cosine(o.Cosine))
		}
		t.end()
	}
	if r.Explained != nil {
		explanationTables(t, r.Explained)
	}
	if len(r.Layerwise) > 0 {
		t.begin("Layerwise: one operator quantized at a time, worst first", "node", "op", "NSR", "cosine", "local", "clip", "round", "MACs")
		for _, l := range worstFirst(r.Layerwise) {
			t.row(shorten(l.Node, 48), l.Op, number(l.NSR), cosine(l.Cosine), number(l.Local), number(l.Clip), number(l.Round), count(l.MACs))
		}
		t.end()
	}
	if len(r.Graphwise) > 0 {
		t.begin("Graphwise: error accumulated in graph order", "node", "op", "NSR", "MSE", "cosine")
		for _, p := range r.Graphwise {
			t.row(shorten(p.Node, 48), p.Op, number(p.NSR), number(p.MSE), cosine(p.Cosine))
		}
		t.end()
	}
	if len(r.Statistical) > 0 {
		t.begin("Tensors", "tensor", "kind", "min", "max", "mean", "std", "kurtosis", "zeros", "dead channels")
		for _, s := range r.Statistical {
			dead := "-"
			if s.Channels > 0 {
				dead = fmt.Sprintf("%d of %d", len(s.Dead), s.Channels)
			}
			t.row(shorten(s.Tensor, 48), s.Kind, number(s.Min), number(s.Max), number(s.Mean), number(s.Std), number(s.Kurtosis), percent(s.Zeros), dead)
		}
		t.end()
	}
	if r.Forwards > 0 {
		t.printf("%.3g forwards per sample, %d samples, %.2f s\n", r.Forwards, r.Samples, r.Seconds)
	}
	return t.err
}

// SearchText writes the ranking, the best sets found and the outcome of a search.
func SearchText(w io.Writer, units []analysis.Unit, res *analysis.SearchResult) error {
	t := &tables{w: w}
	t.begin("Ranking by layerwise error", "operator", "NSR", "MACs")
	for _, i := range res.Ranking {
		t.row(shorten(units[i].Name, 48), number(units[i].Error), count(units[i].MACs))
	}
	t.end()
	t.begin("Pareto points: work left in INT8 against error", "operators in float", "MACs in float", "borders", "metric", "budget")
	pareto := slices.DeleteFunc(slices.Clone(res.Points), func(p analysis.Point) bool { return !p.Pareto })
	slices.SortStableFunc(pareto, func(a, b analysis.Point) int { return int(min(max(a.MACs-b.MACs, -1), 1)) })
	for _, p := range pareto {
		met := "missed"
		if p.Met {
			met = "met"
		}
		t.row(fmt.Sprint(len(p.FP32)), count(p.MACs), fmt.Sprint(p.Borders), number(p.Metric), met)
	}
	t.end()
	t.printf("%d evaluations: metric %s before, %s after, %d operators sent to float\n", len(res.Points), number(res.Before.Metric),
		number(res.After.Metric), len(res.FP32))
	for _, name := range res.After.FP32 {
		t.printf("  %s\n", name)
	}
	return t.err
}

func worstFirst(layers []analysis.LayerError) []analysis.LayerError {
	sorted := slices.Clone(layers)
	slices.SortStableFunc(sorted, func(a, b analysis.LayerError) int {
		switch {
		case a.NSR > b.NSR:
			return -1
		case a.NSR < b.NSR:
			return 1
		}
		return 0
	})
	return sorted
}

// tables writes aligned columns and remembers the first error.
type tables struct {
	w    io.Writer
	rows [][]string // of the table in progress, the names of the columns first
	err  error
}

func (t *tables) begin(title string, columns ...string) {
	t.printf("%s\n", title)
	t.rows = append(t.rows[:0], columns)
}

func (t *tables) row(cells ...string) { t.rows = append(t.rows, cells) }

// end writes the table: columns of numbers stand to the right, what names something to the left.
func (t *tables) end() {
	widths, left := make([]int, len(t.rows[0])), make([]bool, len(t.rows[0]))
	for r, cells := range t.rows {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
			left[i] = left[i] || r > 0 && !isNumber(c)
		}
	}
	for _, cells := range t.rows {
		var line strings.Builder
		for i, c := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if line.WriteString("  "); left[i] {
				line.WriteString(c + pad)
			} else {
				line.WriteString(pad + c)
			}
		}
		t.printf("%s\n", strings.TrimRight(line.String(), " "))
	}
	t.printf("\n")
}

// isNumber reports whether a cell holds a number, perhaps with a unit, or stands for one.
func isNumber(cell string) bool {
	first := strings.TrimLeft(cell, "+-≥")
	return cell == "-" || cell == "?" || cell == "NaN" || first != "" && first[0] >= '0' && first[0] <= '9' && !strings.ContainsAny(cell, "_/:[")
}

func (t *tables) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); err != nil && t.err == nil {
		t.err = err
	}
}
