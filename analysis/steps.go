package analysis

import (
	"slices"

	"qwb/graph/exec"
)

// Steps is how the error of one output goes on over the steps of sequences, with the states of the quantized network handed from step to
// step beside those of float: what is wrong in a state stays, and may grow.
type Steps struct {
	Output    string `json:"output"`
	Sequences int    `json:"sequences"`
	// Last is the error at the last step of each sequence, Curve that at each step, over the sequences that have it.
	Last  NSR         `json:"last"`
	Curve []StepError `json:"curve"`
}

// StepError is the error at one step, from 1.
type StepError struct {
	Step int `json:"step"`
	NSR
}

// placeOf is where a sample stands in its sequence; of is nil for a sample that is no step.
type placeOf struct {
	of   *exec.Sequence
	step int
}

func placeIn(s *exec.Sample) placeOf { return placeOf{s.Sequence, s.Step} }

// stepsOf makes the curve of each output. losses gives the error of a sample by output; nil leaves the sample out. nil where no sample is a
// step of a sequence of several.
func stepsOf(names []string, places []placeOf, losses func(sample int) []float64) []Steps {
	if !slices.ContainsFunc(places, func(p placeOf) bool { return p.of != nil && p.of.Steps > 1 }) {
		return nil
	}
	list := make([]Steps, len(names))
	for k, name := range names {
		var last []float64
		var at [][]float64
		for i, p := range places {
			x := losses(i)
			if p.of == nil || x == nil {
				continue
			}
			for len(at) <= p.step {
				at = append(at, nil)
			}
			if at[p.step] = append(at[p.step], x[k]); p.step == p.of.Steps-1 {
				last = append(last, x[k])
			}
		}
		list[k] = Steps{Output: name, Sequences: len(last)}
		if len(last) > 0 {
			list[k].Last = NewNSR(NewEstimate(last))
		}
		for step, x := range at {
			if len(x) > 0 {
				list[k].Curve = append(list[k].Curve, StepError{step + 1, NewNSR(NewEstimate(x))})
			}
		}
	}
	return list
}

// WorstSteps is the output with the largest error at the last step, nil where there are no sequences.
func WorstSteps(list []Steps) (worst *Steps) {
	for i := range list {
		if worst == nil || list[i].Last.NSR > worst.Last.NSR {
			worst = &list[i]
		}
	}
	return worst
}
