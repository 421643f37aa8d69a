package dispatch

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Who decided: the word before the colon of an entry of Why. Beside these it may be the name of a Strategy.
const (
	ByTarget       = "target"       // the target cannot do better
	ByConservative = "conservative" // the default strategy
	ByRule         = "rule"         // what must not be rounded: see target.Bound.Pieces
	ByCost         = "cost"         // an integer region that would not pay for its borders
	ByUser         = "user"
	BySearch       = "search"
	ByImport       = "import" // the quantized file that the plan was made from
)

// Options say how a graph is dispatched. The zero value is what every target means by default.
type Options struct {
	// Strategy is the name of one of Strategies; "" is the first of them.
	Strategy string
	// BorderCost replaces the target's: how many multiply-accumulates have to move to integers to pay for converting one element
	// between float and integer. nil: the target's; 0: regions stay whatever their borders cost. Negative and infinite costs and NaN
	// are errors.
	BorderCost *float64
	// Observed says how many elements a tensor of open size has in a sample, on the mean; false where nothing is known. nil: of none.
	Observed func(graph.ValueID) (int64, bool)
	// Forced are the sets of nodes that somebody decided about.
	Forced []Forced
}

// Assignment is the domain of every node with the reason.
type Assignment struct {
	Strategy string
	Domains  []tqc.Domain   // by NodeID
	Why      []string       // by NodeID: "who: reason"
	Fused    []graph.NodeID // by NodeID: the integer node an activation is computed together with, else NoNode

	bound    *target.Bound
	observed func(graph.ValueID) (int64, bool)
}

// Assign decides for all nodes of g. Forced nodes get their domain and take with them what cannot be separated from them; where
// sets overlap, the first decides who is named, and sets that contradict each other are an error with a Conflict in it. So is a node
// that is forced to integers and that the target cannot compute on them. The graph needs inferred shapes for the costs of borders, and
// Observed where they are open: regions of unknown size are kept.
func Assign(g *graph.Graph, t *target.Target, o Options) (*Assignment, error) {
	b, err := t.Bind(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	return AssignBound(b, o)
}

const stage = "dispatch"

// AssignBound is Assign for callers that assign the same graph many times.
func AssignBound(b *target.Bound, o Options) (*Assignment, error) {
	strategy, err := FindStrategy(o.Strategy)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	cost := b.BorderCost
	if o.BorderCost != nil {
		if cost = *o.BorderCost; math.IsNaN(cost) || math.IsInf(cost, 0) || cost < 0 {
			return nil, fmt.Errorf("%s: a border cannot cost %g multiply-accumulates per element: 0 or more, 0 for no cost", stage, cost)
		}
	}
	n := b.Graph.NumNodes()
	a := &Assignment{Strategy: strategy.Name, Domains: make([]tqc.Domain, n), Why: make([]string, n), Fused: make([]graph.NodeID, n), bound: b,
		observed: o.Observed}
	for i := range a.Fused {
		a.Fused[i] = graph.NoNode
	}
	marks, err := spread(b, o.Forced)
	if err != nil {
		return nil, err
	}
	s := &State{Bound: b, a: a, name: strategy.Name, shapes: shapeNodes(b), marks: marks}
	strategy.Decide(s)
	s.leaveEnds()
	if s.refused != nil {
		return nil, s.refused
	}
	for _, id := range b.Order {
		if a.integer(id) && a.fusedWith(id) {
			a.Fused[id] = b.Heads[id]
		}
	}
	a.dropUnprofitable(cost, marks)
	s.leaveScores()
	return a, nil
}

func (a *Assignment) integer(id graph.NodeID) bool {
	return id != graph.NoNode && a.Domains[id] == tqc.DomainInt
}

func (a *Assignment) fusedWith(id graph.NodeID) bool { return a.integer(a.bound.Heads[id]) }
