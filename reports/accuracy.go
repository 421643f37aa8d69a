package reports

import (
	"fmt"
	"io"

	"qwb/analysis"
)

// AccuracyText writes one accuracy and, for a quantized mode, what changed against float.
func AccuracyText(w io.Writer, r *analysis.Accuracy) error {
	t := &tables{w: w}
	t.begin(fmt.Sprintf("%d samples", r.N), "mode", "top-1", "", "top-5", "")
	row := func(mode string, top1, top5 int) {
		t.row(mode, fmt.Sprint(top1), percent(float64(top1)/float64(r.N)), fmt.Sprint(top5), percent(float64(top5)/float64(r.N)))
	}
	if r.Change != nil {
		row("fp32", r.FloatTop1, r.FloatTop5)
	}
	if r.Beside != nil {
		row("sim", r.Beside.Top1, r.Beside.Top5)
	}
	row(r.Mode, r.Top1, r.Top5)
	t.end()
	if r.Change != nil {
		t.printf("drop %.2f ± %.2f points of top-1, %d answers differ (%s)\n", r.Drop, r.DropError, r.Flips, percent(r.FlipRate))
	}
	if r.Beside != nil {
		t.printf("%d answers of the integers differ from the simulation's\n", r.Beside.Flips)
	}
	return t.err
}
