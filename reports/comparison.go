package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
)

// ComparisonText writes what a comparison found: a sentence for each pair, then a table of the runs and of the pairs, and for each pair the
// operators where the errors differ most, at most mostRows unless all are asked for.
func ComparisonText(w io.Writer, r *analysis.Comparison, all bool) error {
	t := &tables{w: w, limit: mostRows, hint: "--all lists them, so does --json"}
	if all {
		t.limit = 0
	}
	names := shortNames(r.Runs)
	if len(r.Pairs) == 1 {
		t.printf("%s\n\n", pairText(r, &r.Pairs[0], names))
	} else {
		ranking(t, r, names)
	}
	kind := analysis.ErrorName(r.Mismatches)
	if r.Centred {
		kind = "NSR, centred"
	}
	t.limit = 0 // of runs and pairs none is left out
	t.begin(plain.Count(r.Samples, "sample"), "run", scoreTitle(r), "drop from fp32", kind, "classes unlike fp32")
	for _, f := range r.Runs {
		drop := ""
		if f.Drop != nil {
			drop = pointed(*f.Drop, f.DropError, r.Percent)
		}
		t.row(names[f.Name], score(f.Score, r.Percent), drop, WithError(f.NSR.NSR, f.NSRError), flips(f.Flips))
	}
	t.end()
	if len(r.At) > 0 {
		t.printf("compared is %s, of plans simulated (in front of what has as many elements as its numbers say)\n", strings.Join(r.At, ", "))
	}
	for _, f := range r.Runs {
		if f.Worst != "" {
			t.printf("%s: the NSR is that of part %s\n", names[f.Name], f.Worst)
		}
		for _, line := range f.Headlines {
			t.printf("%s: %s\n", names[f.Name], line)
		}
	}
	t.begin("Pairs: how much worse the second is", "first", "second", "drop", "p", "NSR", "p", "classes differ", "outputs apart (NSR)")
	for _, p := range r.Pairs {
		drop := ""
		if p.Drop != nil {
			drop = pointed(*p.Drop, p.DropError, r.Percent)
		}
		t.row(names[p.A], names[p.B], drop, pText(p.PAdjusted), WithError(p.NSRChange, p.NSRChangeError), pText(p.NSRPAdjusted), flips(p.Flips),
			small(p.Apart))
	}
	t.end()
	t.printf("p: probability of such a difference by chance, adjusted for %s (Holm). Below %g it is called significant.\n",
		plain.Count(len(r.Pairs), "pair"), analysis.SignificanceLevel)
	if t.limit = mostRows; all {
		t.limit = 0
	}
	for i := range r.Pairs {
		if i == pairsInFull && !all {
			t.printf("\nOperators and settings of %d more pairs: --all, or --json\n", len(r.Pairs)-i)
			break
		}
		layersOfPair(t, r.LayerSamples, &r.Pairs[i], names)
	}
	return t.err
}

// pairsInFull is for how many pairs a terminal shows the operators.
const pairsInFull = 3

// shortNames leaves the folders out where the names of the files tell the runs apart.
func shortNames(runs []analysis.RunFigures) map[string]string {
	names, seen := map[string]string{}, map[string]int{}
	base := func(name string) string { return path.Base(filepath.ToSlash(name)) }
	for _, r := range runs {
		seen[base(r.Name)]++
	}
	for _, r := range runs {
		if names[r.Name] = base(r.Name); seen[base(r.Name)] > 1 {
			names[r.Name] = r.Name
		}
		names[r.Name] = shorten(names[r.Name], 40)
	}
	return names
}

// ranking says which of several runs is best, which cannot be told apart from it, and which are worse: by the score, and by the NSR.
func ranking(t *tables, r *analysis.Comparison, names map[string]string) {
	rank := func(by string, value func(f *analysis.RunFigures) float64, text func(f *analysis.RunFigures) string,
		significant func(p *analysis.PairOfRuns) bool) {
		best := 0
		for i := range r.Runs {
			if value(&r.Runs[i]) < value(&r.Runs[best]) {
				best = i
			}
		}
		var same, worse []string
		for i := range r.Pairs {
			p := &r.Pairs[i]
			other := p.B
			if p.B == r.Runs[best].Name {
				other = p.A
			}
			switch {
			case p.A != r.Runs[best].Name && p.B != r.Runs[best].Name:
			case significant(p):
				worse = append(worse, names[other])
			default:
				same = append(same, names[other])
			}
		}
		t.printf("By %s: %s is best (%s)", by, names[r.Runs[best].Name], text(&r.Runs[best]))
		if len(same) > 0 {
			t.printf("; cannot be told apart from it: %s", strings.Join(same, ", "))
		}
		if len(worse) > 0 {
			t.printf("; worse: %s", strings.Join(worse, ", "))
		}
		t.printf("\n")
	}
	if r.Metric != "" {
		rank(r.Metric, func(f *analysis.RunFigures) float64 { return defined(f.Drop) }, func(f *analysis.RunFigures) string {
			return score(f.Score, r.Percent)
		},
			func(p *analysis.PairOfRuns) bool { return p.Significant })
	}
	rank(analysis.ErrorName(r.Mismatches), func(f *analysis.RunFigures) float64 { return f.NSR.NSR }, func(f *analysis.RunFigures) string {
		return WithError(f.NSR.NSR, f.NSRError)
	},
		func(p *analysis.PairOfRuns) bool { return p.NSRSignificant })
	t.printf("\n")
}

// defined is a number that may be missing, which is worse than any.
func defined(x *float64) float64 {
	if x == nil {
		return math.Inf(1)
	}
	return *x
}

func scoreTitle(r *analysis.Comparison) string {
	if r.Agreement {
		return r.Metric + ", fp32 taken for right"
	}
	return r.Metric
}

// pairText is one pair in a sentence.
func pairText(r *analysis.Comparison, p *analysis.PairOfRuns, names map[string]string) string {
	a, b := names[p.A], names[p.B]
	worse := func(amount, better, worse string, p *float64) string {
		return fmt.Sprintf("%s is worse than %s by %s (%s)", worse, better, amount, pIs(p))
	}
	if p.Drop != nil {
		if p.Significant && *p.Drop > 0 {
			return worse(pointed(*p.Drop, p.DropError, r.Percent)+" of "+r.Metric, a, b, p.PAdjusted)
		} else if p.Significant {
			return worse(pointed(-*p.Drop, p.DropError, r.Percent)+" of "+r.Metric, b, a, p.PAdjusted)
		}
		s := fmt.Sprintf("%s and %s cannot be told apart by %s (%s, %s)", a, b, r.Metric, pointed(*p.Drop, p.DropError, r.Percent),
			pIs(p.PAdjusted))
		if p.NSRSignificant {
			less, more := a, b
			if p.NSRChange < 0 {
				less, more = b, a
			}
			s += fmt.Sprintf("; the outputs of %s are further from float than those of %s (NSR by %s, %s)", more, less,
				WithError(math.Abs(p.NSRChange), p.NSRChangeError), pIs(p.NSRPAdjusted))
		}
		return s
	}
	if !p.Significant {
		return fmt.Sprintf("%s and %s cannot be told apart by NSR (%s, %s)", a, b, WithError(p.NSRChange, p.NSRChangeError), pIs(p.NSRPAdjusted))
	}
	if p.NSRChange > 0 {
		return worse("an NSR of "+WithError(p.NSRChange, p.NSRChangeError), a, b, p.NSRPAdjusted)
	}
	return worse("an NSR of "+WithError(-p.NSRChange, p.NSRChangeError), b, a, p.NSRPAdjusted)
}

// layersOfPair lists the operators where the errors of a pair differ most, and counts what differs in their settings.
func layersOfPair(t *tables, samples int, p *analysis.PairOfRuns, names map[string]string) {
	if p.Different != "" {
		t.printf("\n%s and %s: %s.\n", names[p.A], names[p.B], p.Different)
	}
	if d := p.Settings; d != nil {
		t.printf("\n%s and %s: %s, %s, %s, %s, %s and %d of %s of parameters differ (qwb diff lists them).\n", names[p.A], names[p.B],
			plain.Count(d.Domains, "domain"),
			plain.Count(d.States, "state"), plain.Count(d.Schemes, "scheme"), plain.Count(d.Scales, "scale"),
			plain.Count(d.ZeroPoints, "zero point"), d.Flipped, plain.Count(d.Codes, "integer"))
	}
	if len(p.Layers) == 0 {
		return
	}
	list := slices.Clone(p.Layers)
	arrange.Stable(list, func(a, b analysis.LayerDrift) int { return cmp.Compare(math.Abs(b.Change), math.Abs(a.Change)) })
	t.begin(fmt.Sprintf("NSR accumulated up to each operator on %s, %s and %s, largest difference first (* significant)",
		plain.Count(samples, "sample"), names[p.A], names[p.B]), "node", "op", "first", "second", "change", "")
	for _, l := range list {
		mark := ""
		if l.Significant {
			mark = "*"
		}
		t.row(shorten(l.Node, 48), l.Op, small(l.A), small(l.B), WithError(l.Change, l.ChangeError), mark)
	}
	t.end()
}

// score writes the value of a metric.
func score(x *float64, percents bool) string {
	switch {
	case x == nil:
		return ""
	case percents:
		return percent(*x)
	}
	return Number(*x)
}

// Points writes a difference of scores with its error, in percentage points where scores are shares.
func Points(x float64, err *float64, percents bool) string { return pointed(x, err, percents) }

func pointed(x float64, err *float64, percents bool) string {
	unit, format := "", Number
	if percents {
		unit, format = " pp", func(x float64) string { return fmt.Sprintf("%.2f", x) }
	}
	if err == nil {
		return format(x) + unit
	}
	if !percents {
		return WithError(x, err)
	}
	return format(x) + " ± " + format(*err) + unit
}

func pText(p *float64) string {
	switch {
	case p == nil:
		return ""
	case *p < 1e-4:
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", *p)
}

// pIs is a p-value in a sentence.
func pIs(p *float64) string {
	if text := pText(p); !strings.HasPrefix(text, "<") {
		return "p = " + text
	}
	return "p < 0.0001"
}

func flips(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
