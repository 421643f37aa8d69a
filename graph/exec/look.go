package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// Piece is consecutive elements of a float32 value in the order in which they lie in memory.
type Piece struct {
	Shape  []int // of the whole value
	Layout tensor.Layout
	From   int // of the value's elements, the first one here
	Data   []float32
}

// What hooks only look at need not stay: it is shown to them in pieces while it is in the cache, and what the operators behind
// make of it overwrites it. So a convolution with its addition and activation is one step, whether or not its sums are looked at.

// stage is what is done to rows of a result after its sums: somebody looks at them, or a follower's work is done.
type stage struct {
	look  *graph.Node // the node whose output 0 the rows are, nil if nobody looks
	add   []float32   // a tensor like the result; of one row where row is set
	row   bool
	limit *limit
}

// looksAt adds a stage in which a step's output is looked at, if somebody does and nobody needs it whole.
func (r *runnerState) looksAt(st *step) {
	if n := r.lookedAt(st); n != nil {
		r.stages = append(r.stages, stage{look: n})
	}
}

// shown returns the function that takes rows of out, which have n elements, through the stages of this step; nil if it has none.
func (c *call) shown(out *tensor.Tensor, n int) func(from, to int) {
	r := c.run
	if len(r.stages) == 0 {
		return nil
	}
	return func(from, to int) { r.show(out, from*n, to*n, n) }
}

// showsEarly reports whether a value is to be shown in pieces as it is computed.
func (r *runnerState) showsEarly(v graph.ValueID) bool {
	return v != graph.NoValue && r.looks[v] && !r.watched[v] && !r.apart
}

// show takes elements [from, to) of out through the stages.
func (r *runnerState) show(out *tensor.Tensor, from, to, n int) {
	data, t := out.F32()[from:to], r.s.table
	for i := range r.stages {
		switch st := &r.stages[i]; {
		case st.look != nil:
			r.showTo(st.look, out, from, data)
		case st.limit != nil:
			t.Limits(data, data, st.limit.lo, st.limit.hi)
		case st.row:
			t.AddRow(data, data, st.add[:n])
		default:
			t.Add(data, data, st.add[from:to])
		}
	}
}

// lookedAt returns the node of a step if its output is to be shown in pieces, which is done from now on, else nil.
func (r *runnerState) lookedAt(st *step) *graph.Node {
	v := st.node.Outputs[0]
	if !r.showsEarly(v) {
		return nil
	}
	r.looked[v] = true
	return st.node
}

// showTo shows data, elements of out from a place on, as output 0 of n, unless that is nil.
func (r *runnerState) showTo(n *graph.Node, out *tensor.Tensor, from int, data []float32) {
	if n != nil {
		r.hooks.Look(n, 0, Piece{out.Shape, out.Layout, from, data})
	}
}

// rowLen is the length of the axis whose elements are neighbours in memory, at least 1.
func rowLen(t *tensor.Tensor) int {
	axes := t.MemoryAxes()
	if len(axes) == 0 {
		return 1
	}
	return max(1, t.Shape[axes[len(axes)-1]])
}

// showWhole shows output i of a step to those who look at it and have not seen it in pieces, and tells them that this was all.
func (r *runnerState) showWhole(n *graph.Node, i int, t *tensor.Tensor) error {
	v := n.Outputs[i]
	if v == graph.NoValue || !r.looks[v] || t.DType != tensor.Float32 {
		return nil
	}
	if !r.looked[v] {
		r.looked[v] = true
		r.hooks.Look(n, i, Piece{t.Shape, t.Layout, 0, t.F32()})
	}
	if r.hooks.Looked == nil {
		return nil
	}
	return r.hooks.Looked(n, i)
}
