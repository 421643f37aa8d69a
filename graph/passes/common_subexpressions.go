package passes

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
)

// CommonSubexpressions keeps one of several nodes that compute the same.
var CommonSubexpressions = Pass{
	Name:  "common-subexpressions",
	Doc:   "Keeps one of several deterministic nodes with the same operator, attributes and inputs.",
	sweep: commonSubexpressions,
}

func commonSubexpressions(c *Context) error {
	order, err := c.G.Order()
	if err != nil {
		return err
	}
	first := map[string]graph.NodeID{}
	for _, id := range order {
		key, ok := nodeKey(c.G, id)
		if !ok {
			continue
		}
		kept, seen := first[key]
		if !seen {
			first[key] = id
			continue
		}
		gone := id
		if c.holdsNames(gone) {
			if c.holdsNames(kept) {
				c.declined = append(c.declined, Entry{c.pass, []string{c.G.Node(kept).Name, c.G.Node(gone).Name},
					"both give values whose names are needed"})
				continue
			}
			// The inputs are the same, so the later node can stand in for the earlier one as well.
			kept, gone = gone, kept
			first[key] = kept
		}
		p := &Patch{What: "computed once"}
		p.Drop(gone)
		for i, v := range c.G.Node(gone).Outputs {
			if v != graph.NoValue {
				p.Move(v, c.G.Node(kept).Outputs[i])
			}
		}
		if err := c.apply(p); err != nil {
			return err
		}
	}
	return nil
}

// holdsNames reports whether an output of the node must keep its name.
func (c *Context) holdsNames(id graph.NodeID) bool {
	for _, v := range c.G.Node(id).Outputs {
		if v != graph.NoValue && (c.isOutput(v) || c.G.Captured(v)) {
			return true
		}
	}
	return false
}

// nodeKey is equal for nodes that compute the same; false for nodes that must not be merged.
func nodeKey(g *graph.Graph, id graph.NodeID) (string, bool) {
	n := g.Node(id)
	if !n.IsONNX() || !deterministic(n) || len(n.Inputs) == 0 || len(n.Subgraphs()) > 0 {
		return "", false
	}
	parts := []string{n.Op, n.Overload}
	for _, v := range n.Inputs {
		parts = append(parts, fmt.Sprint(v))
	}
	parts = append(parts, "->")
	for _, v := range n.Outputs {
		parts = append(parts, fmt.Sprint(v == graph.NoValue))
	}
	var attrs []string
	for i := range n.Attrs {
		a := &n.Attrs[i]
		if a.Kind == graph.AttrOpaque || a.RefAttr != "" || a.T != nil || len(a.Tensors) > 0 {
			return "", false
		}
		attrs = append(attrs, fmt.Sprintf("%q %d %b %d %q %b %d %q", a.Name, a.Kind, a.F, a.I, a.S, a.Floats, a.Ints, a.Strings))
	}
	slices.Sort(attrs)
	return strings.Join(append(parts, attrs...), "\x00"), true
}
