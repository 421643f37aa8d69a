package graph

import (
	"fmt"
	"strings"

	"qwb/graph/tensor"
)

// Operator is an operator that a program brings along: one of a domain of its own, which this package does not know. Adopt tells a graph
// about it. From then on its nodes are like others: their shapes are inferred, package exec runs them, dispatch and quantization ask its
// sockets. It stays float unless a target has a row "domain::Name" for it; see target.Op.
type Operator struct {
	// OpSpec describes it. Name and Domain are needed, and Infer where anything after it depends on its shape.
	OpSpec
	// Eval computes a node on tensors in row-major layout, nil for inputs that are absent, and returns one for each output; results of
	// nodes that do not name an output are dropped. It must not change or keep what it is given, and has to give the same result for the
	// same inputs. It may be called by several goroutines at once. An error should say what is wrong; the node is named by the caller.
	Eval func(n *Node, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// valid reports what is missing in o.
func (o *Operator) valid() error {
	switch {
	case o.Name == "" || o.Eval == nil:
		return fmt.Errorf("an operator needs a name and a function that computes it")
	case o.Domain == "" || o.Domain == "ai.onnx":
		return fmt.Errorf("operator %s: it needs a domain of its own; ai.onnx has what ONNX says", o.Name)
	case strings.Contains(o.Domain, ":"):
		return fmt.Errorf("operator %s: domain %q has a colon", o.Name, o.Domain)
	case Spec(o.Domain, o.Name) != nil:
		return fmt.Errorf("operator %s of %s is built in", o.Name, o.Domain)
	}
	return nil
}

// CheckOperators reports the first operator that is incomplete, takes the place of a built-in one, or stands twice.
func CheckOperators(list []*Operator) error {
	seen := map[opKey]bool{}
	for _, o := range list {
		if err := o.valid(); err != nil {
			return err
		}
		k := opKey{o.Domain, o.Name}
		if seen[k] {
			return fmt.Errorf("operator %s of %s stands twice", o.Name, o.Domain)
		}
		seen[k] = true
	}
	return nil
}

// Adopt makes the nodes of g and of its subgraphs know the operators of list that they are of. Copies of the graph, and graphs extracted
// from it, know them too. The error is that of CheckOperators.
func (g *Graph) Adopt(list []*Operator) error {
	if err := CheckOperators(list); err != nil {
		return err
	}
	g.adopt(list)
	return nil
}

func (g *Graph) adopt(list []*Operator) {
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, o := range list {
			if o.Domain == n.Domain && o.Name == n.Op {
				n.own = o
			}
		}
		for _, sub := range n.Subgraphs() {
			sub.adopt(list)
		}
	}
}

// Operator returns the operator that was adopted for the node, nil for a built-in or an unknown one.
func (n *Node) Operator() *Operator { return n.own }
