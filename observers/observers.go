package observers

import (
	"qwb/quantizer/tqc"
)

// Range is what a method decided: values outside [Lo, Hi] are clipped. Lo <= 0 <= Hi does not have to hold; qmath widens.
type Range struct {
	Lo, Hi float64
}

// Warning tells something about a range that the user should know (did, but ...).
type Warning struct {
	Text string
}

// Method turns the statistics of one tensor into a range for a policy. Methods are values, listed in All.
type Method struct {
	Name tqc.Observer
	Doc  string // one line
	// Range never writes to st. cfg is the slot's policy. It fails on statistics that contain NaN or are empty.
	Range func(st *State, cfg tqc.Config) (Range, []Warning, error)
}

// All lists the methods in the order of simplicity, simplest first; automatic choice prefers earlier ones on a tie.
// A test holds it equal to tqc.Observers as a set.
var All = []*Method{MinMax, Percentile, MSE, KL, Isotone}

// Find returns the method with this name, nil if there is none.
func Find(name tqc.Observer) *Method {
	for _, m := range All {
		if m.Name == name {
			return m
		}
	}
	return nil
}
