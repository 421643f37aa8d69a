// Package onnxgo lets github.com/owulveryck/onnx-go decode into a graph.Graph:
//
//	b := onnxgo.NewBackend()
//	m := onnx.NewModel(b) // onnx-go's
//	err := m.UnmarshalBinary(file)
//	g, err := b.Graph(m.Input, m.Output)
//
// That way carries what onnx-go carries: operators, edges, plain attributes, dense tensors of five element types. Package graph/onnx reads
// all of a file and is held equal to it. It is apart from package onnx because whoever links onnx-go links a tensor library and two
// protobuf runtimes, a quarter of a program.
//
// Decode does these three steps.
//
// Stable: what it exports keeps its meaning; see docs/library.md.
package onnxgo

import (
	"fmt"
	"slices"
	"strings"

	onnxgo "github.com/owulveryck/onnx-go"
	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	gorgonia "gorgonia.org/tensor"

	"qwb/graph"
	"qwb/internal/arrange"
)

// Backend receives a computation graph from onnx-go's decoder and builds a graph.Graph of it.
type Backend struct {
	g        *graph.Graph
	nodes    []*valueNode // by gonum id; several may stand for one value, because onnx-go may declare a name twice
	pending  []edge       // edges since the last operation
	ops      []operation
	producer map[graph.ValueID]int // index into ops
	err      error
}

// operation is an operator: its attributes as onnx-go decodes them, the values it reads and computes.
type operation struct {
	name            string
	attrs           map[string]any
	inputs, outputs []graph.ValueID
}

type edge struct {
	from, to gonum.Node
	weight   float64
}

// valueNode is a value as onnx-go sees it: a gonum node with a name that may carry a tensor.
type valueNode struct {
	id    int64
	name  string
	value graph.ValueID
	data  gorgonia.Tensor
}

func (n *valueNode) ID() int64                         { return n.id }
func (n *valueNode) SetName(name string)               { n.name = name }
func (n *valueNode) GetName() string                   { return n.name }
func (n *valueNode) GetTensor() gorgonia.Tensor        { return n.data }
func (n *valueNode) SetTensor(t gorgonia.Tensor) error { n.data = t; return nil }

var _ onnxgo.Backend = (*Backend)(nil)
var _ onnxgo.Namer = (*valueNode)(nil)
var _ onnxgo.DataCarrier = (*valueNode)(nil)

// NewBackend returns an empty backend for one model.
func NewBackend() *Backend {
	return &Backend{g: graph.New("", 0), producer: map[graph.ValueID]int{}}
}

// NewNode returns a node for a value that has no name yet.
func (b *Backend) NewNode() gonum.Node {
	n := &valueNode{id: int64(len(b.nodes)), value: graph.NoValue}
	b.nodes = append(b.nodes, n)
	return n
}

// AddNode adds the value that n names. Nodes of the same name stand for the same value, the empty name for an absent one.
func (b *Backend) AddNode(n gonum.Node) {
	v, ok := n.(*valueNode)
	if !ok {
		b.fail(fmt.Errorf("node of foreign type %T", n))
		return
	}
	if v.name == "" {
		return
	}
	if id, known := b.g.Lookup(v.name); known {
		v.value = id
		return
	}
	id, err := b.g.AddValue(graph.Value{Name: v.name})
	v.value = id
	b.fail(err)
}

// NewWeightedEdge returns an edge from the output of an operator to one of its inputs; weight is the input's position.
func (b *Backend) NewWeightedEdge(from, to gonum.Node, weight float64) gonum.WeightedEdge {
	return simple.WeightedEdge{F: from, T: to, W: weight}
}

// SetWeightedEdge adds an edge to the operator that the next ApplyOperation names.
func (b *Backend) SetWeightedEdge(e gonum.WeightedEdge) {
	b.pending = append(b.pending, edge{e.From(), e.To(), e.Weight()})
}

// ApplyOperation adds an operator that computes outputs out of the edges set since the last call. onnx-go repeats the
// edges for every output; those of the first are taken.
func (b *Backend) ApplyOperation(op onnxgo.Operation, outputs ...gonum.Node) error {
	if b.err != nil {
		return b.err
	}
	o := operation{name: op.Name, attrs: op.Attributes}
	if len(outputs) > 0 {
		n := len(b.pending) / len(outputs)
		for i, e := range b.pending[:n] {
			if e.from != outputs[0] || e.weight != float64(i) {
				return fmt.Errorf("%s: edge %d does not belong to its first output", op.Name, i)
			}
			o.inputs = append(o.inputs, b.value(e.to))
		}
	}
	b.pending = b.pending[:0]
	for _, out := range outputs {
		v := b.value(out)
		if v != graph.NoValue {
			if _, twice := b.producer[v]; twice {
				return fmt.Errorf("%s: value %q is computed twice", op.Name, b.g.Value(v).Name)
			}
			b.producer[v] = len(b.ops)
		}
		o.outputs = append(o.outputs, v)
	}
	b.ops = append(b.ops, o)
	return nil
}

func (b *Backend) value(n gonum.Node) graph.ValueID {
	if v, ok := n.(*valueNode); ok {
		return v.value
	}
	return graph.NoValue
}

func (b *Backend) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// values maps gonum ids, as in Model.Input and Model.Output of onnx-go, to values.
func (b *Backend) values(ids []int64) ([]graph.ValueID, error) {
	list := make([]graph.ValueID, 0, len(ids))
	for _, id := range ids {
		if id < 0 || id >= int64(len(b.nodes)) {
			return nil, fmt.Errorf("no node with id %d", id)
		}
		if v := b.nodes[id].value; v != graph.NoValue {
			list = append(list, v)
		}
	}
	return list, b.err
}

// Graph returns what a direct decode built; inputs and outputs are the ids that onnx-go's Model lists. Nodes have names of
// qwb's own, because onnx-go drops the model's, and so do inputs that onnx-go invents for operators without any vanish.
func (b *Backend) Graph(inputs, outputs []int64) (*graph.Graph, error) {
	in, err := b.values(inputs)
	if err != nil {
		return nil, err
	}
	out, err := b.values(outputs)
	if err != nil {
		return nil, err
	}
	for _, n := range b.nodes {
		if n.data == nil || n.value == graph.NoValue || slices.Contains(in, n.value) || slices.Contains(out, n.value) {
			continue
		}
		if _, computed := b.producer[n.value]; computed {
			continue
		}
		t, err := fromGorgonia(n.data)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", n.name, err)
		}
		b.g.SetConst(n.value, t)
	}
	for _, o := range b.ops {
		n := graph.Node{Op: o.name, Inputs: o.inputs, Outputs: o.outputs}
		if len(n.Inputs) == 1 && b.invented(n.Inputs[0], in) {
			n.Inputs = nil
		}
		for name, v := range o.attrs {
			a, err := attr(name, v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
			n.Attrs = append(n.Attrs, a)
		}
		arrange.Stable(n.Attrs, func(x, y graph.Attr) int { return strings.Compare(x.Name, y.Name) })
		if _, err := b.g.AddNode(n); err != nil {
			return nil, err
		}
	}
	b.g.Inputs, b.g.Outputs = in, out
	for _, v := range b.g.Values() { // those that no operator reads or computes go
		b.g.RemoveValue(v)
	}
	return b.g, nil
}

// invented reports whether v is the input that onnx-go makes up for an operator without inputs.
func (b *Backend) invented(v graph.ValueID, inputs []graph.ValueID) bool {
	if v == graph.NoValue || slices.Contains(inputs, v) || b.g.Const(v) != nil {
		return false
	}
	_, computed := b.producer[v]
	return !computed && strings.HasSuffix(b.g.Value(v).Name, "/input")
}
