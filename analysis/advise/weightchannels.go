package advise

import (
	"fmt"
	"math"
	"slices"

	"qwb/quantizer/tqc"
)

// WeightChannels is about one scale for weights of very different size.
var WeightChannels = &Cause{Name: "weight-channels",
	Doc: "one scale serves all weights of an operator, though they differ much in size from channel to channel", find: weightChannels}

// unlike is how many times the range of the widest channel is that of the middle one before channels count as very different.
const unlike = 4

func weightChannels(f *Facts) []Finding {
	list := worst(f.layers(func(l *layer) bool {
		s := f.weight(l.id)
		return s != nil && s.Config.Policy.Has(tqc.PerTensor) && l.weights > 0.5 && spread(l.WeightRange) >= unlike
	}))
	if len(list) == 0 {
		return nil
	}
	l := list[0]
	out := Finding{Nodes: names(list), Evidence: fmt.Sprintf("%s has one scale for %d channels, the widest is %.0f times the middle one; "+
		"rounding weights makes %.0f %% of its error (NSR %.2g)",
		l.Node, len(l.WeightRange), spread(l.WeightRange), 100*l.weights, l.local)}
	out.Cures = append(out.Cures, Cure{Nodes: ids(list), Words: []string{"per_tensor=false"}},
		Cure{Method: "equalize", Without: f.weights(list), Share: 0.5})
	return []Finding{out}
}

// weights lists the slots of the quantized weights of operators.
func (f *Facts) weights(list []layer) (out []tqc.SlotID) {
	for _, l := range list {
		if s := f.weight(l.id); s != nil {
			out = append(out, s.ID)
		}
	}
	return out
}

// spread is the largest magnitude of all channels over that of the middle one; 0 where there are fewer than two.
func spread(ranges [][2]float32) float64 {
	var sizes []float64
	for _, r := range ranges {
		if m := float64(max(-r[0], r[1])); m > 0 && !math.IsInf(m, 0) {
			sizes = append(sizes, m)
		}
	}
	if len(sizes) < 2 {
		return 0
	}
	slices.Sort(sizes)
	return sizes[len(sizes)-1] / sizes[len(sizes)/2]
}
