package reports

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/internal/arrange"
)

// explanationTables writes the causes of the loss at the graph outputs and their parts, then those of the steps with the largest loss,
// at most 30.
func explanationTables(t *tables, x *analysis.Explanation) {
	columns := []string{"weights", "shift", "noise", "clip", "round", "bias", "tables", "profile", "rest"}
	row := func(l *analysis.Loss, names ...string) {
		t.row(append(names, Number(l.NSR), Number(l.Weights), optional(l.WeightsShift), optional(l.WeightsNoise), Number(l.Clip), Number(l.Round),
			Number(l.Bias), Number(l.Tables), Number(l.Profile), Number(l.Rest))...)
	}
	t.begin(fmt.Sprintf("Loss of the integers (profile %s): what each change does alone, to outputs and below each to its parts that count; "+
		"of the weights', shift is what one number per channel repairs", x.Profile), append([]string{"output", "plain NSR"}, columns...)...)
	for i := range x.Outputs {
		o := &x.Outputs[i]
		row(&o.Loss, shorten(o.Output, 48))
		for k := range o.Slices {
			row(&o.Slices[k].Loss, "  "+shorten(o.Slices[k].Name, 46))
		}
	}
	t.end()
	t.begin("The same for every step from float inputs, at its own output, where the parts sum to the loss; worst first",
		append([]string{"node", "op", "NSR"}, columns...)...)
	worst := worstLosses(x)
	for i := range worst[:min(len(worst), 30)] {
		row(&worst[i].Loss, shorten(worst[i].Node, 40), worst[i].Op)
	}
	t.end()
}

// optional writes a number that may be missing.
func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return Number(*x)
}

// worstLosses lists the steps with the largest loss first.
func worstLosses(x *analysis.Explanation) []analysis.LayerLoss {
	list := slices.Clone(x.Layers)
	arrange.Stable(list, func(a, b analysis.LayerLoss) int { return cmp.Compare(b.NSR, a.NSR) })
	return list
}
