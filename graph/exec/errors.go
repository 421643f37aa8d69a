package exec

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/internal/arrange"
)

// UnsupportedOp is one operator (or one version or form of it) that a graph needs and the executor does not have.
type UnsupportedOp struct {
	Op      string
	Domain  string // "" is ai.onnx
	Version int64  // of the domain, as the graph imports it; 0 if it does not
	Reason  string // "" if the operator is unknown altogether, else what about it is not supported
	Nodes   []string
}

// UnsupportedError lists everything in a graph that cannot be executed.
type UnsupportedError struct {
	Ops []UnsupportedOp // sorted by domain, operator and reason
}

// Error names every operator with its domain, version, the number of nodes and the first three of them.
func (e *UnsupportedError) Error() string {
	var b strings.Builder
	b.WriteString("graph cannot be executed: ")
	for i, op := range e.Ops {
		if i > 0 {
			b.WriteString("; ")
		}
		domain := op.Domain
		if domain == "" {
			domain = "ai.onnx"
		}
		fmt.Fprintf(&b, "%s (%s %d, %d nodes: ", op.Op, domain, op.Version, len(op.Nodes))
		for k, n := range op.Nodes {
			if k == 3 {
				b.WriteString(", ...")
				break
			}
			if k > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%q", n)
		}
		b.WriteString(")")
		if op.Reason != "" {
			b.WriteString(": " + op.Reason)
		} else if op.Domain != "" {
			fmt.Fprintf(&b, ": unknown; give a program: --op %s::%s=COMMAND (docs/operators.md)", op.Domain, op.Op)
		}
	}
	return b.String()
}

// add records that node n of g cannot be executed.
func (e *UnsupportedError) add(g *graph.Graph, n *graph.Node, reason string) {
	e.merge(UnsupportedOp{Op: n.Op, Domain: n.Domain, Version: g.Opset(n.Domain), Reason: reason, Nodes: []string{n.Name}})
}

func (e *UnsupportedError) merge(op UnsupportedOp) {
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Op == op.Op && o.Domain == op.Domain && o.Version == op.Version && o.Reason == op.Reason {
			o.Nodes = append(o.Nodes, op.Nodes...)
			return
		}
	}
	e.Ops = append(e.Ops, op)
}

func (e *UnsupportedError) sort() {
	arrange.Stable(e.Ops, func(a, b UnsupportedOp) int {
		if c := strings.Compare(a.Domain, b.Domain); c != 0 {
			return c
		}
		if c := strings.Compare(a.Op, b.Op); c != 0 {
			return c
		}
		return strings.Compare(a.Reason, b.Reason)
	})
}
