package exec

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
)

// limit is an activation that bounds its input: Relu or Clip.
type limit struct{ lo, hi float32 }

// fusedOps are the operators that can bound their result themselves.
var fusedOps = map[string]bool{"Conv": true, "ConvTranspose": true, "Gemm": true, "MatMul": true, "Add": true}

// findFusions marks pairs of an operator and the Relu or Clip that alone reads it. In runs where nobody looks at the value
// between them the first computes the second's result, which then passes it on; the arithmetic is the same.
func (s *sessionState) findFusions() {
	for i := range s.steps {
		n := s.steps[i].node
		if !fusedOps[n.Op] || n.Domain != "" && n.Domain != "ai.onnx" || len(n.Outputs) != 1 || n.Outputs[0] == graph.NoValue {
			continue
		}
		use, ok := s.g.SoleUse(n.Outputs[0])
		if !ok || use.Index != 0 {
			continue
		}
		if l, ok := s.limitOf(s.g.Node(use.Node)); ok {
			s.steps[i].limit = &l
			s.steps[i].fused = []*graph.Node{s.g.Node(use.Node)}
			s.steps[s.stepOf[use.Node]].passes = true
		}
	}
}

// limitOf returns the bounds of a Relu or Clip whose bounds are constant float32.
func (s *sessionState) limitOf(n *graph.Node) (limit, bool) {
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return limit{}, false
	}
	l := limit{float32(math.Inf(-1)), float32(math.Inf(1))}
	switch {
	case n.Op == "Relu":
		return limit{0, l.hi}, true
	case n.Op == "Clip" && s.g.Opset("") < 11:
		return limit{n.AttrFloat("min", l.lo), n.AttrFloat("max", l.hi)}, true
	case n.Op == "Clip":
		for i, bound := range []*float32{1: &l.lo, 2: &l.hi} {
			v := n.Input(i)
			if bound == nil || v == graph.NoValue {
				continue
			}
			t := s.constant(v)
			if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
				return l, false
			}
			*bound = t.F32()[0]
		}
		return l, true
	}
	return l, false
}

// fuses reports whether a step computes its reader's result in this run.
func (r *runnerState) fuses(st *step) bool { return st.limit != nil && !r.watched[st.node.Outputs[0]] }

// passes reports whether the step before has computed this one's result in this run.
func (r *runnerState) passes(st *step) bool { return st.passes && !r.watched[st.node.Inputs[0]] }

// limits returns the bounds that this node is to apply to its result, infinities if none.
func (c *call) limits() (lo, hi float32, any bool) {
	if !c.run.fuses(c.step) {
		return float32(math.Inf(-1)), float32(math.Inf(1)), false
	}
	return c.step.limit.lo, c.step.limit.hi, true
}

// epilogue is what follows the sums of this node: the bias, if input i is present, and the bounds.
func (c *call) epilogue(i int) kernels.Epilogue {
	var ep kernels.Epilogue
	if c.has(i) {
		ep.Bias = c.in(i).F32()
	}
	if lo, hi, any := c.limits(); any {
		ep.Act, ep.Lo, ep.Hi = kernels.Clip, lo, hi
	}
	return ep
}
