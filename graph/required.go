package graph

import "fmt"

// CheckInputs reports the first node, of g or of a graph inside one of its nodes, that lacks an input which its operator needs
// in every version. The error is a *NodeError that names the node and the input. Unknown operators are not checked. For a graph
// that passes, every input below OpSpec.MinIn can be read with Node.Input without asking whether it is there.
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
