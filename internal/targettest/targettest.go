// Package targettest chooses the targets that suites run on which take long: few of many.
//
// Unstable: it may change without notice.
package targettest

import (
	"fmt"

	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

// Distinct returns as few of the built-in targets as show every profile, place of quantizers, default scheme, alignment and length of
// chains that any of them has, in the order of the catalog: one that brings nothing new of these is left out. Targets of 8-bit floats,
// and those that quantize nothing that arithmetic operators compute, are no part of it: of their plans not all is an integer program. Nor
// are those with an arithmetic of their own, which suites do not find by its name, and those without float, which refuse what has no
// integers.
func Distinct() []*target.Target {
	seen := map[string]bool{}
	var list []*target.Target
	for _, t := range target.Builtin().All {
		if t.Activation.Type != qmath.Integers || t.Placement == target.AllInputs || t.Arithmetic != nil ||
			t.Float == target.FloatAbsent {
			continue
		}
		known := len(seen)
		for _, p := range properties(t) {
			seen[p] = true
		}
		if len(seen) > known {
			list = append(list, t)
		}
	}
	return list
}

func properties(t *target.Target) []string {
	s := t.Defaults()
	list := []string{"profile " + t.Profile, fmt.Sprint("placement ", t.Placement), fmt.Sprint("activation ", s.Activation[0]),
		fmt.Sprint("weight ", s.Weight[0]), fmt.Sprint("float ", t.Float), fmt.Sprint("chain ", t.Chain)}
	if len(s.Bias) > 0 {
		list = append(list, fmt.Sprint("bias ", s.Bias[0]))
	}
	for _, op := range t.Ops {
		if op.Align != target.AlignNone {
			list = append(list, fmt.Sprintf("align %s %t", op.Align, op.Overlap))
		}
	}
	return list
}
