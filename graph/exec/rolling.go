package exec

import (
	"fmt"
	"maps"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Sequence is what steps belong to: samples that are run one after the other, each with the states that the run before left.
type Sequence struct {
	Name   string
	Steps  int
	States []graph.State
}

// Rolling hands the states of one run of a network to the next, as whoever runs it does. The zero value is ready for use, by one
// goroutine for all steps of sequences, and for one way of running one network. Samples that are no steps pass through it unchanged, in any
// goroutine.
type Rolling struct {
	of   *Sequence
	step int // the last one that ran
	last []*tensor.Tensor
}

// Rolls reports whether an input is a state of the sequence that a sample is a step of.
func (s *Sample) Rolls(input string) bool {
	return s.Sequence != nil && slices.ContainsFunc(s.Sequence.States, func(x graph.State) bool { return x.Input == input })
}

// Feeds returns the inputs for a sample: with the states that its own step before left, if that ran last; else as they are, which is what
// the float network left, and at the first step of a sequence what it begins with.
func (r *Rolling) Feeds(s *Sample) map[string]*tensor.Tensor {
	if s.Sequence == nil || s.Sequence != r.of || s.Step != r.step+1 {
		return s.Feeds
	}
	feeds := maps.Clone(s.Feeds)
	for i, state := range s.Sequence.States {
		feeds[state.Input] = r.last[i]
	}
	return feeds
}

// Keep takes the states that a sample's run left; a sample that is no step changes nothing, so that others may run such ones meanwhile.
// outputs are those of g, in its order; they are not written to afterwards.
func (r *Rolling) Keep(g *graph.Graph, s *Sample, outputs []*tensor.Tensor) error {
	if s.Sequence == nil {
		return nil
	}
	r.of, r.step, r.last = s.Sequence, s.Step, make([]*tensor.Tensor, len(s.Sequence.States))
	for i, state := range r.of.States {
		k := slices.IndexFunc(g.Outputs, func(v graph.ValueID) bool { return g.Value(v).Name == state.Output })
		if k < 0 || k >= len(outputs) {
			return fmt.Errorf("state %s: no output of this name was computed", state)
		}
		r.last[i] = outputs[k]
	}
	return nil
}
