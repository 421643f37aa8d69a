package calib

import (
	"slices"

	"qwb/observers"
	"qwb/quantizer/tqc"
)

// Threshold is the range that one method chooses for a tensor.
type Threshold struct {
	Method tqc.Observer
	Range  observers.Range
}

// Thresholds returns the range of every method that serves the tensor under a policy, in the order of observers.All and then of more; for
// reports, which show the methods next to each other.
func Thresholds(st *observers.State, c tqc.Config, more ...*observers.Method) []Threshold {
	var list []Threshold
	for _, m := range slices.Concat(observers.All, more) {
		if r, _, err := m.Range(st, c, 0); err == nil {
			list = append(list, Threshold{m.Name, r})
		}
	}
	return list
}
