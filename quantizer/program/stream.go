package program

import (
	"qwb/graph"
	"qwb/quantizer/lower"
)

// Streams reports whether a step multiplies by weights that are read when it runs, since they do not fit into the memory for work: what
// is made of them is dropped behind it.
func Streams(p *lower.Program, s *lower.Step) bool {
	l, ok := s.Op.(*lower.Linear)
	return ok && l.Weights != nil && !p.Graph.Keeps(l.Weights.Codes)
}

// Forget says of the weights of a step that they are not read for a while.
func Forget(p *lower.Program, s *lower.Step) {
	if Streams(p, s) {
		p.Graph.Forget(s.Op.(*lower.Linear).Weights.Codes)
		p.Graph.Forget(p.Graph.Const(p.Graph.Node(s.Node).Inputs[graph.WeightInput]))
	}
}
