package dispatch

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Who decided: the word before the colon of an entry of Why.
const (
	ByTarget       = "target"       // the target cannot do better
	ByConservative = "conservative" // the rule of this package
	ByCost         = "cost"         // an integer region that would not pay for its borders
	ByUser         = "user"
	BySearch       = "search"
	ByImport       = "import" // the quantized file that the plan was made from
)

// Forced is a set of nodes that have to stay float.
type Forced struct {
	Nodes []graph.NodeID
	Who   string // ByUser or BySearch
	Why   string // the selector, or what the search found; may be empty
}

// Assignment is the domain of every node with the reason.
type Assignment struct {
	Domains []tqc.Domain   // by NodeID
	Why     []string       // by NodeID: "who: reason"
	Fused   []graph.NodeID // by NodeID: the integer node an activation is computed together with, else NoNode

	bound *target.Bound
}

// Assign decides for all nodes of g. Nodes in forced stay float and take with them what cannot be separated from them; where
// sets overlap, the first decides who is named. The graph needs inferred shapes for the costs of borders: regions of unknown
// size are kept.
func Assign(g *graph.Graph, t *target.Target, forced ...Forced) (*Assignment, error) {
	b, err := t.Bind(g)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	return AssignBound(b, forced...), nil
}

// AssignBound is Assign for callers that assign the same graph many times.
func AssignBound(b *target.Bound, forced ...Forced) *Assignment {
	g := b.Graph
	a := &Assignment{Domains: make([]tqc.Domain, g.NumNodes()), Why: make([]string, g.NumNodes()),
		Fused: make([]graph.NodeID, g.NumNodes()), bound: b}
	for i := range a.Fused {
		a.Fused[i] = graph.NoNode
	}
	float := spread(b, forced)
	soi := shapeNodes(b)
	for _, id := range b.Order {
		switch {
		case soi[id]:
			a.Domains[id], a.Why[id] = tqc.DomainSOI, ByConservative+": computes a shape or an index"
		case float[id] != "":
			a.Why[id] = float[id]
		case b.Ops[id] == nil:
			a.Why[id] = ByTarget + ": " + b.Reasons[id]
		default:
			if why := a.obstacle(id); why != "" {
				a.Why[id] = why
				continue
			}
			a.Domains[id], a.Why[id] = tqc.DomainINT8, ByConservative
			if a.fusedWith(id) {
				a.Fused[id] = b.Heads[id]
			}
		}
	}
	a.dropUnprofitable()
	return a
}

// spread returns by NodeID why a node is forced to be float. An activation takes the operator it is fused with along.
func spread(b *target.Bound, forced []Forced) []string {
	why := make([]string, b.Graph.NumNodes())
	for _, f := range forced {
		reason := f.Who
		if f.Why != "" {
			reason += ": " + f.Why
		}
		for _, id := range f.Nodes {
			if why[id] == "" {
				why[id] = reason
			}
			if head := b.Heads[id]; head != graph.NoNode && why[head] == "" {
				why[head] = fmt.Sprintf("%s: goes with %q", f.Who, b.Graph.Node(id).Name)
			}
		}
	}
	return why
}

func (a *Assignment) integer(id graph.NodeID) bool { return a.Domains[id] == tqc.DomainINT8 }

func (a *Assignment) fusedWith(id graph.NodeID) bool {
	return a.bound.Heads[id] != graph.NoNode && a.integer(a.bound.Heads[id])
}

// obstacle returns why node id, which the target could run on integers, stays float: "" if it does not. The nodes before it
// are decided.
func (a *Assignment) obstacle(id graph.NodeID) string {
	b, g := a.bound, a.bound.Graph
	n, op := g.Node(id), b.Ops[id]
	if op.Role == target.Activation {
		if head := b.Heads[id]; head != graph.NoNode {
			if !a.integer(head) {
				return fmt.Sprintf("%s: goes with %q", ByConservative, g.Node(head).Name)
			}
			return ""
		}
		if !op.Alone {
			return fmt.Sprintf("%s: %s fuses it only with an operator before it that nothing else reads", ByTarget, b.Name)
		}
	}
	computed := 0
	for _, i := range b.DataInputs(id) {
		v := n.Input(i)
		if g.Const(v) != nil {
			continue
		}
		computed++
		if p := g.Producer(v); op.Role != target.Weighted && (p == graph.NoNode || !a.integer(p)) {
			return fmt.Sprintf("%s: input %q is float", ByConservative, g.Value(v).Name)
		}
	}
	if computed == 0 {
		return ByConservative + ": no input is computed"
	}
	if op.Role == target.Arithmetic && b.Placement.Residual() {
		if _, _, ok := b.Branches(id, a.integer); !ok {
			return fmt.Sprintf("%s: %s computes it on integers only as the end of a residual branch", ByTarget, b.Name)
		}
	}
	return ""
}
