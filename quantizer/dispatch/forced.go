package dispatch

import (
	"fmt"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Forced is a set of nodes that somebody decided about.
type Forced struct {
	Nodes []graph.NodeID
	Who   string // ByUser, BySearch or ByImport
	Why   string // the selector, or what the search found; may be empty
	// Domain is where the nodes run: float (the zero value), float of another precision, or integers. Integers stay against the strategy, the
	// neighbours and the cost of borders.
	Domain tqc.Domain
}

// Conflict is the error of two forced nodes that the target computes together, or of one node, in different domains.
type Conflict struct {
	Integer, Float graph.NodeID // the nodes as they were forced; they may be the same
	text           string
}

func (c *Conflict) Error() string { return c.text }

// mark is what somebody decided about a node, directly or by deciding about one that cannot be separated from it.
type mark struct {
	forced bool
	domain tqc.Domain
	why    string       // "who: reason"
	cause  graph.NodeID // the node that was named
}

// spread returns by NodeID what is forced. An activation takes the operator it is fused with along.
func spread(b *target.Bound, forced []Forced) ([]mark, error) {
	g := b.Graph
	marks := make([]mark, g.NumNodes())
	put := func(id graph.NodeID, m mark) error {
		switch old := marks[id]; {
		case !old.forced, old.domain.Float() && m.domain.Float() && old.cause != id && m.cause == id:
			marks[id] = m
		case old.domain == m.domain, old.domain.Float() && m.domain.Float(): // one float precision beside another
		default:
			return g.ErrorAt(stage, id, conflict(g, id, old, m))
		}
		return nil
	}
	for _, f := range forced {
		if !f.Domain.Float() && f.Domain != tqc.DomainInt {
			return nil, fmt.Errorf("%s: nodes cannot be forced to %s, only to float or to integers", stage, f.Domain)
		}
		reason := f.Who
		if f.Why != "" {
			reason += ": " + f.Why
		}
		for _, id := range f.Nodes {
			if err := put(id, mark{true, f.Domain, reason, id}); err != nil {
				return nil, err
			}
			if head := b.Heads[id]; head != graph.NoNode {
				with := fmt.Sprintf("%s: goes with %q", f.Who, g.Node(id).Name)
				if err := put(head, mark{true, f.Domain, with, id}); err != nil {
					return nil, err
				}
			}
		}
	}
	return marks, nil
}

// conflict describes two marks of node id that contradict each other.
func conflict(g *graph.Graph, id graph.NodeID, a, b mark) *Conflict {
	if a.domain.Float() {
		a, b = b, a
	}
	c := &Conflict{Integer: a.cause, Float: b.cause}
	i, f := g.Node(a.cause).Name, g.Node(b.cause).Name
	switch {
	case i == f:
		c.text = fmt.Sprintf("forced to integers (%s) and to float (%s)", a.why, b.why)
	case a.cause == id || b.cause == id:
		c.text = fmt.Sprintf("%q is forced to integers and %q to float, but the target computes the two together", i, f)
	default:
		c.text = fmt.Sprintf("%q is forced to integers and %q to float, but the target computes both together with %q", i, f, g.Node(id).Name)
	}
	return c
}
