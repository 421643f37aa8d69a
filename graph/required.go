package graph

import "fmt"

// CheckInputs reports the first node, of g or of a graph inside one of its nodes, that lacks an input which its operator needs in
// every version: a *NodeError that names both. Operators without description are not judged. Who reads Node.Input(i) of a graph
// that passed may rely on the inputs below OpSpec.MinIn.
func (g *Graph) CheckInputs() error {
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.dead {
			continue
		}
		if s := n.Spec(); s != nil {
			for k := range s.MinIn {
				if n.Input(k) == NoValue {
					return g.ErrorAt("", n.ID, missingInput(k))
				}
			}
		}
		for _, sub := range n.Subgraphs() {
			if err := sub.CheckInputs(); err != nil {
				return err
			}
		}
	}
	return nil
}

func missingInput(i int) error { return fmt.Errorf("input %d is missing", i) }
