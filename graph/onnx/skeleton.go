package onnx

import (
	"errors"
	"fmt"
	"strings"

	onnxgo "github.com/owulveryck/onnx-go"
	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

const (
	// joinAttr is the attribute of a skeleton node that holds the node's index in the file.
	joinAttr = "qwb.node"
	// maxEdges bounds inputs times outputs of one skeleton node, because onnx-go makes that many edges.
	maxEdges = 4096
)

// topology decodes a skeleton of the graph with onnx-go: operators, edges and plain attributes, in a model without
// tensors, types, names of nodes and nested graphs, which onnx-go drops, refuses or (a shape) trusts too much. It returns the
// backend with one operation per node of the file, in file order, and the graph's inputs and outputs.
func (s *graphScan) topology() (b *Backend, inputs, outputs []graph.ValueID, err error) {
	b = NewBackend()
	b.reserved = s.reservedPrefix()
	m := onnxgo.NewModel(b)
	if len(s.nodes) == 0 { // onnx-go refuses graphs without nodes
		return b, b.declare(s.inputs), b.declare(s.outputs), b.err
	}
	if err := decode(m, s.skeleton(b.reserved)); err != nil {
		return nil, nil, nil, err
	}
	if err := b.join(s.nodes); err != nil {
		return nil, nil, nil, err
	}
	if inputs, err = b.values(m.Input); err != nil {
		return nil, nil, nil, err
	}
	outputs, err = b.values(m.Output)
	return b, inputs, outputs, err
}

// decode runs onnx-go, which panics on some input.
func decode(m *onnxgo.Model, model []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("onnx-go: %v", r)
		}
	}()
	return m.UnmarshalBinary(model)
}

// declare adds the inputs or outputs of a graph without nodes.
func (b *Backend) declare(infos []infoScan) []graph.ValueID {
	var list []graph.ValueID
	for _, v := range infos {
		n := b.NewNode().(*valueNode)
		n.SetName(v.name)
		b.AddNode(n)
		list = append(list, n.value)
	}
	return list
}

// reservedPrefix is a prefix that no name in the graph has. Names of skeleton nodes start with it, so that the input
// "<node>/input" that onnx-go invents for an operator without inputs cannot be mistaken for a tensor.
func (s *graphScan) reservedPrefix() string {
	heads := map[string]bool{}
	note := func(names ...string) {
		for _, name := range names {
			if strings.HasPrefix(name, "qwb") {
				head, _, _ := strings.Cut(name, ".")
				heads[head] = true
			}
		}
	}
	for _, n := range s.nodes {
		note(n.inputs...)
		note(n.outputs...)
	}
	for _, list := range [][]infoScan{s.inputs, s.outputs} {
		for i := range list {
			note(list[i].name)
		}
	}
	head := "qwb"
	for i := 0; heads[head]; i++ {
		head = fmt.Sprintf("qwb%d", i)
	}
	return head + "."
}

// skeleton encodes the ModelProto that onnx-go gets to see.
func (s *graphScan) skeleton(reserved string) []byte {
	var g []byte
	for i, n := range s.nodes {
		g = appendMessage(g, graphNodes, n.skeleton(i, reserved))
	}
	for i := range s.inputs {
		g = appendMessage(g, graphInputs, appendString(nil, valueName, s.inputs[i].name))
	}
	for i := range s.outputs {
		g = appendMessage(g, graphOutputs, appendString(nil, valueName, s.outputs[i].name))
	}
	if len(s.outputs) == 0 { // onnx-go refuses graphs without outputs
		g = appendMessage(g, graphOutputs, appendString(nil, valueName, reserved+"none"))
	}
	return appendMessage(nil, modelGraph, g)
}

func (n *nodeScan) skeleton(index int, reserved string) []byte {
	var b []byte
	for _, name := range n.inputs {
		b = appendString(b, nodeInputs, name)
	}
	for _, name := range n.skeletonOutputs() {
		b = appendString(b, nodeOutputs, name)
	}
	b = appendString(b, nodeName, fmt.Sprintf("%s%d", reserved, index))
	b = appendString(b, nodeOp, n.op)
	for i := range n.attrs {
		if a := &n.attrs[i]; a.plain() {
			m := appendString(nil, attrName, a.name)
			for _, f := range a.values {
				m = append(m, f.raw...)
			}
			b = appendMessage(b, nodeAttrs, appendVarint(m, attrType, uint64(a.kind)))
		}
	}
	m := appendVarint(appendString(nil, attrName, joinAttr), attrI, uint64(index))
	return appendMessage(b, nodeAttrs, appendVarint(m, attrType, uint64(graph.AttrInt)))
}

// skeletonOutputs are the outputs that onnx-go gets to see: all but the first are left to join where there are very many.
func (n *nodeScan) skeletonOutputs() []string {
	if len(n.outputs) > 1 && len(n.inputs) > maxEdges/len(n.outputs) {
		return n.outputs[:1]
	}
	return n.outputs
}

// join checks that operation i is node i of the file, and completes what the skeleton left out: the outputs of nodes with
// very many and the inputs of nodes without outputs.
func (b *Backend) join(nodes []*nodeScan) error {
	if len(b.ops) != len(nodes) {
		return fmt.Errorf("onnx-go decoded %d of %d nodes", len(b.ops), len(nodes))
	}
	for i, n := range nodes {
		o := &b.ops[i]
		if index, ok := o.attrs[joinAttr].(int64); !ok || index != int64(i) || o.name != n.op {
			return n.fail(errors.New("onnx-go decoded another node in its place"))
		}
		if len(n.inputs) == 0 {
			o.inputs = nil // the invented one
		}
		if len(n.outputs) == 0 {
			for _, name := range n.inputs {
				o.inputs = append(o.inputs, b.named(name))
			}
		}
		for _, name := range n.outputs[len(o.outputs):] {
			v := b.named(name)
			if _, twice := b.producer[v]; twice {
				return n.fail(fmt.Errorf("value %q is computed twice", name))
			}
			if v != graph.NoValue {
				b.producer[v] = i
			}
			o.outputs = append(o.outputs, v)
		}
		if len(o.inputs) != len(n.inputs) || len(o.outputs) != len(n.outputs) {
			return n.fail(fmt.Errorf("onnx-go decoded %d inputs and %d outputs of %d and %d",
				len(o.inputs), len(o.outputs), len(n.inputs), len(n.outputs)))
		}
	}
	return b.err
}

// named returns the value called name, which is added where it is new.
func (b *Backend) named(name string) graph.ValueID {
	n := &valueNode{name: name, value: graph.NoValue}
	b.AddNode(n)
	return n.value
}

func appendMessage(b []byte, num protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendVarint(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}
