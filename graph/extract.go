package graph

import (
	"fmt"
	"maps"
	"slices"
)

// Clone returns a deep copy that shares constant tensors (which are never written to) and keeps all ids.
func (g *Graph) Clone() *Graph {
	c := &Graph{Name: g.Name, Doc: g.Doc, Inputs: append([]ValueID(nil), g.Inputs...),
		Outputs: append([]ValueID(nil), g.Outputs...), Opsets: append([]Opset(nil), g.Opsets...),
		nodes: append([]Node(nil), g.nodes...), values: append([]Value(nil), g.values...),
		byName: maps.Clone(g.byName), nodeByName: maps.Clone(g.nodeByName), suffix: maps.Clone(g.suffix),
		withGraphs: slices.Clone(g.withGraphs), Store: g.Store}
	for i := range c.nodes {
		n := &c.nodes[i]
		n.Inputs = append([]ValueID(nil), n.Inputs...)
		n.Outputs = append([]ValueID(nil), n.Outputs...)
		n.Attrs = cloneAttrs(n.Attrs)
	}
	for i := range c.values {
		c.values[i].uses = append([]Use(nil), c.values[i].uses...)
	}
	return c
}

// cloneAttrs copies attributes and the graphs among them.
func cloneAttrs(attrs []Attr) []Attr {
	attrs = slices.Clone(attrs)
	for k := range attrs {
		a := &attrs[k]
		if a.G != nil {
			a.G = a.G.Clone()
		}
		a.Graphs = slices.Clone(a.Graphs)
		for i, sub := range a.Graphs {
			a.Graphs[i] = sub.Clone()
		}
	}
	return attrs
}

// Extract returns a new graph that computes outputs from inputs: the nodes that lie between them and the constants that these
// read. Nodes stay in the order in which they are stored. Ids are new; names, types and tensors are shared with g. Any value
// may be an input; a constant among the inputs becomes a plain input. It is an error if an output depends on a value that
// cannot be computed from the inputs and constants.
func Extract(g *Graph, inputs, outputs []ValueID) (*Graph, error) {
	needed, err := g.between(inputs, outputs)
	if err != nil {
		return nil, err
	}
	x := &extraction{from: g, to: New(g.Name, 0), ids: make([]ValueID, len(g.values))}
	x.to.Doc, x.to.Opsets = g.Doc, slices.Clone(g.Opsets)
	for i := range x.ids {
		x.ids[i] = NoValue
	}
	for _, v := range inputs {
		if x.ids[v] != NoValue {
			return nil, fmt.Errorf("input %q is given twice", g.values[v].Name)
		}
		x.to.Inputs = append(x.to.Inputs, x.value(v))
		x.to.values[x.ids[v]].Const = nil
	}
	for i := range g.nodes {
		if !needed[i] {
			continue
		}
		for _, name := range g.nodes[i].CapturedNames() {
			if v, ok := g.byName[name]; ok {
				x.value(v)
			}
		}
		if err := x.node(&g.nodes[i], inputs); err != nil {
			return nil, err
		}
	}
	for _, v := range outputs {
		x.to.Outputs = append(x.to.Outputs, x.value(v))
	}
	return x.to, nil
}

type extraction struct {
	from, to *Graph
	ids      []ValueID // by value of from
}

// value returns the counterpart of v, which is made when first asked for.
func (x *extraction) value(v ValueID) ValueID {
	if v == NoValue {
		return NoValue
	}
	if x.ids[v] == NoValue {
		old := &x.from.values[v]
		x.ids[v], _ = x.to.AddValue(Value{Name: old.Name, Doc: old.Doc, DType: old.DType, Shape: old.Shape, Const: old.Const, Outer: old.Outer})
	}
	return x.ids[v]
}

// node copies n. Outputs that are inputs of the new graph are computed under other names, which nobody reads.
func (x *extraction) node(n *Node, inputs []ValueID) error {
	c := *n
	c.Inputs, c.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
	c.Attrs = cloneAttrs(n.Attrs)
	for i, v := range n.Inputs {
		c.Inputs[i] = x.value(v)
	}
	for i, v := range n.Outputs {
		if v != NoValue && slices.Contains(inputs, v) {
			c.Outputs[i] = NoValue
			continue
		}
		c.Outputs[i] = x.value(v)
	}
	_, err := x.to.AddNode(c)
	return err
}

// between marks the nodes that outputs need when inputs are given.
func (g *Graph) between(inputs, outputs []ValueID) ([]bool, error) {
	for _, v := range slices.Concat(inputs, outputs) {
		if err := g.live(v); err != nil {
			return nil, err
		}
	}
	seen := make([]bool, len(g.values))
	for _, v := range inputs {
		seen[v] = true
	}
	needed := make([]bool, len(g.nodes))
	for stack := slices.Clone(outputs); len(stack) > 0; {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if v == NoValue || seen[v] {
			continue
		}
		seen[v] = true
		val := &g.values[v]
		if val.producer == NoNode {
			if val.Const == nil && !val.Outer {
				return nil, fmt.Errorf("value %q is needed, but it is neither given nor computed from what is given", val.Name)
			}
			continue
		}
		if !needed[val.producer] {
			needed[val.producer] = true
			stack = append(stack, g.dependencies(val.producer)...)
		}
	}
	return needed, nil
}
