package reports

import (
	"fmt"

	"qwb/analysis"
	"qwb/internal/plain"
)

// stepsText says how the error goes on over the steps of sequences: at steps that double, or grow fourfold, and at the last.
func stepsText(t *tables, list []analysis.Steps) {
	if len(list) == 0 {
		return
	}
	worst := analysis.WorstSteps(list)
	n := 0
	for _, s := range list {
		n = max(n, len(s.Curve))
	}
	columns, factor := []string{"step"}, 2
	if n > 1<<(mostRows-2) {
		factor = 4
	}
	for _, s := range list {
		columns = append(columns, "NSR of "+shorten(s.Output, 32))
	}
	t.begin(fmt.Sprintf("Error step by step, each network with its own states; at the last step of %s: NSR %s (%s)",
		plain.Count(worst.Sequences, "sequence"), WithError(worst.Last.NSR, worst.Last.NSRError), shorten(worst.Output, 32)), columns...)
	for step := 1; ; step = min(factor*step, n) {
		cells := []string{fmt.Sprint(step)}
		for _, s := range list {
			cell := "-"
			if step <= len(s.Curve) {
				cell = WithError(s.Curve[step-1].NSR.NSR, s.Curve[step-1].NSRError)
			}
			cells = append(cells, cell)
		}
		if t.row(cells...); step == n {
			break
		}
	}
	t.end()
}
