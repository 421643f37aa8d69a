package reports

import (
	"fmt"
	"io"

	"qwb/analysis"
)

// DiffText writes the differences as a table, then how many there are of each kind.
func DiffText(w io.Writer, r *analysis.DiffResult) error {
	t := &tables{w: w}
	if len(r.Differences) > 0 {
		t.begin("Differences", "node", "op", "at", "what", "a", "b", "differ", "largest")
		for _, d := range r.Differences {
			share, largest := "", ""
			if d.Of > 0 {
				share = fmt.Sprintf("%d of %d", d.Count, d.Of)
				largest = number(d.Largest)
			}
			t.row(shorten(d.Node, 40), d.Op, d.At, string(d.What), shorten(d.A, 60), shorten(d.B, 60), share, largest)
		}
		t.end()
	}
	matched := "by name"
	if r.ByPlace {
		matched = "by their place"
	}
	t.printf("%d operators matched %s, %d tensors: %d domains, %d states, %d schemes, %d scales and %d zero points differ, %d of %d integers of parameters; "+
		"%d operators are missing, %d extra\n", r.Nodes, matched, r.Slots, r.Domains, r.States, r.Schemes, r.Scales, r.ZeroPoints, r.Flipped, r.Codes, r.Missing, r.Extra)
	return t.err
}
