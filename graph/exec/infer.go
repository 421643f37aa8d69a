package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// maxWatched is how many elements of an integer input shape inference may look at.
const maxWatched = 4096

// typeCache is what was inferred for a step and from what. Shapes are inferred anew only when an input differs in type, or
// when inference may look at the elements of an input that is not constant.
type typeCache struct {
	in    []seenInput
	out   []outType
	other []outType // as a step sees it that computes in other types; see typeCache.replaced
	valid bool
}

type seenInput struct {
	dtype tensor.DType
	shape []int
	fixed *tensor.Tensor // the constant that inference saw
}

// inferTypes fills c.typ for step i.
func (r *runnerState) inferTypes(i int, c *call) error {
	cache := &r.types[i]
	if cache.matches(c) {
		c.typ = cache.out
		return nil
	}
	spec := c.node.Spec()
	if spec == nil {
		return fmt.Errorf("the shapes of operator %s are not known", c.node.Op)
	}
	in := make([]graph.InferInput, len(c.ins))
	cache.in = cache.in[:0]
	cacheable := true
	for k, a := range c.ins {
		if a.t == nil {
			cache.in = append(cache.in, seenInput{})
			continue
		}
		in[k] = graph.InferInput{Present: true, DType: a.t.DType, Shape: graph.Static(a.t.Shape...)}
		seen := seenInput{dtype: a.t.DType, shape: slices.Clone(a.t.Shape)}
		if watched(a.t) || a.fixed && !weighs(a.t) && a.t.Layout == tensor.RowMajor && r.s.g.Keeps(a.t) {
			in[k].Tensor = a.t
			if seen.fixed = a.t; !a.fixed {
				cacheable = false
			}
		}
		cache.in = append(cache.in, seen)
	}
	out, err := spec.InferNode(c.node, r.s.g.Opset(c.node.Domain), in)
	if err != nil {
		cache.in, cache.valid = nil, false
		return err
	}
	cache.out, cache.other = make([]outType, len(out)), nil
	for k, o := range out {
		cache.out[k].declared = o.DType
		if shape, known := o.Shape.Ints(); known {
			cache.out[k].dtype, cache.out[k].shape = o.DType, shape
		}
	}
	c.typ = cache.out
	cache.valid = cacheable
	return nil
}

// weighs reports whether t can only be weights, which no inference looks at: a run may have others in their place.
func weighs(t *tensor.Tensor) bool {
	return t.DType == tensor.Float32 && len(t.Shape) > 1 && t.Len() > 8
}

// watched reports whether shape inference may depend on the elements of t: integers, and the few numbers that can be scales
// or limits.
func watched(t *tensor.Tensor) bool {
	switch {
	case t.Layout != tensor.RowMajor:
		return false
	case t.DType.IsInteger() && t.DType.Bits() >= 32 || t.DType == tensor.Bool:
		return t.Len() <= maxWatched
	case t.DType == tensor.Float32:
		return len(t.Shape) <= 1 && t.Len() <= 8
	}
	return false
}

func (cache *typeCache) matches(c *call) bool {
	if !cache.valid || len(cache.in) != len(c.ins) {
		return false
	}
	for k, a := range c.ins {
		seen := &cache.in[k]
		if a.t == nil {
			if seen.shape != nil {
				return false
			}
			continue
		}
		if seen.dtype != a.t.DType || seen.shape == nil || !slices.Equal(seen.shape, a.t.Shape) || seen.fixed != nil && seen.fixed != a.t {
			return false
		}
	}
	return true
}

// MACs returns, by NodeID, the multiply-accumulates that each node took in the run that last computed it; nodes that were not
// run, and operators that do not multiply, have 0.
func (r *Runner) MACs() []int64 {
	macs := make([]int64, r.s.g.NumNodes())
	for i := range r.s.steps {
		n := r.s.steps[i].node
		spec := n.Spec()
		if spec == nil || len(r.types[i].in) == 0 {
			continue
		}
		in := make([]graph.InferInput, len(r.types[i].in))
		for k, seen := range r.types[i].in {
			if seen.dtype != tensor.Undefined {
				in[k] = graph.InferInput{Present: true, DType: seen.dtype, Shape: graph.Static(seen.shape...), Tensor: seen.fixed}
			}
		}
		if count, known, err := spec.CountMACs(n, r.s.g.Opset(n.Domain), in); err == nil && known {
			macs[n.ID] = count / int64(r.part) * int64(r.samples)
		}
	}
	return macs
}
