package reports

import (
	"fmt"
	"io"
	"math"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
)

// AccuracyText writes one accuracy and, for a quantized mode, what changed against float.
func AccuracyText(w io.Writer, r *analysis.Accuracy) error {
	t := &tables{w: w}
	t.begin(plain.Count(r.N, "sample"), "mode", "top-1", "", "top-5", "")
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
		t.printf("top-1 drop from fp32: %.2f ± %.2f pp%s; %d of %d predictions changed (%s)\n", r.Drop, r.DropError, insignificant(r.Drop, r.DropError),
			r.Flips, r.N, percent(r.FlipRate))
	}
	if r.Beside != nil {
		t.printf("INT8 and simulated predictions differ on %d of %d samples\n", r.Beside.Flips, r.N)
	}
	if r.Base != nil {
		t.printf("top-1 drop from profile %s: %.2f ± %.2f pp%s; %d of %d predictions differ\n", r.Base.Profile, r.Base.Lost, r.Base.LostError,
			insignificant(r.Base.Lost, r.Base.LostError), r.Base.Flips, r.N)
	}
	if r.Placed != nil {
		t.printf("\n")
		placedTable(t, r.Placed)
	}
	return t.err
}

// insignificant says of a difference that it lies within twice its standard error.
func insignificant(x, err float64) string {
	if x == 0 || math.Abs(x) > 2*err {
		return ""
	}
	return " (not significant)"
}
