package espdl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"qwb/internal/flatbuffer"
)

// The types of elements; the numbers are ONNX's, but for those above 9.
const (
	float32Type = 1
	int8Type    = 3
	int16Type   = 5
	int32Type   = 6
	int64Type   = 7
	boolType    = 9
)

// elementSize is the bytes of an element by type, 0 for types that qwb does not write.
var elementSize = map[int]int{float32Type: 4, int8Type: 1, int16Type: 2, int32Type: 4, int64Type: 8, boolType: 1}

// Model is a file. It lists the fields that ESP-DL reads and leaves out those of ONNX that it does not.
type Model struct {
	Producer, Version, Name string
	Metadata                [][2]string
	Nodes                   []Node
	Inputs, Outputs, Values []Value
	Initializers            []Tensor
	TestInputs, TestOutputs []Tensor
}

// Node is an operator, with its inputs and outputs by name.
type Node struct {
	Name, Op        string
	Inputs, Outputs []string
	Attrs           []Attr
}

// Attr is an attribute of a node: Value is an int64, a float32, a string or an []int64.
type Attr struct {
	Name  string
	Value any
}

// Value says what a tensor that is computed holds: elements of a type, of a quantized one the number they stand for is q * 2^Exponents[0].
type Value struct {
	Name      string
	Type      int
	Shape     []int64
	Exponents []int64
}

// Tensor is a constant. Raw holds its elements, little endian, padded to a multiple of 16 bytes; Exponents are one, or one by channel.
type Tensor struct {
	Name, Doc        string
	Type             int
	Shape, Exponents []int64
	Raw              []byte
}

// count is how many elements the shape has, -1 if that is no number of this file.
func (t *Tensor) count() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > math.MaxInt32/d {
			return -1
		}
		n *= d
	}
	return n
}

// Attribute types of the schema.
const (
	attrFloat  = 1
	attrInt    = 2
	attrString = 3
	attrInts   = 7
)

const header = "EDL2"

// Marshal returns the file: 16 bytes of header (EDL2, 0 for not encrypted, the length) and a FlatBuffers table. The slots are those of
// the schema that ESP-PPQ and ESP-DL compile (FlatBuffers/Dl of ESP-PPQ 1.3.12).
func (m *Model) Marshal() []byte {
	w := &writer{b: flatbuffers.NewBuilder(1 << 16)}
	graph := w.graph(m)
	var props []flatbuffers.UOffsetT
	for _, p := range m.Metadata {
		k, v := w.b.CreateString(p[0]), w.b.CreateString(p[1])
		props = append(props, w.table(2, func() {
			w.offset(0, k)
			w.offset(1, v)
		}))
	}
	metadata, opsets := w.tables(props), w.tables(nil)
	producer, version := w.b.CreateString(m.Producer), w.b.CreateString(m.Version)
	w.b.Finish(w.table(10, func() {
		w.b.PrependInt32Slot(0, 8, 0) // version of ONNX's intermediate representation
		w.offset(1, opsets)
		w.offset(2, producer)
		w.offset(3, version)
		w.offset(7, graph)
		w.offset(8, metadata)
	}))
	body := w.b.FinishedBytes()
	head := make([]byte, 16, 16+len(body))
	copy(head, header)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(body)))
	return append(head, body...)
}

type writer struct{ b *flatbuffers.Builder }

func (w *writer) table(slots int, fields func()) flatbuffers.UOffsetT {
	w.b.StartObject(slots)
	fields()
	return w.b.EndObject()
}

func (w *writer) offset(slot int, to flatbuffers.UOffsetT) { w.b.PrependUOffsetTSlot(slot, to, 0) }

func (w *writer) tables(list []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	w.b.StartVector(4, len(list), 4)
	for i := len(list) - 1; i >= 0; i-- {
		w.b.PrependUOffsetT(list[i])
	}
	return w.b.EndVector(len(list))
}

func (w *writer) strings(list []string) flatbuffers.UOffsetT {
	var offsets []flatbuffers.UOffsetT
	for _, s := range list {
		offsets = append(offsets, w.b.CreateString(s))
	}
	return w.tables(offsets)
}

func (w *writer) int64s(list []int64) flatbuffers.UOffsetT {
	w.b.StartVector(8, len(list), 8)
	for i := len(list) - 1; i >= 0; i-- {
		w.b.PrependInt64(list[i])
	}
	return w.b.EndVector(len(list))
}

func (w *writer) graph(m *Model) flatbuffers.UOffsetT {
	var lists [6]flatbuffers.UOffsetT
	var nodes []flatbuffers.UOffsetT
	for i := range m.Nodes {
		nodes = append(nodes, w.node(&m.Nodes[i]))
	}
	list := w.tables(nodes)
	for k, tensors := range [][]Tensor{m.Initializers, m.TestInputs, m.TestOutputs} {
		var offsets []flatbuffers.UOffsetT
		for i := range tensors {
			offsets = append(offsets, w.tensor(&tensors[i]))
		}
		lists[k] = w.tables(offsets)
	}
	for k, values := range [][]Value{m.Inputs, m.Outputs, m.Values} {
		var offsets []flatbuffers.UOffsetT
		for i := range values {
			offsets = append(offsets, w.value(&values[i]))
		}
		lists[3+k] = w.tables(offsets)
	}
	name := w.b.CreateString(m.Name)
	return w.table(10, func() {
		w.offset(0, list)
		w.offset(1, name)
		for k, slot := range []int{2, 8, 9, 4, 5, 6} {
			w.offset(slot, lists[k])
		}
	})
}

func (w *writer) node(n *Node) flatbuffers.UOffsetT {
	var attrs []flatbuffers.UOffsetT
	for _, a := range n.Attrs {
		attrs = append(attrs, w.attr(a))
	}
	list, in, out, name, op := w.tables(attrs), w.strings(n.Inputs), w.strings(n.Outputs), w.b.CreateString(n.Name), w.b.CreateString(n.Op)
	return w.table(7, func() {
		w.offset(0, in)
		w.offset(1, out)
		w.offset(2, name)
		w.offset(3, op)
		w.offset(5, list)
	})
}

func (w *writer) attr(a Attr) flatbuffers.UOffsetT {
	name := w.b.CreateString(a.Name)
	var value flatbuffers.UOffsetT
	switch v := a.Value.(type) {
	case string:
		value = w.b.CreateByteVector([]byte(v))
	case []int64:
		value = w.int64s(v)
	}
	return w.table(16, func() {
		w.offset(0, name)
		switch v := a.Value.(type) {
		case float32:
			w.b.Prep(4, 4)
			w.b.PrependFloat32(v)
			w.b.PrependStructSlot(4, w.b.Offset(), 0)
			w.b.PrependInt32Slot(3, attrFloat, 0)
		case int64:
			w.b.Prep(8, 8)
			w.b.PrependInt64(v)
			w.b.PrependStructSlot(5, w.b.Offset(), 0)
			w.b.PrependInt32Slot(3, attrInt, 0)
		case string:
			w.offset(6, value)
			w.b.PrependInt32Slot(3, attrString, 0)
		case []int64:
			w.offset(11, value)
			w.b.PrependInt32Slot(3, attrInts, 0)
		}
	})
}

func (w *writer) tensor(t *Tensor) flatbuffers.UOffsetT {
	w.b.StartVector(16, len(t.Raw)/16, 16)
	for i := len(t.Raw) - 1; i >= 0; i-- {
		w.b.PlaceByte(t.Raw[i])
	}
	raw := w.b.EndVector(len(t.Raw) / 16)
	name, doc, dims, exponents := w.b.CreateString(t.Name), w.b.CreateString(t.Doc), w.int64s(t.Shape), w.int64s(t.Exponents)
	return w.table(14, func() {
		w.offset(0, dims)
		w.b.PrependInt32Slot(1, int32(t.Type), 0)
		w.offset(6, name)
		w.offset(7, doc)
		w.offset(8, raw)
		w.offset(13, exponents)
	})
}

func (w *writer) value(v *Value) flatbuffers.UOffsetT {
	var dims []flatbuffers.UOffsetT
	for _, d := range v.Shape {
		n := w.table(3, func() {
			w.b.PrependInt8Slot(0, 1, 0)
			w.b.PrependInt64Slot(1, d, 0)
		})
		dims = append(dims, w.table(2, func() { w.offset(0, n) }))
	}
	list := w.tables(dims)
	shape := w.table(1, func() { w.offset(0, list) })
	tensor := w.table(2, func() {
		w.b.PrependInt32Slot(0, int32(v.Type), 0)
		w.offset(1, shape)
	})
	info := w.table(3, func() {
		w.b.PrependUint8Slot(0, 1, 0) // a tensor
		w.offset(1, tensor)
	})
	name, exponents := w.b.CreateString(v.Name), w.int64s(v.Exponents)
	return w.table(4, func() {
		w.offset(0, name)
		w.offset(1, info)
		w.offset(3, exponents)
	})
}

// Read reads a file. What it allocates is bounded by the file's size.
func Read(b []byte) (*Model, error) {
	switch {
	case len(b) < 16 || string(b[:4]) != header:
		return nil, fmt.Errorf("not an .espdl file: it does not begin with %s", header)
	case binary.LittleEndian.Uint32(b[4:]) != 0:
		return nil, errors.New(".espdl: the file is encrypted")
	case uint64(binary.LittleEndian.Uint32(b[8:])) != uint64(len(b)-16):
		return nil, fmt.Errorf(".espdl: the header says %d bytes, %d follow", binary.LittleEndian.Uint32(b[8:]), len(b)-16)
	}
	r := flatbuffer.New(b[16:], 4*len(b))
	root := r.Root()
	g := root.Child(7)
	m := &Model{Producer: root.Text(2), Version: root.Text(3), Name: g.Text(1)}
	for _, p := range root.Views(8) {
		m.Metadata = append(m.Metadata, [2]string{p.Text(0), p.Text(1)})
	}
	for _, n := range g.Views(0) {
		node := Node{Name: n.Text(2), Op: n.Text(3), Inputs: n.Texts(0), Outputs: n.Texts(1)}
		for _, a := range n.Views(5) {
			attr, err := readAttr(a)
			if err != nil {
				return nil, fmt.Errorf(".espdl: node %q: %w", node.Name, err)
			}
			node.Attrs = append(node.Attrs, attr)
		}
		m.Nodes = append(m.Nodes, node)
	}
	for _, l := range []struct {
		to   *[]Tensor
		slot int
	}{{&m.Initializers, 2}, {&m.TestInputs, 8}, {&m.TestOutputs, 9}} {
		for _, t := range g.Views(l.slot) {
			*l.to = append(*l.to, Tensor{Name: t.Text(6), Doc: t.Text(7), Type: t.I32(1, 0), Shape: t.Int64s(0), Exponents: t.Int64s(13),
				Raw: t.Bytes(8, 16)})
		}
	}
	for _, l := range []struct {
		to   *[]Value
		slot int
	}{{&m.Inputs, 4}, {&m.Outputs, 5}, {&m.Values, 6}} {
		for _, v := range g.Views(l.slot) {
			tensor := v.Child(1).Child(1)
			value := Value{Name: v.Text(0), Type: tensor.I32(0, 0), Exponents: v.Int64s(3)}
			for _, d := range tensor.Child(1).Views(0) {
				value.Shape = append(value.Shape, int64(d.Child(0).Number(1, 8, true, 0)))
			}
			*l.to = append(*l.to, value)
		}
	}
	if r.Err() != nil {
		return nil, fmt.Errorf(".espdl: %w", r.Err())
	}
	return m, nil
}

func readAttr(a flatbuffer.View) (Attr, error) {
	attr := Attr{Name: a.Text(0)}
	switch t := a.I32(3, 0); t {
	case attrFloat:
		attr.Value = a.Float(4)
	case attrInt:
		attr.Value = int64(a.Number(5, 8, true, 0))
	case attrString:
		attr.Value = a.Text(6)
	case attrInts:
		attr.Value = a.Int64s(11)
	default:
		return attr, fmt.Errorf("attribute %q has type %d", attr.Name, t)
	}
	return attr, nil
}
