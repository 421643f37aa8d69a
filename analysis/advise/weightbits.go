package advise

import (
	"fmt"
	"slices"

	"qwb/quantizer/tqc"
)

// WeightBits is about weights of few bits.
var WeightBits = &Cause{Name: "weight-bits", Doc: "the weights of an operator have too few bits", find: weightBits}

func weightBits(f *Facts) []Finding {
	list := worst(f.layers(func(l *layer) bool {
		s := f.weight(l.id)
		return s != nil && s.Config.Bits < 8 && l.weights > 0.5
	}))
	if len(list) == 0 {
		return nil
	}
	l := list[0]
	out := Finding{Nodes: names(list), Evidence: fmt.Sprintf("%s has weights of %d bits; rounding them makes %.0f %% of its error (NSR %.2g)",
		l.Node, f.weight(l.id).Config.Bits, 100*l.weights, l.local)}
	out.Cures = []Cure{{Method: "ridge", Without: f.weights(list), Share: 0.8}}
	for _, s := range f.schemes(list) {
		if bits(s) >= 8 {
			out.Cures = append(out.Cures, Cure{Nodes: ids(list), Words: []string{"weights=" + s.String()}})
			break
		}
	}
	return []Finding{out}
}

// schemes are those that the target has for the weights of all of the operators.
func (f *Facts) schemes(list []layer) []tqc.Scheme {
	out := slices.Clone(f.Target.SchemesOf(list[0].node).Weight)
	for _, l := range list[1:] {
		out = slices.DeleteFunc(out, func(s tqc.Scheme) bool { return !slices.Contains(f.Target.SchemesOf(l.node).Weight, s) })
	}
	return out
}
