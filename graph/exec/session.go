package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// sessionState is what a session prepares once.
type sessionState struct {
	g     *graph.Graph
	opt   Options
	steps []step
	// stepOf is the position of each node in steps, -1 for removed nodes and those that compute nothing.
	stepOf []int32
	// lastUse is, by value, the last step that reads it: len(steps) for graph outputs, -1 where nobody does.
	lastUse []int32
	seats   map[graph.ValueID]seat // of values that may be written into the output of a Concat
	apart   bool                   // the samples of a batch may be run apart
	outers  []graph.ValueID        // values of enclosing graphs, in a subgraph
	// folded holds, by value, what nodes compute whose inputs are all constants. It is used where no hook asks to see them.
	folded      []*tensor.Tensor
	foldedBytes int64   // with those of subgraphs
	birth       []int32 // by value, the step that computes it, -1 for inputs and constants
	par         kernels.Parallel
	table       *kernels.Table
	products    sharedProducts
	poison      bool // fill memory with garbage before it is handed out, for tests
}

// step is one node in order of execution.
type step struct {
	node      *graph.Node
	eval      evalFunc
	plain     evalFunc        // for element types that eval does not know, nil if there are none; see plainEvals
	moves     bool            // it takes and gives elements of every type as they are
	reads     []graph.ValueID // values that it and its subgraphs read
	dies      []graph.ValueID // values that nobody reads after this step
	isConst   bool            // all outputs are in folded
	join      *joinInfo       // of a Concat of channels whose inputs may be written into its output
	followers []follower      // the steps that this one can compute as well, in order; see findFusions
	bounded   bool            // a follower of the step before, whose result it bounds
	element   *element        // what it computes of each element, nil if it is not elementwise
	more      bool            // the next step is a product of the same input; see findTogether
	next      *step           // the one that may follow it in a chain, nil if none; see findChains
	carrier   int             // the input that a chain comes in at
	packs     packCache
	subs      map[*graph.Graph]*Session // of the graphs among the node's attributes
}

func (st *step) add(g *graph.Graph, s *Session) {
	if st.subs == nil {
		st.subs = map[*graph.Graph]*Session{}
	}
	st.subs[g] = s
}

func newSession(g *graph.Graph, o Options) (*Session, error) { return prepare(g, o, false) }

// prepare is New; poison fills memory with garbage before it is handed out.
func prepare(g *graph.Graph, o Options, poison bool) (*Session, error) {
	if err := g.CheckInputs(); err != nil {
		return nil, fmt.Errorf("execute: %w", err)
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	order = together(g, slices.DeleteFunc(order, func(id graph.NodeID) bool { return !computes(g.Node(id)) }))
	if o.Memory <= 0 {
		o.constants = 1 + constantBytes(g)
	}
	s := &Session{sessionState{g: g, opt: o, steps: make([]step, len(order)), par: o.Parallel, poison: poison}}
	if s.par == nil {
		s.par = parallelFunc(o.Threads)
	}
	if s.table = kernels.Select(cpu.Detect()); o.Float64 {
		s.table = kernels.Float64()
	}
	if err := s.build(order); err != nil {
		return nil, err
	}
	s.findLives(order)
	if err := s.fold(); err != nil {
		return nil, err
	}
	s.findFusions()
	s.findJoins()
	s.findChains()
	s.findSamples()
	s.findTogether()
	return s, nil
}

// computes reports whether anything is known by a name once n has run: a node without outputs, or with absent ones only, is not run.
func computes(n *graph.Node) bool {
	return slices.ContainsFunc(n.Outputs, func(v graph.ValueID) bool { return v != graph.NoValue })
}

// build makes the steps, and reports everything that cannot be executed at once.
func (s *sessionState) build(order []graph.NodeID) error {
	var bad UnsupportedError
	var err error
	for i, id := range order {
		n := s.g.Node(id)
		s.steps[i].node = n
		if own := n.Operator(); own != nil {
			s.steps[i].eval = ownEvaluator(own)
			continue
		}
		ev := findEvaluator(n.Domain, n.Op)
		if ev == nil {
			bad.add(s.g, n, "")
			continue
		}
		if s.steps[i].eval, err = ev.build(n, s.g.Opset(n.Domain)); err != nil {
			bad.add(s.g, n, err.Error())
			continue
		}
		if ev := findPlain(n); ev != nil {
			if s.steps[i].plain, err = ev.build(n, s.g.Opset(n.Domain)); err != nil {
				bad.add(s.g, n, err.Error())
				continue
			}
		}
		s.steps[i].moves = movesElements(n)
		for _, sub := range n.Subgraphs() {
			opt := s.opt
			opt.Memory = max(1, s.limit()-s.foldedBytes)
			inner, err := prepare(sub, opt, s.poison)
			var more *UnsupportedError
			switch {
			case errors.As(err, &more):
				for _, op := range more.Ops {
					bad.merge(op)
				}
			case err != nil:
				return s.g.ErrorAt("execute", n.ID, err)
			default:
				s.steps[i].add(sub, inner)
				s.foldedBytes += inner.foldedBytes
			}
		}
	}
	if len(bad.Ops) > 0 {
		bad.sort()
		return &bad
	}
	return nil
}

// findLives fills stepOf, lastUse and what dies at each step.
func (s *sessionState) findLives(order []graph.NodeID) {
	s.stepOf = make([]int32, s.g.NumNodes())
	s.lastUse = make([]int32, s.g.NumValues())
	fill(s.stepOf, -1)
	fill(s.lastUse, -1)
	for i, id := range order {
		s.stepOf[id] = int32(i)
		s.steps[i].reads = s.reads(s.steps[i].node)
		for _, v := range s.steps[i].reads {
			s.lastUse[v] = int32(i)
		}
	}
	for _, v := range s.g.Values() {
		if s.g.Value(v).Outer {
			s.outers = append(s.outers, v)
		}
	}
	for _, v := range s.g.Outputs {
		s.lastUse[v] = int32(len(order))
	}
	for i := range s.steps {
		n := s.steps[i].node
		for _, v := range s.steps[i].reads {
			if s.lastUse[v] == int32(i) && !slices.Contains(s.steps[i].dies, v) {
				s.steps[i].dies = append(s.steps[i].dies, v)
			}
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && s.lastUse[v] == -1 {
				s.steps[i].dies = append(s.steps[i].dies, v)
			}
		}
	}
}

// reads lists the values that a node reads: its inputs and what its subgraphs capture.
func (s *sessionState) reads(n *graph.Node) []graph.ValueID {
	var list []graph.ValueID
	for _, v := range n.Inputs {
		if v != graph.NoValue {
			list = append(list, v)
		}
	}
	for _, sub := range n.Subgraphs() {
		for _, name := range sub.CapturedNames() {
			if v, ok := s.g.Lookup(name); ok {
				list = append(list, v)
			}
		}
	}
	return list
}

// fold computes every node whose inputs are all constants. A constant that a caller may feed is not one.
func (s *Session) fold() error {
	s.folded = make([]*tensor.Tensor, s.g.NumValues())
	r := newRunner(s)
	ctx := s.opt.Context
	if ctx == nil {
		ctx = context.Background()
	}
	for i := range s.steps {
		st := &s.steps[i]
		if !s.foldable(st.node) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r.nview = 0
		r.mem = memory{poison: s.poison, budget: budget{limit: s.limit() - s.foldedBytes, single: s.single(0)}}
		for _, v := range st.node.Inputs {
			if v != graph.NoValue {
				r.vals[v] = handle{t: s.constant(v), buf: noBuf, fixed: true}
			}
		}
		r.mem.begin(0)
		if err := r.step(ctx, i, nil); err != nil {
			return err
		}
		st.isConst = true
		for _, v := range st.node.Outputs {
			if v != graph.NoValue {
				t := r.vals[v].t.ToRowMajor()
				s.folded[v] = s.g.Stored(&tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: t.Data}) // views are reused
				if s.g.Store == nil || !s.g.Store.Holds(s.folded[v]) {
					s.foldedBytes += storageBytes(t.DType, t.Len())
				}
			}
		}
		s.forget(st)
		for _, v := range slices.Concat(st.node.Inputs, st.node.Outputs) {
			if v != graph.NoValue {
				r.vals[v], r.alt[v] = handle{}, handle{}
			}
		}
	}
	return nil
}

// forget says of the constants that a step has read that they are not read for a while.
func (s *sessionState) forget(st *step) {
	for _, v := range st.node.Inputs {
		if v != graph.NoValue && s.g.Store != nil {
			s.g.Forget(s.constant(v))
		}
	}
}

func (s *sessionState) foldable(n *graph.Node) bool {
	if randomOps[n.Op] || len(n.Subgraphs()) > 0 {
		return false
	}
	for _, v := range n.Inputs {
		if v != graph.NoValue && s.constant(v) == nil {
			return false
		}
	}
	return true
}

// randomOps give another result at every call and are never folded.
var randomOps = map[string]bool{"RandomNormal": true, "RandomUniform": true, "RandomNormalLike": true, "RandomUniformLike": true,
	"Multinomial": true, "Bernoulli": true}

// constant returns the tensor of v if it is the same in every run, else nil.
func (s *sessionState) constant(v graph.ValueID) *tensor.Tensor {
	if c := s.g.Const(v); c != nil && !s.g.IsInput(v) {
		return c
	}
	return s.folded[v]
}
