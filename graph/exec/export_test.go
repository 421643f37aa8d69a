package exec

import "qwb/graph"

// NewPoisoned is New with memory that is filled with garbage before it is handed out, so that an operator that reads what it
// did not write is found.
func NewPoisoned(g *graph.Graph, o Options) (*Session, error) {
	return prepare(g, o, true)
}

// Operator names an operator of a domain.
type Operator struct{ Domain, Op string }

// Operators lists the operators of the evaluator table.
func Operators() []Operator {
	var list []Operator
	for _, d := range evalTable {
		for _, e := range d.evals {
			list = append(list, Operator{d.domain, e.op})
		}
	}
	return list
}

// ArenaBytes returns how many bytes of float32 the plan of the last run needs.
func (r *Runner) ArenaBytes() int {
	if len(r.plans) == 0 {
		return 0
	}
	return 4 * len(r.plans[len(r.plans)-1].arena.f32)
}

// Apart reports whether a batch may be run in parts.
func (s *Session) Apart() bool { return s.apart }
