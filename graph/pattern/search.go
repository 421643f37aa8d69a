package pattern

import (
	"qwb/graph"
)

// commutative operators: the order of two inputs does not change what they compute.
var commutative = map[string]bool{"Add": true, "Mul": true, "Sum": true, "Max": true, "Min": true, "Mean": true, "And": true,
	"Or": true, "Xor": true, "Equal": true}

// searcher is the state of one search: bindings, undone on backtracking.
type searcher struct {
	p      *Pattern
	g      *graph.Graph
	strict bool // inner values must be exclusive
	bound  []bool
	values []graph.ValueID // by variable
	nodes  []graph.NodeID  // by statement
}

// goal says that variable v must be the value val (NoValue: an absent input).
type goal struct {
	v   int
	val graph.ValueID
}

func (p *Pattern) search(g *graph.Graph, root graph.NodeID, strict bool) (*Match, bool) {
	if !g.Alive(root) || !p.root().accepts(g.Node(root)) {
		return nil, false
	}
	s := &searcher{p: p, g: g, strict: strict, bound: make([]bool, len(p.vars)), values: make([]graph.ValueID, len(p.vars)),
		nodes: make([]graph.NodeID, len(p.stmts))}
	for i := range s.values {
		s.values[i] = graph.NoValue
	}
	for i := range s.nodes {
		s.nodes[i] = graph.NoNode
	}
	if !s.node(len(p.stmts)-1, root, nil) {
		return nil, false
	}
	return s.match(), true
}

func (s *searcher) match() *Match {
	return &Match{Pattern: s.p, Root: s.nodes[len(s.nodes)-1], Nodes: s.nodes, values: s.values}
}

// solve meets all goals, the last first, and reports success; on failure the bindings are as before.
func (s *searcher) solve(todo []goal) bool {
	if len(todo) == 0 {
		return !s.strict || s.match().exclusive(s.g) == nil
	}
	next := todo[len(todo)-1]
	rest := todo[: len(todo)-1 : len(todo)-1]
	v := &s.p.vars[next.v]
	if s.bound[next.v] {
		return s.values[next.v] == next.val && s.solve(rest)
	}
	switch {
	case next.val == graph.NoValue:
		if !v.optional {
			return false
		}
	case v.stmt >= 0:
		producer := s.g.Producer(next.val)
		if producer == graph.NoNode || !s.p.stmts[v.stmt].accepts(s.g.Node(producer)) || s.taken(producer) {
			return false
		}
		// The node binds its results; the goal that led here is then met if this is the result asked for.
		return s.node(v.stmt, producer, append(rest, next))
	case v.kind != anyValue && !v.admits(s.g.Const(next.val)):
		return false
	}
	s.bound[next.v], s.values[next.v] = true, next.val
	if s.solve(rest) {
		return true
	}
	s.bound[next.v], s.values[next.v] = false, graph.NoValue
	return false
}

func (s *searcher) taken(id graph.NodeID) bool {
	for _, n := range s.nodes {
		if n == id {
			return true
		}
	}
	return false
}

// node binds statement i to node id and meets todo as well.
func (s *searcher) node(i int, id graph.NodeID, todo []goal) bool {
	stmt, n := &s.p.stmts[i], s.g.Node(id)
	if !stmt.fits(n) {
		return false
	}
	var fresh []int
	undo := func() {
		for _, v := range fresh {
			s.bound[v], s.values[v] = false, graph.NoValue
		}
		s.nodes[i] = graph.NoNode
	}
	s.nodes[i] = id
	for k, v := range stmt.outs {
		out := graph.NoValue
		if k < len(n.Outputs) {
			out = n.Outputs[k]
		}
		if s.bound[v] {
			if s.values[v] != out {
				undo()
				return false
			}
			continue
		}
		s.bound[v], s.values[v] = true, out
		fresh = append(fresh, v)
	}
	if s.solve(stmt.goals(n, todo, false)) || stmt.commutes && s.solve(stmt.goals(n, todo, true)) {
		return true
	}
	undo()
	return false
}

// goals appends to todo what the arguments ask of the inputs, so that the first argument is met first.
func (st *statement) goals(n *graph.Node, todo []goal, swapped bool) []goal {
	list := append(make([]goal, 0, len(todo)+len(st.args)), todo...)
	for i := len(st.args) - 1; i >= 0; i-- {
		in := i
		if swapped {
			in = 1 - i
		}
		if st.args[i] != absent {
			list = append(list, goal{st.args[i], n.Input(in)})
		}
	}
	return list
}

// accepts compares the operator only.
func (st *statement) accepts(n *graph.Node) bool {
	for _, o := range st.ops {
		if o.op == n.Op && (o.domain == n.Domain || o.domain == "" && n.Domain == "ai.onnx") {
			return true
		}
	}
	return false
}

// fits compares the number of inputs and the attributes.
func (st *statement) fits(n *graph.Node) bool {
	if !st.variadic {
		for i := len(st.args); i < len(n.Inputs); i++ {
			if n.Inputs[i] != graph.NoValue {
				return false
			}
		}
	}
	for i, a := range st.args {
		if a == absent && n.Input(i) != graph.NoValue {
			return false
		}
	}
	for i := range st.conds {
		if !st.conds[i].holds(n) {
			return false
		}
	}
	return true
}
