package onnx

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

const (
	// joinAttr is the attribute of a skeleton node that holds the node's index in the file.
	joinAttr = "qwb.node"
	// maxEdges bounds inputs times outputs of one skeleton node, because onnx-go makes that many edges.
	maxEdges = 4096
)

// topology is a graph without what its nodes are called and mean: its values in the order in which they are met, one operation per node
// of the file, in file order, and which of them computes a value.
type topology struct {
	g               *graph.Graph
	ops             []operation
	producer        map[graph.ValueID]int // index into ops
	inputs, outputs []graph.ValueID
}

// operation is a node: its plain attributes by name (float32, int64, string and slices of them), the values it reads and computes.
type operation struct {
	name            string
	attrs           map[string]any
	inputs, outputs []graph.ValueID
}

// wired is the topology of a graph from what was scanned of it. Values have the order that onnx-go gives them: inputs and outputs of the
// graph; then, of each node, its first output, its inputs, and the other outputs; at last what nodes without outputs read, and the outputs
// of nodes with very many.
func (s *graphScan) wired() (t *topology, err error) {
	t = &topology{g: graph.New("", 0), producer: map[graph.ValueID]int{}}
	if t.inputs, err = t.declare(s.inputs); err != nil {
		return nil, err
	}
	if t.outputs, err = t.declare(s.outputs); err != nil {
		return nil, err
	}
	t.ops = make([]operation, len(s.nodes))
	for i, n := range s.nodes {
		o := &t.ops[i]
		if o.name = n.op; len(n.outputs) > 0 {
			first := n.skeletonOutputs()
			if _, err := t.named(first[0]); err != nil {
				return nil, n.fail(err)
			}
			if err := t.read(o, n.inputs); err != nil {
				return nil, n.fail(err)
			}
			for _, name := range first {
				if err := t.compute(i, name); err != nil {
					return nil, n.fail(err)
				}
			}
		}
		if o.attrs, err = n.plainAttrs(); err != nil {
			return nil, n.fail(err)
		}
	}
	for i, n := range s.nodes {
		o := &t.ops[i]
		if len(n.outputs) == 0 {
			if err := t.read(o, n.inputs); err != nil {
				return nil, n.fail(err)
			}
		}
		for _, name := range n.outputs[len(o.outputs):] {
			if err := t.compute(i, name); err != nil {
				return nil, n.fail(err)
			}
		}
	}
	return t, nil
}

// declare adds the inputs or outputs of a graph.
func (t *topology) declare(infos []infoScan) ([]graph.ValueID, error) {
	var list []graph.ValueID
	for i := range infos {
		if !utf8.ValidString(infos[i].name) { // of a function: those of graphs are checked before
			return nil, fmt.Errorf("name %q of an input or output is not UTF-8", infos[i].name)
		}
		v, err := t.named(infos[i].name)
		if err != nil {
			return nil, err
		}
		if v != graph.NoValue {
			list = append(list, v)
		}
	}
	return list, nil
}

// named returns the value called name, which is added where it is new; the empty name is that of an absent one.
func (t *topology) named(name string) (graph.ValueID, error) {
	if name == "" {
		return graph.NoValue, nil
	}
	if v, known := t.g.Lookup(name); known {
		return v, nil
	}
	return t.g.AddValue(graph.Value{Name: name})
}

// read adds inputs to an operation.
func (t *topology) read(o *operation, names []string) error {
	for _, name := range names {
		v, err := t.named(name)
		if err != nil {
			return err
		}
		o.inputs = append(o.inputs, v)
	}
	return nil
}

// compute adds an output to operation i.
func (t *topology) compute(i int, name string) error {
	v, err := t.named(name)
	if err != nil {
		return err
	}
	if _, twice := t.producer[v]; twice {
		return fmt.Errorf("value %q is computed twice", name)
	}
	if v != graph.NoValue {
		t.producer[v] = i
	}
	t.ops[i].outputs = append(t.ops[i].outputs, v)
	return nil
}

// skeletonOutputs are the outputs that onnx-go gets to see: all but the first are left to join where there are very many.
func (n *nodeScan) skeletonOutputs() []string {
	if len(n.outputs) > 1 && len(n.inputs) > maxEdges/len(n.outputs) {
		return n.outputs[:1]
	}
	return n.outputs
}

// plainAttrs decodes the attributes that are plain.
func (n *nodeScan) plainAttrs() (map[string]any, error) {
	attrs := make(map[string]any, len(n.attrs))
	for i := range n.attrs {
		a := &n.attrs[i]
		if !a.plain() {
			continue
		}
		v, err := a.value()
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", a.name, err)
		}
		attrs[a.name] = v
	}
	return attrs, nil
}

// value decodes a plain attribute. Of several fields with one number or string the last holds.
func (s *attrScan) value() (any, error) {
	c := cursor{}
	var f float32
	var i int64
	var str string
	var floats []float32
	var ints []int64
	texts := []string{}
	for _, c.f = range s.values {
		switch s.kind {
		case graph.AttrFloat:
			f = math.Float32frombits(uint32(c.f.u))
		case graph.AttrInt:
			i = int64(c.f.u)
		case graph.AttrString:
			str = string(c.f.data)
		case graph.AttrStrings:
			texts = append(texts, string(c.f.data))
		case graph.AttrInts:
			if c.ints(&ints); c.err != nil {
				return nil, c.err
			}
		case graph.AttrFloats:
			if c.f.typ == protowire.Fixed32Type {
				floats = append(floats, math.Float32frombits(uint32(c.f.u)))
				continue
			}
			for b := c.f.data; len(b) > 0; b = b[4:] {
				bits, n := protowire.ConsumeFixed32(b)
				if n < 0 {
					return nil, protowire.ParseError(n)
				}
				floats = append(floats, math.Float32frombits(bits))
			}
		}
	}
	switch s.kind {
	case graph.AttrFloat:
		return f, nil
	case graph.AttrInt:
		return i, nil
	case graph.AttrString:
		return str, nil
	case graph.AttrFloats:
		return floats, nil
	case graph.AttrInts:
		return ints, nil
	}
	return texts, nil
}

// attrFrom makes an attribute of a value that was decoded.
func attrFrom(name string, v any) (graph.Attr, error) {
	switch v := v.(type) {
	case float32:
		return graph.Float(name, v), nil
	case int64:
		return graph.Int(name, v), nil
	case string:
		return graph.Str(name, v), nil
	case []float32:
		return graph.Floats(name, v...), nil
	case []int64:
		return graph.Ints(name, v...), nil
	case []string:
		return graph.Attr{Name: name, Kind: graph.AttrStrings, Strings: v}, nil
	}
	return graph.Attr{}, fmt.Errorf("attribute %q has type %T", name, v)
}
