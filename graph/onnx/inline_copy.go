package onnx

import (
	"fmt"

	"qwb/graph"
)

// copier copies the body of a function into the graph of a call. Every name gets the call's prefix, but for inputs and outputs.
type copier struct {
	to     *graph.Graph
	prefix string
	attrs  map[string]*graph.Attr
	names  map[string]graph.ValueID // by name in the function: the value of to that it stands for, NoValue for an absent input
}

// body copies the nodes of a function.
func (c *copier) body(from *graph.Graph) error {
	ids := make(map[graph.ValueID]graph.ValueID, from.NumValues())
	for _, v := range from.Values() {
		val := from.Value(v)
		if to, known := c.names[val.Name]; known {
			ids[v] = to
			continue
		}
		to, err := c.to.AddValue(c.value(val))
		if err != nil {
			return err
		}
		ids[v], c.names[val.Name] = to, to
	}
	for _, id := range from.Nodes() {
		n, err := c.node(from.Node(id), ids, nil)
		if err != nil {
			return err
		}
		if _, err := c.to.AddNode(n); err != nil {
			return err
		}
	}
	return nil
}

// value is what the model gets for a value of the function. The names of its open dimensions are the function's own.
func (c *copier) value(v *graph.Value) graph.Value {
	out := graph.Value{Name: c.prefix + v.Name, Doc: v.Doc, DType: v.DType, Const: v.Const, Outer: v.Outer}
	if v.Shape != nil {
		out.Shape = make(graph.Shape, len(v.Shape))
		for i, d := range v.Shape {
			out.Shape[i] = graph.Dim{N: d.N}
		}
	}
	return out
}

// node is n with the values ids stands for and the attributes of the call in the place of those of the function.
func (c *copier) node(n *graph.Node, ids map[graph.ValueID]graph.ValueID, sc *nestScope) (graph.Node, error) {
	out := graph.Node{Name: c.prefix + n.Name, Op: n.Op, Domain: n.Domain, Doc: n.Doc, Overload: n.Overload}
	for _, v := range n.Inputs {
		out.Inputs = append(out.Inputs, mapped(ids, v))
	}
	for k := len(out.Inputs); k > 0 && out.Inputs[k-1] == graph.NoValue; k-- {
		out.Inputs = out.Inputs[:k-1]
	}
	for _, v := range n.Outputs {
		out.Outputs = append(out.Outputs, mapped(ids, v))
	}
	for i := range n.Attrs {
		a, given, err := c.attr(n.Attrs[i], sc)
		if err != nil {
			return out, fmt.Errorf("node %q (%s): attribute %q: %w", n.Name, n.Op, a.Name, err)
		}
		if given {
			out.Attrs = append(out.Attrs, a)
		}
	}
	return out, nil
}

func mapped(ids map[graph.ValueID]graph.ValueID, v graph.ValueID) graph.ValueID {
	if v == graph.NoValue {
		return v
	}
	return ids[v]
}

// attr resolves a, and copies graphs in it. One that refers to an attribute that the call does not give is left out.
func (c *copier) attr(a graph.Attr, sc *nestScope) (graph.Attr, bool, error) {
	if a.RefAttr != "" {
		arg := c.attrs[a.RefAttr]
		if arg == nil {
			return a, false, nil
		}
		if arg.Kind != a.Kind && a.Kind != graph.AttrOpaque && arg.RefAttr == "" {
			return a, false, fmt.Errorf("it refers to %q, which the call gives in another type", a.RefAttr)
		}
		name := a.Name
		a = *arg // graphs that a call gives are the caller's: they read the caller's values
		a.Name = name
		if a.G != nil {
			a.G = a.G.Clone()
		}
		return a, true, nil
	}
	var err error
	if a.G != nil {
		if a.G, err = c.nested(a.G, sc); err != nil {
			return a, false, err
		}
	}
	graphs := a.Graphs
	a.Graphs = nil
	for _, g := range graphs {
		g, err := c.nested(g, sc)
		if err != nil {
			return a, false, err
		}
		a.Graphs = append(a.Graphs, g)
	}
	return a, true, nil
}

// nestScope is the names that the graphs around a nested one define inside of the function.
type nestScope struct {
	names map[string]bool
	outer *nestScope
}

func (sc *nestScope) has(name string) bool {
	for ; sc != nil; sc = sc.outer {
		if sc.names[name] {
			return true
		}
	}
	return false
}

// nested copies a graph among the attributes of a node of the function.
func (c *copier) nested(from *graph.Graph, outer *nestScope) (*graph.Graph, error) {
	to := graph.New(from.Name, 0)
	to.Doc, to.Opsets = from.Doc, c.to.Opsets
	sc := &nestScope{names: map[string]bool{}, outer: outer}
	ids := make(map[graph.ValueID]graph.ValueID, from.NumValues())
	for _, v := range from.Values() {
		val := from.Value(v)
		added := c.value(val)
		if !val.Outer {
			sc.names[val.Name] = true
		} else if at, known := c.names[val.Name]; known && !outer.has(val.Name) {
			if at == graph.NoValue {
				ids[v] = graph.NoValue
				continue
			}
			added.Name = c.to.Value(at).Name
		}
		if same, known := to.Lookup(added.Name); known { // a call may give one value twice
			ids[v] = same
			continue
		}
		id, err := to.AddValue(added)
		if err != nil {
			return nil, err
		}
		ids[v] = id
	}
	for _, id := range from.Nodes() {
		n, err := c.node(from.Node(id), ids, sc)
		if err != nil {
			return nil, err
		}
		if _, err := to.AddNode(n); err != nil {
			return nil, err
		}
	}
	for _, v := range from.Inputs {
		to.Inputs = append(to.Inputs, ids[v])
	}
	for _, v := range from.Outputs {
		if ids[v] == graph.NoValue {
			return nil, errNoOutput
		}
		to.Outputs = append(to.Outputs, ids[v])
	}
	return to, nil
}
