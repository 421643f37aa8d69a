// Package lift makes a graph of ONNX operators of a TensorFlow Lite model: the float network with a pair of QuantizeLinear and
// DequantizeLinear at every tensor that has a scale, as package quantizer/qdq reads it.
//
// TensorFlow Lite has the channels of an image last, ONNX has them first. Operators on images are lifted to channels first. Whatever may
// have either order follows its inputs, and where an order that was not computed is read, a Transpose makes it. Inputs and outputs of four
// axes have their channels first where the operators next to them do.
//
// What operators compute, and the meaning of their options: TensorFlow Lite's operator reference and, where that is silent, the reference
// kernels (tensorflow/lite/kernels/internal/reference and the shape functions of tensorflow/lite/kernels).
//
// Unstable: it may change without notice.
package lift

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
)

// Domain is that of operators without a form in ONNX. Their nodes have the builtin's name, or that of a custom operator, and their tensors
// in the order of the file; package graph does not know them.
const Domain = "tflite"

// rowCodes adds graph.RowCodes to the attributes of an operator of data x and weights w, where these are float and integers.
func (l *lifter) rowCodes(x, w int, attrs ...graph.Attr) []graph.Attr {
	if x < 0 || w < 0 {
		return attrs
	}
	how := int64(graph.RowsSymmetric)
	if l.op.Options.Bool("asymmetric_quantize_inputs") {
		how = graph.RowsAsymmetric
	}
	if !l.hybrid(x, w) {
		return attrs
	}
	return append(attrs, graph.Int(graph.RowCodes, how))
}

// imageCodes is rowCodes of a convolution: kernels make codes of each image of a batch, XNNPACK's with zero points also where those of the
// interpreter have none, which is where weights have one scale. Only batches of one image have one scale.
func (l *lifter) imageCodes(x, w int, attrs ...graph.Attr) []graph.Attr {
	if l.shape(x)[0] != 1 || !l.hybrid(x, w) {
		return attrs
	}
	return append(attrs, graph.Int(graph.RowCodes, graph.ImageAsymmetric))
}

// hybrid reports whether data x is float and weights w are integers.
func (l *lifter) hybrid(x, w int) bool {
	d, of := &l.s.Tensors[x], &l.s.Tensors[w]
	return d.Type == tflite.Float32 && d.Data == nil && of.Data != nil && of.Quantization.Quantized() &&
		(of.Type == tflite.Int8 || of.Type == tflite.Int4)
}

// opset is the first in which pairs have codes of 16 and of 4 bits.
const opset = 21

// Graph lifts the first subgraph of m. Constants share memory with it where they need no other order. Warnings say what is not as in the
// file: the order of axes of inputs and outputs, and operators that have no form in ONNX.
func Graph(m *tflite.Model) (*graph.Graph, []graph.Warning, error) {
	if len(m.Subgraphs) == 0 {
		return nil, nil, errors.New("tflite: no subgraph")
	}
	s := m.Subgraphs[0]
	s.Tensors = slices.Clone(s.Tensors) // some are added, and constants computed
	s.Operators = slices.Clone(s.Operators)
	for i, op := range s.Operators {
		s.Operators[i] = standard(op)
	}
	empty(&s)
	dilate(&s)
	name := s.Name
	if name == "" {
		name = "main"
	}
	l := &lifter{s: &s, g: graph.New(name, opset), states: make([]state, len(s.Tensors)), readers: make([][]int, len(s.Tensors)),
		rows: table(), room: room(s.Tensors)}
	for i := range l.states {
		l.states[i] = state{plain: graph.NoValue, first: graph.NoValue}
	}
	for i := range s.Operators {
		for _, t := range s.Operators[i].Inputs {
			if t >= 0 {
				l.readers[t] = append(l.readers[t], i)
			}
		}
	}
	if err := l.run(); err != nil {
		return nil, nil, fmt.Errorf("tflite: %w", err)
	}
	if l.unknown {
		l.g.Opsets = append(l.g.Opsets, graph.Opset{Domain: Domain, Version: 1})
	}
	return l.g, l.warnings, l.g.Check()
}

// empty gives constants without elements their data: in a file they have no more of it than what is computed.
func empty(s *tflite.Subgraph) {
	made := make([]bool, len(s.Tensors))
	for _, id := range s.Inputs {
		made[id] = true
	}
	for i := range s.Operators {
		for _, id := range s.Operators[i].Outputs {
			made[id] = true
		}
	}
	for i := range s.Tensors {
		t := &s.Tensors[i]
		if n, err := t.Elements(); err == nil && n == 0 && len(t.Shape) > 0 && t.Data == nil && !t.Variable && !made[i] {
			t.Data = []byte{}
		}
	}
}

// order is one in which the axes of a tensor may stand.
type order int

const (
	plain order = iota // as in the file
	first              // of four axes: batch, channels, height, width
)

// state is what has been made of a tensor: the value that readers get, by order; NoValue: not yet.
type state struct {
	plain, first graph.ValueID
}

func (s *state) at(o order) *graph.ValueID {
	if o == first {
		return &s.first
	}
	return &s.plain
}

type lifter struct {
	s        *tflite.Subgraph
	g        *graph.Graph
	states   []state
	readers  [][]int // operators by tensor
	rows     map[string]*row
	warnings []graph.Warning
	op       *tflite.Operator // that is lifted
	unknown  bool
	room     int // bytes of constants that may still be decoded
}

func (l *lifter) run() error {
	for i := range l.s.Tensors {
		if t := &l.s.Tensors[i]; t.Unread != "" {
			return fmt.Errorf("tensor %q has %s, which qwb does not read", t.Name, t.Unread)
		}
	}
	for _, id := range l.s.Inputs {
		if err := l.input(id); err != nil {
			return err
		}
	}
	for i := range l.s.Operators {
		l.op = &l.s.Operators[i]
		if err := l.lift(); err != nil {
			return fmt.Errorf("operator %d %s: %w", i, l.name(), err)
		}
	}
	l.op = nil
	for _, id := range l.s.Outputs {
		o := plain
		if l.states[id].plain == graph.NoValue && l.states[id].first != graph.NoValue {
			o = first
			l.warnTurned("output", id)
		}
		v, err := l.read(id, o)
		if err != nil {
			return err
		}
		l.g.Outputs = append(l.g.Outputs, v)
	}
	return nil
}

// name is what the operator is called in messages and in nodes without a form in ONNX.
func (l *lifter) name() string {
	if l.op.Op == "CUSTOM" {
		return l.op.Custom
	}
	return l.op.Op
}

func (l *lifter) warnTurned(what string, id int) {
	t := &l.s.Tensors[id]
	l.warnings = append(l.warnings, graph.Warning{Text: fmt.Sprintf("%s %q has its channels first, %v: the file has %v", what, t.Name,
		turned(t.Shape), t.Shape)})
}

// input adds a graph input: real numbers, quantized by the pair behind it where the file has integers.
func (l *lifter) input(id int) error {
	t := &l.s.Tensors[id]
	o := plain
	if len(t.Shape) == 4 && l.wantsFirst(id, map[int]bool{}) {
		o = first
		l.warnTurned("input", id)
	}
	v, err := l.g.AddValue(graph.Value{Name: l.g.FreshName(t.Name), DType: l.dtype(t), Shape: graph.Static(shapeIn(t, o)...)})
	if err != nil {
		return err
	}
	l.g.Inputs = append(l.g.Inputs, v)
	return l.define(id, o, v)
}

// wantsFirst reports whether what reads a tensor, directly or behind operators that follow their inputs, has its channels first.
func (l *lifter) wantsFirst(id int, seen map[int]bool) bool {
	if seen[id] {
		return false
	}
	seen[id] = true
	for _, i := range l.readers[id] {
		op := &l.s.Operators[i]
		r := l.rows[op.Op]
		switch {
		case r == nil || len(op.Inputs) == 0:
		case r.images && op.Inputs[dataInput(op)] == id:
			return true
		case r.follows && len(op.Outputs) > 0 && len(l.s.Tensors[op.Outputs[0]].Shape) == 4 && l.wantsFirst(op.Outputs[0], seen):
			return true
		}
	}
	return false
}

// dataInput is the position of the image that an operator on images reads.
func dataInput(op *tflite.Operator) int {
	if op.Op == "TRANSPOSE_CONV" {
		return min(2, len(op.Inputs)-1)
	}
	return 0
}

// types are the element types that have one in ONNX.
var types = map[tflite.Type]tensor.DType{
	tflite.Float32: tensor.Float32, tflite.Float16: tensor.Float16, tflite.Float64: tensor.Float64, tflite.BFloat16: tensor.BFloat16,
	tflite.Int4: tensor.Int4, tflite.Uint4: tensor.Uint4, tflite.Int8: tensor.Int8, tflite.Uint8: tensor.Uint8, tflite.Int16: tensor.Int16,
	tflite.Uint16: tensor.Uint16, tflite.Int32: tensor.Int32, tflite.Uint32: tensor.Uint32, tflite.Int64: tensor.Int64,
	tflite.Uint64: tensor.Uint64,
	tflite.Bool:   tensor.Bool,
}

// dtype is the type of the values that stand for a tensor: float32 for what has a scale.
func (l *lifter) dtype(t *tflite.Tensor) tensor.DType {
	if t.Quantization.Quantized() {
		return tensor.Float32
	}
	return types[t.Type]
}

// turned is a shape with its last axis second.
func turned(shape []int) []int {
	if len(shape) != 4 {
		return shape
	}
	return []int{shape[0], shape[3], shape[1], shape[2]}
}

func shapeIn(t *tflite.Tensor, o order) []int {
	if o == first {
		return turned(t.Shape)
	}
	return slices.Clone(t.Shape)
}

// define makes v, the numbers that an operator computed for a tensor, what readers of the tensor get: v itself,
// or what its pair makes of it.
func (l *lifter) define(id int, o order, v graph.ValueID) error {
	t := &l.s.Tensors[id]
	dq, err := l.quantized(v, t, o)
	if err == nil && dq != v && slices.Contains(l.s.Outputs, id) && !l.g.IsInput(v) { // the graph's output has the tensor's name
		name := l.g.Value(v).Name
		if err = l.g.Rename(v, l.g.FreshName(name+"_value")); err == nil {
			err = l.g.Rename(dq, name)
		}
	}
	*l.states[id].at(o) = dq
	return err
}

// quantized adds the pair of a tensor behind v.
func (l *lifter) quantized(v graph.ValueID, t *tflite.Tensor, o order) (graph.ValueID, error) {
	q := t.Quantization
	if !q.Quantized() {
		return v, nil
	}
	name := l.g.Value(v).Name
	scale, zero, attrs, err := l.grid(name, t, axisIn(t, o))
	if err != nil {
		return v, err
	}
	codes, err := l.node("QuantizeLinear", name+"_QuantizeLinear", types[t.Type], shapeIn(t, o), attrs, v, scale, zero)
	if err != nil {
		return v, err
	}
	return l.node("DequantizeLinear", name+"_DequantizeLinear", tensor.Float32, shapeIn(t, o), attrs, codes, scale, zero)
}

// axisIn is the axis of a tensor's scales in an order. Of a single scale it says nothing, and files may say anything.
func axisIn(t *tflite.Tensor, o order) int {
	return axis(t.Quantization.Axis, len(t.Shape), o)
}

// grid adds scale and zero point of a tensor whose scales stand along axis.
func (l *lifter) grid(name string, t *tflite.Tensor, axis int) (scale, zero graph.ValueID, attrs []graph.Attr, err error) {
	q := t.Quantization
	d := types[t.Type]
	if !d.IsInteger() || d.Bits() == 64 {
		return 0, 0, nil, fmt.Errorf("tensor %q: a scale on %v", t.Name, t.Type)
	}
	n := len(q.Scale)
	codes := make([]int32, n)
	low, high := codeRange(d)
	for i, s := range q.Scale {
		if !(s > 0) || math.IsInf(float64(s), 1) {
			return 0, 0, nil, fmt.Errorf("tensor %q: scale %g is not a positive number", t.Name, s)
		}
		z := 0
		switch {
		case len(q.ZeroPoint) == n:
			z = q.ZeroPoint[i]
		case len(q.ZeroPoint) == 1:
			z = q.ZeroPoint[0]
		}
		if z < low || z > high {
			return 0, 0, nil, fmt.Errorf("tensor %q: zero point %d is outside of %v, %d to %d", t.Name, z, t.Type, low, high)
		}
		codes[i] = int32(z)
	}
	shape := []int{}
	if n > 1 {
		attrs = []graph.Attr{graph.Int("axis", int64(axis))}
		shape = []int{n}
	}
	z := tensor.New(d, shape...).WithIntegers(codes)
	return l.g.AddConst(name+"_scale", tensor.FromF32(slices.Clone(q.Scale), shape...)), l.g.AddConst(name+"_zero_point", z), attrs, nil
}

// codeRange is the smallest and the largest number of an integer type, within int32.
func codeRange(d tensor.DType) (low, high int) {
	switch d {
	case tensor.Uint4, tensor.Uint8, tensor.Uint16, tensor.Uint32:
		return 0, min(1<<d.Bits()-1, math.MaxInt32)
	}
	return -1 << (d.Bits() - 1), 1<<(d.Bits()-1) - 1
}

// node adds a node of one output.
func (l *lifter) node(op, name string, d tensor.DType, shape []int, attrs []graph.Attr, in ...graph.ValueID) (graph.ValueID, error) {
	for len(in) > 0 && in[len(in)-1] == graph.NoValue {
		in = in[:len(in)-1]
	}
	v, err := l.g.AddValue(graph.Value{Name: l.g.FreshName(name), DType: d, Shape: graph.Static(shape...)})
	if err != nil {
		return v, err
	}
	_, err = l.g.AddNode(graph.Node{Name: l.g.FreshName(name + "/" + op), Op: op, Attrs: attrs, Inputs: in, Outputs: []graph.ValueID{v}})
	return v, err
}

// read returns the values of a tensor in an order, and makes them where they are not there. An input that is left out is NoValue.
func (l *lifter) read(id int, o order) (graph.ValueID, error) {
	if id < 0 {
		return graph.NoValue, nil
	}
	t := &l.s.Tensors[id]
	if len(t.Shape) != 4 {
		o = plain
	}
	s := &l.states[id]
	if v := *s.at(o); v != graph.NoValue {
		return v, nil
	}
	if t.Data != nil {
		v, err := l.constant(t, o)
		*s.at(o) = v
		return v, err
	}
	from, perm := s.plain, []int64{0, 3, 1, 2}
	if o == plain {
		from, perm = s.first, []int64{0, 2, 3, 1}
	}
	if from == graph.NoValue {
		return from, fmt.Errorf("tensor %q is read before it is computed", t.Name)
	}
	v, err := l.node("Transpose", t.Name+map[order]string{plain: "_nhwc", first: "_nchw"}[o], l.dtype(t), shapeIn(t, o),
		[]graph.Attr{graph.Ints("perm", perm...)}, from)
	if err != nil {
		return v, err
	}
	v, err = l.quantized(v, t, o)
	*s.at(o) = v
	return v, err
}

// constant adds a constant tensor in an order: what integers stand for is computed by a DequantizeLinear.
func (l *lifter) constant(t *tflite.Tensor, o order) (graph.ValueID, error) {
	c, err := l.value(t)
	if err != nil {
		return graph.NoValue, err
	}
	if o == first {
		c = lastFirst(c, 1, turned(t.Shape)...)
	}
	axis := 0
	if t.Quantization.Quantized() {
		axis = axisIn(t, o)
	}
	return l.dequantized(t, c, axis)
}

// dequantized adds the constant c, which holds the elements of t in an order in which its scales stand along axis.
func (l *lifter) dequantized(t *tflite.Tensor, c *tensor.Tensor, axis int) (graph.ValueID, error) {
	if !t.Quantization.Quantized() {
		return l.g.AddConst(t.Name, c), nil
	}
	scale, zero, attrs, err := l.grid(t.Name, t, axis)
	if err != nil {
		return graph.NoValue, err
	}
	codes := l.g.AddConst(t.Name+"_quantized", c)
	return l.node("DequantizeLinear", t.Name+"_DequantizeLinear", tensor.Float32, c.Shape, attrs, codes, scale, zero)
}
