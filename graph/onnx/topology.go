package onnx

import (
	"fmt"
	"unicode/utf8"

	"qwb/graph"
)

// topology is a graph without what its nodes are called and mean: its values in the order in which they are met, one operation per node
// of the file, in file order, and which of them computes a value.
type topology struct {
	g               *graph.Graph
	ops             []operation
	producer        map[graph.ValueID]int // index into ops
	inputs, outputs []graph.ValueID
}

// operation is the values that a node reads and computes.
type operation struct{ inputs, outputs []graph.ValueID }

// topology wires what was scanned of a graph. Values have the order that onnx-go gives them: inputs and outputs of the graph; then, of each
// node, its first output, its inputs, and the other outputs.
func (s *graphScan) topology() (t *topology, err error) {
	t = &topology{g: graph.New("", 0), producer: map[graph.ValueID]int{}}
	if t.inputs, err = t.declare(s.inputs); err != nil {
		return nil, err
	}
	if t.outputs, err = t.declare(s.outputs); err != nil {
		return nil, err
	}
	t.ops = make([]operation, len(s.nodes))
	for i, n := range s.nodes {
		if len(n.outputs) > 0 {
			if _, err := t.named(n.outputs[0]); err != nil {
				return nil, n.fail(err)
			}
		}
		if err := t.read(&t.ops[i], n.inputs); err != nil {
			return nil, n.fail(err)
		}
		for _, name := range n.outputs {
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
