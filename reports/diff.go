package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/internal/plain"
)

// diffKinds are the kinds of differences in the order in which they are written: what follows from another one comes after it.
var diffKinds = []struct {
	what  analysis.DiffKind
	title string
}{
	{analysis.DiffMissing, "Operators only in the first"},
	{analysis.DiffExtra, "Operators only in the second"},
	{analysis.DiffDomain, "Operators in another domain"},
	{analysis.DiffState, "Tensors in another state"},
	{analysis.DiffScheme, "Tensors with another scheme"},
	{analysis.DiffScale, "Scales, largest difference first"},
	{analysis.DiffZeroPoint, "Zero points, largest difference first"},
	{analysis.DiffCodes, "Integers of weights and biases, largest difference first"},
}

// DiffText writes how many differences there are of each kind, then a table for each kind, of at most mostRows rows unless all are asked
// for. Differences that follow from others are counted, and listed only where all are asked for.
func DiffText(w io.Writer, r *analysis.DiffResult, all bool) error {
	t := &tables{w: w, limit: mostRows, hint: "--all lists them, so does --json"}
	if all {
		t.limit = 0
	}
	matched := "by name"
	if r.ByPlace {
		matched = "by position"
	}
	t.printf("Different: %s, %s, %s, %s, %s, %d of %s of parameters.\nCompared: %s matched %s, %s; only in the first: %d, only in the "+
		"second: %d.\n",
		plain.Count(r.Domains, "domain"), plain.Count(r.States, "state"), plain.Count(r.Schemes, "scheme"), plain.Count(r.Scales, "scale"),
		plain.Count(r.ZeroPoints, "zero point"), r.Flipped,
		plain.Count(r.Codes, "integer"), plain.Count(r.Nodes, "operator"), matched, plain.Count(r.Slots, "tensor"), r.Missing, r.Extra)
	if r.Following > 0 {
		hint := "; --all lists them"
		if all {
			hint = ""
		}
		t.printf("%s from others: scales of biases, and of operators that pass their input on%s.\n", follow(r.Following), hint)
	}
	if len(r.Differences) > 0 {
		t.printf("\n")
	}
	for _, kind := range diffKinds {
		list := slices.DeleteFunc(slices.Clone(r.Differences), func(d analysis.Difference) bool {
			return d.What != kind.what || d.Follows && !all
		})
		if len(list) == 0 {
			continue
		}
		arrange.Stable(list, func(a, b analysis.Difference) int { return cmp.Compare(b.Largest, a.Largest) })
		t.begin(kind.title, "node", "op", "at", "a", "b", "different", "largest")
		for _, d := range list {
			share, largest := "", ""
			if d.Of > 0 {
				share, largest = fmt.Sprintf("%d of %d", d.Count, d.Of), Number(d.Largest)
			}
			t.row(shorten(d.Node, 40), d.Op, d.At, shorten(d.A, 60), shorten(d.B, 60), share, largest)
		}
		t.end()
	}
	return t.err
}

// follow counts differences that follow from others.
func follow(n int) string {
	if n == 1 {
		return "1 difference follows"
	}
	return fmt.Sprintf("%d differences follow", n)
}
