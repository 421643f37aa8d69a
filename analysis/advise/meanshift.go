package advise

import (
	"cmp"
	"fmt"

	"qwb/internal/arrange"
)

// MeanShift is about weights whose rounding moves the means of the channels that they compute.
var MeanShift = &Cause{Name: "weight-mean-shift",
	Doc: "rounding the weights moves the mean of an operator's channels, by the same amount for every sample", find: meanShift}

func meanShift(f *Facts) []Finding {
	list := f.layers(func(l *layer) bool { return f.Shifts[l.id] > 0.25*l.local })
	if len(list) == 0 {
		return nil
	}
	// What an operator's shift makes of the error at the outputs: its part of the error at its own output.
	part := func(l *layer) float64 { return l.share * min(1, f.Shifts[l.id]/l.local) }
	arrange.Stable(list, func(a, b layer) int { return cmp.Compare(part(&b), part(&a)) })
	n := len(list)
	list = worst(list)
	l := list[0]
	return []Finding{{Nodes: names(list), Evidence: fmt.Sprintf("in %d of %d operators a quarter or more of the error at their own output "+
		"is a shift of channel means; in %s %.0f %% (NSR %.2g of %.2g)",
		n, len(f.Layers), l.Node, 100*min(1, f.Shifts[l.id]/l.local), min(f.Shifts[l.id], l.local), l.local),
		Cures: []Cure{{Method: "bias", Shift: true}}}}
}
