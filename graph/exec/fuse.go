package exec

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/ref"
)

// limit is an activation that bounds its input: Relu or Clip.
type limit struct{ lo, hi float32 }

// fusedOps are the operators that can bound their result themselves; true for those that can add to it before.
var fusedOps = map[string]bool{"Conv": true, "MatMul": true, "Gemm": true, "ConvTranspose": false, "Add": false}

// follower is a node whose result the operator before it can compute together with its own.
type follower struct {
	step  int32
	from  graph.ValueID // what it reads of the operator before
	other graph.ValueID // what it adds; NoValue: it limits
	limit limit
}

// findFusions finds for every step the Add, Relu and Clip nodes that follow it and alone read what is between them. In runs
// where nobody looks at those values the operator computes the last one's result at once; the arithmetic is the same.
func (s *sessionState) findFusions() {
	for i := range s.steps {
		st := &s.steps[i]
		adds, ok := fusedOps[st.node.Op]
		if !ok || !st.node.IsONNX() || len(st.node.Outputs) != 1 || st.node.Outputs[0] == graph.NoValue {
			continue
		}
		for v := st.node.Outputs[0]; ; {
			use, sole := s.g.SoleUse(v)
			if !sole {
				break
			}
			n := s.g.Node(use.Node)
			f := follower{step: s.stepOf[use.Node], from: v, other: graph.NoValue}
			if f.step < 0 { // it computes nothing
				break
			}
			if l, ok := s.limitOf(n); ok && use.Index == 0 {
				f.limit = l
				s.steps[f.step].bounded = true
				st.followers = append(st.followers, f)
				break
			}
			if !adds || n.Op != "Add" || !n.IsONNX() || len(n.Inputs) != 2 {
				break
			}
			if f.other = n.Inputs[1-use.Index]; !s.knownBefore(f.other, int32(i)) {
				break
			}
			st.followers = append(st.followers, f)
			v = n.Outputs[0]
		}
	}
}

// knownBefore reports whether v is there when step i runs.
func (s *sessionState) knownBefore(v graph.ValueID, i int32) bool {
	p := s.g.Producer(v)
	return p == graph.NoNode || s.stepOf[p] < i
}

// limitOf returns the bounds of a Relu or Clip whose bounds are constant float32.
func (s *sessionState) limitOf(n *graph.Node) (limit, bool) {
	lo, hi, ok := graph.LimitsOf(n, s.g.Opset(""), s.constant)
	return limit{lo, hi}, ok
}

// open reports whether what the follower reads need not exist: nobody needs it but to look at it.
func (r *runnerState) open(f *follower) bool {
	if r.watched[f.from] || r.apart {
		return false
	}
	for _, v := range r.s.steps[f.step].node.Inputs {
		if v != graph.NoValue && r.hooks.wants(v) {
			return false
		}
	}
	return true
}

// limits returns the bounds that this node is to apply to its result, infinities if none.
func (c *call) limits() (lo, hi float32, any bool) {
	if l := c.run.bounds(c.step, 0); l != nil {
		return l.lo, l.hi, true
	}
	return float32(math.Inf(-1)), float32(math.Inf(1)), false
}

// bounds returns the bounds of a step's follower k, which its result has to keep to from now on; nil if there are none, or if what
// they bound is still to be looked at.
func (r *runnerState) bounds(st *step, k int) *limit {
	if k == len(st.followers) {
		return nil
	}
	f := &st.followers[k]
	if f.other != graph.NoValue || !r.open(f) || r.looks[f.from] && !r.looked[f.from] {
		return nil
	}
	r.absorb(f.step, f.from)
	return &f.limit
}

// epilogue is what follows the sums of this node: the bias, if input 2 is present, what its followers add, and the bounds. The
// sums are all elements of output 0; its last axis, or the channels of a channels-last output, are the columns. From the first
// value on that somebody looks at, it is left to the stages of the step; see shown.
func (c *call) epilogue(layout tensor.Layout, adds bool) kernels.Epilogue {
	var ep kernels.Epilogue
	if c.has(2) {
		ep.Bias = c.in(2).F32()
	}
	c.run.looksAt(c.step)
	k := 0
	for ; adds && k < len(c.step.followers); k++ {
		f := &c.step.followers[k]
		if f.other == graph.NoValue || !c.run.open(f) || !c.adds(&ep, f, layout) {
			break
		}
		c.run.absorb(f.step, f.from)
		c.run.looksAt(&c.run.s.steps[f.step])
	}
	if l := c.run.bounds(c.step, k); l != nil {
		if len(c.run.stages) > 0 {
			c.run.stages = append(c.run.stages, stage{limit: l})
		} else {
			ep.Act, ep.Lo, ep.Hi = kernels.Clip, l.lo, l.hi
		}
		c.run.looksAt(&c.run.s.steps[c.step.followers[k].step])
	}
	return ep
}

// adds lets the epilogue add what the follower adds: a constant with one element per column as the bias, a tensor of the
// output's shape as it is. It returns false if neither fits.
func (c *call) adds(ep *kernels.Epilogue, f *follower, layout tensor.Layout) bool {
	t, shape := c.run.vals[f.other].t, c.outShape(0)
	r, late := c.run, len(c.run.stages) > 0
	if t == nil || t.DType != tensor.Float32 || ep.Add != nil && !late {
		return false
	}
	if slices.Equal(t.Shape, shape) {
		if t.Layout != layout && len(shape) >= 3 {
			t = r.laidOut(f.other, layout).t
		}
		if late {
			r.stages = append(r.stages, stage{add: t.F32()})
		} else {
			ep.Add = t.F32()
		}
		return true
	}
	if r.s.constant(f.other) != t || !IsColumn(t.Shape, shape, layout) || r.s.g.Opset("") < 7 {
		return false
	}
	if late {
		r.stages = append(r.stages, stage{add: t.F32(), row: true})
		return true
	}
	// In float64 a bias is added before the sum is rounded, which a step of its own cannot do.
	if ep.Bias != nil || r.s.table.Arith() == ref.Float64 {
		return false
	}
	ep.Bias = t.F32()
	return true
}

// IsColumn reports whether a tensor that is broadcast to a shape has one element for each of its columns.
func IsColumn(t, shape []int, layout tensor.Layout) bool {
	axis := len(shape) - 1
	if layout == tensor.ChannelsLast && len(shape) > 2 {
		axis = 1
	}
	if len(t) > len(shape) {
		return false
	}
	for i, n := range t {
		if a := len(shape) - len(t) + i; a != axis && n != 1 || a == axis && n != shape[a] {
			return false
		}
	}
	return len(shape)-len(t) <= axis
}
