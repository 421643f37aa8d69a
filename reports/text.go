package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
)

// mostRows is how many rows a table of the terminal has unless all are asked for: the worst, or the most telling.
const mostRows = 10

// Text writes the report for a terminal: first a summary in a few lines, then tables of at most mostRows rows, those that matter most.
// With all set, every row is written.
func Text(w io.Writer, r *analysis.Report, all bool) error {
	t := &tables{w: w, limit: mostRows, hint: "--all lists them, so do --json and the HTML report"}
	if all {
		t.limit = 0
	}
	summary(t, r)
	adviceText(t, r.Advice)
	if len(r.Outputs) > 0 {
		columns, plainly := []string{"output", "NSR"}, r.Judged().Centred != nil
		if plainly {
			columns = append(columns, "plain NSR")
		}
		t.begin("Error at the outputs, whole network quantized", append(columns, "MSE", "cosine")...)
		for i := range r.Outputs {
			o := &r.Outputs[i]
			x := o.Judged()
			cells := []string{shorten(o.Output, 48), WithError(x.NSR, x.NSRError)}
			if plainly {
				cells = append(cells, WithError(o.NSR, o.NSRError))
			}
			if o.Integer {
				cells[1] = fmt.Sprintf("%.2f %% differ", 100*o.Mismatch)
				t.row(append(cells, "-", "-")...)
				continue
			}
			t.row(append(cells, small(o.MSE), cosine(o.Cosine))...)
		}
		t.end()
		for i := range r.Outputs {
			if o := &r.Outputs[i]; len(o.For) > 0 {
				has := map[bool]string{true: "has", false: "have"}[len(o.For) == 1]
				t.printf("How many elements %s %s depends on the numbers: %s in front is compared instead.\n\n",
					shorten(strings.Join(o.For, " and "), 96), has, shorten(o.Output, 48))
			}
		}
		sliceTable(t, r.Outputs)
		stepsText(t, r.Steps)
	}
	if r.Explained != nil {
		explanationTables(t, r.Explained)
	}
	if len(r.Layerwise) > 0 {
		layerTable(t, r.Layerwise, analysis.ErrorName(len(r.Outputs) > 0 && r.Judged().Integer))
	}
	if r.Sensitivity != nil {
		sensitivityTable(t, r.Sensitivity)
	}
	if len(r.Graphwise) > 0 {
		graphwiseTable(t, r.Graphwise)
	}
	if len(r.Statistical) > 0 {
		tensorTable(t, r.Statistical)
	}
	if r.Forwards > 0 {
		t.printf("%.3g forward passes per sample, %s, %.2f s\n", r.Forwards, plain.Count(r.Samples, "sample"), r.Seconds)
	}
	return t.err
}

// sliceTable lists the parts of outputs that count, or that say that they do not.
func sliceTable(t *tables, outputs []analysis.OutputError) {
	var list []*analysis.SliceError
	for i := range outputs {
		for k := range outputs[i].Slices {
			if s := &outputs[i].Slices[k]; s.Judged || s.Part {
				list = append(list, s)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	arrange.Stable(list, func(a, b *analysis.SliceError) int {
		return cmp.Or(-compareBool(a.Judged, b.Judged), cmp.Compare(b.NSR, a.NSR))
	})
	t.begin("Parts of the outputs by themselves, the worst first", "part", "output", "axis", "from", "to", "NSR", "correlation",
		"levels", "signal")
	for _, s := range list {
		correlation, finding := "-", "yes"
		if s.Correlation != nil {
			correlation = fmt.Sprintf("%.4f", *s.Correlation)
		}
		if s.Finding != "" {
			finding = s.Finding
		}
		if s.Mismatch {
			t.row(shorten(s.Name, 48), shorten(s.Output, 48), "-", "-", "-", fmt.Sprintf("%.2f %% differ", 100*s.NSR), "-", "-", finding)
			continue
		}
		t.row(shorten(s.Name, 48), shorten(s.Output, 48), fmt.Sprint(s.Axis), fmt.Sprint(s.From), fmt.Sprint(s.To), WithError(s.NSR, s.NSRError),
			correlation, levels(s.Levels), finding)
	}
	t.end()
}

// levels is a number of values that are counted up to 256.
func levels(n int) string {
	if n >= 256 {
		return "256 or more"
	}
	return fmt.Sprint(n)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// summary says in a few lines what was found: the error of the whole, and the operators that make most of it.
func summary(t *tables, r *analysis.Report) {
	t.printf("%s for %s, %s\n", r.Model, r.Platform, plain.Count(r.Samples, "sample"))
	if len(r.Outputs) > 0 {
		o := r.Judged()
		x, of := o.Judged(), "outputs"
		switch s := o.Worst(); {
		case s != nil:
			of = fmt.Sprintf("part %s of output %s; of the whole output %s", s.Name, o.Output, WithError(o.NSR, o.NSRError))
		case o.Centred != nil:
			of = "class scores before Softmax, without their mean"
		}
		if o.Integer {
			t.printf("  whole network quantized: %.2f %% of the elements of the outputs differ (they are integers%s)\n", 100*x.NSR,
				ofOutputs(len(r.Outputs)))
		} else {
			t.printf("  whole network quantized: NSR %s (noise-to-signal ratio of the %s%s)\n", WithError(x.NSR, x.NSRError), of,
				ofOutputs(len(r.Outputs)))
		}
		for _, line := range analysis.Headlines(r.Outputs) {
			t.printf("  %s\n", line)
		}
	}
	if len(r.Layerwise) > 0 {
		name := analysis.ErrorName(len(r.Outputs) > 0 && r.Judged().Integer)
		sorted := WorstFirst(r.Layerwise)
		total, each := analysis.SumOfRows(sorted)
		for i, l := range sorted[:min(3, len(sorted))] {
			x, share := l.Judged(), ""
			if x.NSR <= 0 {
				break
			}
			if r.Together == nil || !r.Together.Apart() {
				share = fmt.Sprintf("%.0f %% of the sum over all operators, ", 100*each[i]/total)
			}
			t.printf("  %s (%s) alone: %s %s, %s%s\n", shorten(l.Node, 48), l.Op, name, WithError(x.NSR, x.NSRError), share, cause(&l))
		}
		togetherText(t, r.Together)
	}
	t.printf("\n")
}

// ofOutputs says of several outputs that a number is that of the worst.
func ofOutputs(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", the worst of %d outputs", n)
}

// cause says which step makes more of an operator's error at its own output.
func cause(l *analysis.LayerError) string {
	step := "mostly rounding"
	if l.Clip > l.Round {
		step = "mostly clipping"
	}
	if l.Weight == nil || l.Activation == nil {
		return step
	}
	if *l.Weight > *l.Activation {
		return step + ", of weights more than activations"
	}
	return step + ", of activations more than weights"
}

// layerTable lists the operators, the worst first, with the parts of --split where they were measured.
func layerTable(t *tables, layers []analysis.LayerError, name string) {
	split := layers[0].Weight != nil && layers[0].Activation != nil
	columns := []string{"rank", "node", "op", name + " alone", "cosine", "local", "clip", "round"}
	if split {
		columns = append(columns, "weight", "activation")
	}
	t.begin("Layerwise: "+name+" of the outputs with one operator quantized alone, worst first; local, clip and round at its own output",
		append(columns, "MACs")...)
	rest := 0.0
	for i, l := range WorstFirst(layers) {
		x := l.Judged()
		if i >= t.limit {
			rest += x.NSR
		}
		cells := []string{places(l.Places(), len(layers)), shorten(l.Node, 48), l.Op, WithError(x.NSR, x.NSRError), cosine(l.Cosine),
			small(l.Local), part(l.Clip), part(l.Round)}
		if split {
			cells = append(cells, part(*l.Weight), part(*l.Activation))
		}
		t.row(append(cells, count(l.MACs))...)
	}
	t.rest = fmt.Sprintf(", NSR %s together", Number(rest))
	t.end()
	if n, most := estimated(layers); n > 0 {
		t.printf("Estimated on up to %s, from the error at their own output: %s of operators without products that are small.\n\n",
			plain.Count(most, "sample"), plain.Count(n, "row"))
	}
}

// sensitivityTable lists the operators by what gradients say, the worst first, also in other formats.
func sensitivityTable(t *tables, s *analysis.SensitivityTable) {
	columns := []string{"node", "op", "NSR alone"}
	in := make([]map[string]analysis.NSR, len(s.Formats)) // by operator
	for k, f := range s.Formats {
		columns, in[k] = append(columns, "in "+f.Format), map[string]analysis.NSR{}
		for _, x := range f.Rows {
			in[k][x.Node] = x.NSR
		}
	}
	t.begin("Sensitivity: NSR of the outputs with one operator quantized alone, estimated from gradients, worst first", columns...)
	rows := slices.Clone(s.Rows)
	arrange.Stable(rows, func(a, b analysis.Sensitivity) int { return cmp.Compare(b.NSR.NSR, a.NSR.NSR) })
	for _, x := range rows {
		cells := []string{shorten(x.Node, 48), x.Op, WithError(x.NSR.NSR, x.NSRError)}
		for _, of := range in {
			cell := "-" // the operator cannot have it
			if y, ok := of[x.Node]; ok {
				cell = WithError(y.NSR, y.NSRError)
			}
			cells = append(cells, cell)
		}
		t.row(cells...)
	}
	t.end()
	for _, a := range s.Agreements() {
		t.printf("Rank correlation of the estimate with the layerwise NSR%s: Spearman %.3f, Kendall %.3f.\n", a.Of, *a.Spearman, *a.Kendall)
	}
	t.printf("The estimates took %.2f s.\n\n", s.Seconds)
}

// estimated is how many rows were not run on all samples, and on how many samples at most.
func estimated(layers []analysis.LayerError) (rows, samples int) {
	for _, l := range layers {
		if l.Bounded > 0 {
			rows, samples = rows+1, max(samples, l.Bounded)
		}
	}
	return rows, samples
}

// graphwiseTable lists the accumulated error in graph order; of many operators those where it rises most.
func graphwiseTable(t *tables, points []analysis.GraphwisePoint) {
	show := make([]bool, len(points))
	title := "Graphwise: NSR at each operator's output with the whole network quantized, in graph order"
	if t.limit > 0 && len(points) > t.limit {
		title += ", where it rises most"
		rise := func(i int) float64 {
			if i == 0 {
				return points[0].NSR
			}
			return points[i].NSR - points[i-1].NSR
		}
		order := make([]int, len(points))
		for i := range order {
			order[i] = i
		}
		arrange.Stable(order, func(a, b int) int { return cmp.Compare(rise(b), rise(a)) })
		for _, i := range order[:t.limit] {
			show[i] = true
		}
	} else {
		for i := range show {
			show[i] = true
		}
	}
	t.begin(title, "node", "op", "NSR", "MSE", "cosine")
	for i, p := range points {
		if show[i] {
			t.row(shorten(p.Node, 48), p.Op, WithError(p.NSR, p.NSRError), small(p.MSE), cosine(p.Cosine))
		}
	}
	t.endOf(len(points))
}

// tensorTable lists the tensors: all, or of many the activations with the heaviest tails, whose scales are the hardest to choose.
func tensorTable(t *tables, tensors []analysis.TensorStatistics) {
	title, list := "Tensors", tensors
	if t.limit > 0 && len(tensors) > t.limit {
		title = "Tensors: activations with the heaviest tails"
		list = slices.DeleteFunc(slices.Clone(tensors), func(s analysis.TensorStatistics) bool { return s.Kind == "parameter" })
		arrange.Stable(list, func(a, b analysis.TensorStatistics) int { return cmp.Compare(b.Kurtosis, a.Kurtosis) })
	}
	t.begin(title, "tensor", "kind", "min", "max", "mean", "std", "kurtosis", "zeros", "dead channels")
	for _, s := range list {
		dead := "-"
		if s.Channels > 0 {
			dead = fmt.Sprintf("%d of %d", len(s.Dead), s.Channels)
		}
		t.row(shorten(s.Tensor, 48), s.Kind, Number(s.Min), Number(s.Max), Number(s.Mean), Number(s.Std), small(s.Kurtosis),
			percent(s.Zeros), dead)
	}
	t.endOf(len(tensors))
}

// WorstFirst returns layers by their NSR of the outputs as people compare it, the largest first.
func WorstFirst(layers []analysis.LayerError) []analysis.LayerError {
	sorted := slices.Clone(layers)
	arrange.Stable(sorted, func(a, b analysis.LayerError) int { return cmp.Compare(b.Judged().NSR, a.Judged().NSR) })
	return sorted
}

// tables writes aligned columns and remembers the first error.
type tables struct {
	w     io.Writer
	limit int        // rows of a table, the first ones; 0: all
	hint  string     // where the other rows are
	rest  string     // what they are together, for the table in progress
	rows  [][]string // of the table in progress, the names of the columns first
	err   error
}

func (t *tables) begin(title string, columns ...string) {
	t.printf("%s\n", title)
	t.rows = append(t.rows[:0], columns)
}

func (t *tables) row(cells ...string) { t.rows = append(t.rows, cells) }

// end writes the table: columns of numbers stand to the right, what names something to the left. Rows beyond the limit are counted.
func (t *tables) end() { t.endOf(len(t.rows) - 1) }

// endOf is end for a table whose rows were chosen out of so many. Columns without any content are left out.
func (t *tables) endOf(total int) {
	for i := len(t.rows[0]) - 1; i >= 0 && len(t.rows) > 1; i-- {
		if !slices.ContainsFunc(t.rows[1:], func(cells []string) bool { return cells[i] != "" }) {
			for r := range t.rows {
				t.rows[r] = slices.Delete(slices.Clone(t.rows[r]), i, i+1)
			}
		}
	}
	if t.limit > 0 && len(t.rows)-1 > t.limit {
		t.rows = t.rows[:1+t.limit]
	}
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
	if left := total - (len(t.rows) - 1); left > 0 {
		t.printf("  ... and %d more%s: %s\n", left, t.rest, t.hint)
	}
	t.rest = ""
	t.printf("\n")
}

// isNumber reports whether a cell holds a number, perhaps with a unit, or stands for one.
func isNumber(cell string) bool {
	first := strings.TrimLeft(cell, "+-≥")
	return cell == "-" || cell == "?" || cell == "NaN" || first != "" && first[0] >= '0' && first[0] <= '9' &&
		!strings.ContainsAny(cell, "_/:[")
}

func (t *tables) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); err != nil && t.err == nil {
		t.err = err
	}
}

// Span is what a picture of a tensor has to show: its values, and the ranges of the methods, which may know more samples.
func Span(s *analysis.TensorStatistics) (lo, hi float64) {
	lo, hi = s.Min, s.Max
	for _, t := range s.Thresholds {
		lo, hi = math.Min(lo, t.Lo), math.Max(hi, t.Hi)
	}
	return lo, hi
}
