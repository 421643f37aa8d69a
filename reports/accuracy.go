package reports

import (
	"fmt"
	"io"
	"strings"

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
	if r.Base != nil {
		row("int8 "+r.Base.Profile, r.Base.Top1, r.Base.Top5)
	}
	row(strings.TrimSpace(r.Mode+" "+r.Profile), r.Top1, r.Top5)
	t.end()
	if r.Change != nil {
		t.printf("drop %.2f ± %.2f points of top-1, %d answers differ (%s)\n", r.Drop, r.DropError, r.Flips, percent(r.FlipRate))
	}
	if r.Beside != nil {
		t.printf("%d answers of the integers differ from the simulation's\n", r.Beside.Flips)
	}
	if r.Base != nil {
		t.printf("%.2f ± %.2f points of top-1 lost against profile %s, %d answers differ from its\n", r.Base.Lost, r.Base.LostError, r.Base.Profile, r.Base.Flips)
	}
	return t.err
}
