//go:build !js

package onnx

import (
	"errors"
	"fmt"
	"strings"

	onnxgo "github.com/owulveryck/onnx-go"
	"google.golang.org/protobuf/encoding/protowire"

	"qwb/graph"
)

// topology decodes a skeleton of the graph with onnx-go: operators, edges and plain attributes, in a model without
// tensors, types, names of nodes and nested graphs, which onnx-go drops, refuses or (a shape) trusts too much. It returns the
// topology with one operation per node of the file, in file order. Under js, where it would be a third of the program, wired does it.
func (s *graphScan) topology() (*topology, error) {
	if len(s.nodes) == 0 { // onnx-go refuses graphs without nodes
		return s.wired()
	}
	b := NewBackend()
	b.reserved = s.reservedPrefix()
	m := onnxgo.NewModel(b)
	if err := decode(m, s.skeleton(b.reserved)); err != nil {
		return nil, err
	}
	t := &topology{g: b.g, ops: b.ops, producer: b.producer}
	if err := t.join(s.nodes); err != nil {
		return nil, err
	}
	var err error
	if t.inputs, err = b.values(m.Input); err != nil {
		return nil, err
	}
	t.outputs, err = b.values(m.Output)
	return t, err
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

// join checks that operation i is node i of the file, and completes what the skeleton left out: the outputs of nodes with
// very many and the inputs of nodes without outputs.
func (t *topology) join(nodes []*nodeScan) error {
	if len(t.ops) != len(nodes) {
		return fmt.Errorf("onnx-go decoded %d of %d nodes", len(t.ops), len(nodes))
	}
	for i, n := range nodes {
		o := &t.ops[i]
		if index, ok := o.attrs[joinAttr].(int64); !ok || index != int64(i) || o.name != n.op {
			return n.fail(errors.New("onnx-go decoded another node in its place"))
		}
		if len(n.inputs) == 0 {
			o.inputs = nil // the invented one
		}
		if len(n.outputs) == 0 {
			for _, name := range n.inputs {
				v, err := t.named(name)
				if err != nil {
					return n.fail(err)
				}
				o.inputs = append(o.inputs, v)
			}
		}
		for _, name := range n.outputs[len(o.outputs):] {
			if err := t.compute(i, name); err != nil {
				return n.fail(err)
			}
		}
		if len(o.inputs) != len(n.inputs) || len(o.outputs) != len(n.outputs) {
			return n.fail(fmt.Errorf("onnx-go decoded %d inputs and %d outputs of %d and %d",
				len(o.inputs), len(o.outputs), len(n.inputs), len(n.outputs)))
		}
	}
	return nil
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
