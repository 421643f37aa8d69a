package analysis

import (
	"math"
	"slices"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// padding finds the padding of a graph when the first sample that names a mask comes.
type padding struct {
	once  sync.Once
	found *graph.Padding
}

// of is the padding of a sample, nil where there is none.
func (p *padding) of(g *graph.Graph, s *exec.Sample) *graph.Padded {
	if s.Mask == "" {
		return nil
	}
	p.once.Do(func() { p.found, _ = graph.FindPadding(g, s.Mask) }) // a mask that this graph does not have any more hides nothing
	return p.found.Of(g, s.Feeds)
}

// Hide takes the positions of a sample that are padding out of what is judged of its run, not out of the network's own outputs.
func (j *Judge) Hide(v *Verdict, s *exec.Sample) {
	d := j.padding.of(j.g, s)
	if d == nil {
		return
	}
	v.outputs = slices.Clone(v.outputs)
	for k, t := range v.outputs {
		v.outputs[k] = unpadded(d, j.g.Outputs[k], t)
	}
	for k, t := range v.scores {
		if t != nil {
			v.scores[k] = unpadded(d, j.logits[k].value, t)
		}
	}
}

// unpadded is a tensor with -inf where there is padding, which every comparison leaves out where both runs have it; of integers 0, which
// differ from none.
func unpadded(d *graph.Padded, v graph.ValueID, t *tensor.Tensor) *tensor.Tensor {
	if !d.Touches(v) || t == nil {
		return t
	}
	switch x := t.Data.(type) {
	case []float32:
		return d.Filled(v, t, float32(math.Inf(-1)))
	case []int64:
		return zeroed(d, v, t, x)
	case []int32:
		return zeroed(d, v, t, x)
	}
	return t
}

func zeroed[T int32 | int64](d *graph.Padded, v graph.ValueID, t *tensor.Tensor, x []T) *tensor.Tensor {
	data, out := make([]T, len(x)), *t
	_ = d.Real(v, t.Shape, t.Layout, 0, len(x), func(from, to int) error { // it gives back what the function gives: nothing
		copy(data[from:to], x[from:to])
		return nil
	})
	out.Data = data
	return &out
}
