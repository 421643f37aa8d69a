package advise

import (
	"fmt"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// CoarseGrid is about activations that need more than their bits. Of an operator without products nothing else can be said: its range may
// be that of a number that stands for "not this one", which lies far below all others.
var CoarseGrid = &Cause{Name: "coarse-grid", Doc: "the bits of an operator's activations are too few, with whatever range", find: coarse}

// muchOfAll is the part of the error of all operators that one must make before it is said to need more bits.
const muchOfAll = 0.1

// ofAPart reports whether the operator loses a part of the outputs rather than its result: the error there is far above that at its own
// output, whose figures (clipping, equal channels) say nothing of the part.
func (l *layer) ofAPart() bool { return l.Judged().NSR > 10*l.local }

func coarse(f *Facts) []Finding {
	list := f.layers(func(l *layer) bool {
		return l.share >= muchOfAll && (l.MACs == 0 || l.act > 0.5 && (l.ofAPart() || l.local-l.Clip > l.Clip && f.unequal(l) < unlike))
	})
	if len(list) == 0 {
		return nil
	}
	list = list[:min(len(list), 3)]
	l := list[0]
	out := Finding{Nodes: names(list), Evidence: fmt.Sprintf("rounding activations makes %.0f %% of the error of %s at its own output (NSR "+
		"%.2g), and the operator %.0f %% of the error of all",
		100*l.act, l.Node, l.local, 100*l.share)}
	if l.MACs == 0 || l.ofAPart() {
		out.Evidence = fmt.Sprintf("with the integers of %s (%s) alone the outputs have an NSR of %.2g, %.0f %% of the sum over all operators",
			l.Node, l.Op, l.Judged().NSR, 100*l.share)
	}
	// Where all tensors of an operator have one type, those that read the wide tensors have to be wide too.
	readers, _ := f.around(ids(list), false)
	if wide := f.wide(list); wide != "" {
		out.Cures = append(out.Cures, Cure{Nodes: ids(list), Words: []string{wide}}, Cure{Nodes: readers, Words: []string{wide}})
	}
	region, _ := f.around(ids(list), true) // what it reads is rounded where it is computed
	out.Cures = append(out.Cures, Cure{Nodes: ids(list), Words: []string{"domain=fp32"}}, Cure{Nodes: region, Words: []string{"domain=fp32"}})
	return []Finding{out}
}

// wide is the first scheme of more than eight bits that any of the operators can have for activations, as a decision;
// empty where there is none, or where the target computes it in float, which domain=fp32 does sooner and more exactly.
func (f *Facts) wide(list []layer) string {
	if f.Target.Export.EightBits {
		return ""
	}
	for _, l := range list {
		for _, s := range f.Target.SchemesOf(l.node).Activation {
			if bits(s) > 8 && !s.AtRunTime() {
				return "activations=" + s.String()
			}
		}
	}
	return ""
}

// bits is the width of the integers of a scheme, 0 for one of other numbers.
func bits(s tqc.Scheme) int {
	if s.Type != qmath.Integers {
		return 0
	}
	return s.Bits
}
