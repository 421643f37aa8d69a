package onnx

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// loader builds graphs out of what was scanned.
type loader struct {
	dec      *decoder
	warnings []graph.Warning
}

// scope is the graph that a nested graph lies in: it may read that graph's values by name.
type scope struct {
	g     *graph.Graph
	outer *scope
	depth int
}

// find returns the value that name stands for in the nearest enclosing graph.
func (sc *scope) find(name string) *graph.Value {
	for ; sc != nil; sc = sc.outer {
		if id, ok := sc.g.Lookup(name); ok {
			return sc.g.Value(id)
		}
	}
	return nil
}

// subgraph builds a graph that is an attribute of a node in sc.
func (l *loader) subgraph(b []byte, sc *scope) (*graph.Graph, error) {
	if sc.depth >= maxDepth {
		return nil, fmt.Errorf("graphs are nested more than %d deep", maxDepth)
	}
	s, err := scanGraph(b)
	if err != nil {
		return nil, err
	}
	return l.build(s, sc.g.Opsets, sc)
}

// build makes a graph of a scanned one. outer is nil for the main graph and for functions.
func (l *loader) build(s *graphScan, opsets []graph.Opset, outer *scope) (*graph.Graph, error) {
	b, err := s.topology()
	if err != nil {
		return nil, err
	}
	g, inputs, outputs := b.g, b.inputs, b.outputs
	g.Name, g.Doc, g.Opsets = s.name, s.doc, opsets
	if err := l.constants(b, s); err != nil {
		return nil, err
	}
	for _, list := range [][]infoScan{s.inputs, s.outputs, s.infos} {
		for i := range list {
			if id, ok := g.Lookup(list[i].name); ok {
				list[i].describe(g.Value(id))
			}
		}
	}
	d := definitions{g: g, producer: b.producer, inputs: make(map[graph.ValueID]bool, len(inputs)), outer: outer}
	for _, v := range inputs {
		if _, computed := b.producer[v]; computed || d.inputs[v] {
			return nil, fmt.Errorf("graph input %q is defined twice", g.Value(v).Name)
		}
		d.inputs[v] = true
	}
	sc := &scope{g: g, outer: outer, depth: 1}
	if outer != nil {
		sc.depth = outer.depth + 1
	}
	for i, n := range s.nodes {
		o := &b.ops[i]
		for k, v := range o.inputs {
			if err := d.capture(v); err != nil {
				return nil, n.fail(fmt.Errorf("input %d: %w", k, err))
			}
		}
		node := graph.Node{Name: n.unique, Op: n.op, Domain: n.domain, Doc: n.doc, Overload: n.overload, Inputs: o.inputs,
			Outputs: o.outputs}
		if node.Attrs, err = l.attrs(n, sc); err != nil {
			return nil, n.fail(err)
		}
		if _, err := g.AddNode(node); err != nil {
			return nil, n.fail(err)
		}
	}
	for _, v := range outputs {
		if err := d.capture(v); err != nil {
			return nil, fmt.Errorf("graph output: %w", err)
		}
	}
	g.Inputs, g.Outputs = inputs, outputs
	if k := len(s.renamed); k > 0 {
		l.warnings = append(l.warnings, graph.Warning{Node: s.renamed[0].unique,
			Text: fmt.Sprintf("%d nodes had the name of another node and got one of their own, the first of them %q (%s)",
				k, s.renamed[0].name, s.renamed[0].op)})
	}
	return g, g.Check()
}

// constants gives the values that initializers define their tensors.
func (l *loader) constants(b *topology, s *graphScan) error {
	define := func(name string, t *tensor.Tensor, err error) error {
		if err != nil {
			return fmt.Errorf("initializer %q: %w", name, err)
		}
		v, err := b.named(name)
		if err != nil {
			return err
		}
		if _, computed := b.producer[v]; computed || b.g.Const(v) != nil {
			return fmt.Errorf("initializer %q is defined twice", name)
		}
		b.g.SetConst(v, t)
		return nil
	}
	for _, p := range s.tensors {
		t, err := l.dec.tensor(p)
		if err := define(p.name, t, err); err != nil {
			return err
		}
	}
	for _, p := range s.sparse {
		t, err := l.dec.sparse(p)
		if err := define(p.values.name, t, err); err != nil {
			return err
		}
	}
	return nil
}

// attrs decodes the attributes of a node.
func (l *loader) attrs(n *nodeScan, sc *scope) ([]graph.Attr, error) {
	if len(n.attrs) == 0 {
		return nil, nil
	}
	list := make([]graph.Attr, len(n.attrs))
	for i := range n.attrs {
		var err error
		if list[i], err = l.attr(&n.attrs[i], sc); err != nil {
			return nil, fmt.Errorf("attribute %q: %w", n.attrs[i].name, err)
		}
	}
	return list, nil
}

// definitions answers where the values of a graph under construction come from.
type definitions struct {
	g        *graph.Graph
	producer map[graph.ValueID]int
	inputs   map[graph.ValueID]bool
	outer    *scope
}

// capture marks a value that this graph reads but does not define as one of an enclosing graph.
func (d *definitions) capture(v graph.ValueID) error {
	if v == graph.NoValue {
		return nil
	}
	val := d.g.Value(v)
	if _, computed := d.producer[v]; computed || val.Const != nil || d.inputs[v] || val.Outer {
		return nil
	}
	from := d.outer.find(val.Name)
	if from == nil {
		return fmt.Errorf("value %q is read but never defined", val.Name)
	}
	val.Outer = true
	if val.DType == tensor.Undefined {
		val.DType = from.DType
	}
	if val.Shape == nil {
		val.Shape = from.Shape
	}
	return nil
}
