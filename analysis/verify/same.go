package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"reflect"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/lower"
)

// SameProgram reports whether two programs compute the same by what they are: every tensor of integers of the first, and all outputs in
// their order, are computed in the second by the same operations with the same numbers, of tensors of which that is true, down to the
// inputs. Names, the order of independent steps, and where axes are exchanged on the way do not matter. False says nothing: programs that
// are written in other ways may still compute the same, and ctx may have ended.
func SameProgram(ctx context.Context, own, other *lower.Program) bool {
	if own.Profile != other.Profile || own.Float != other.Float || len(own.Outputs) != len(other.Outputs) {
		return false
	}
	known := &constants{at: map[[sha256.Size]byte][]int{}}
	first, second := &reading{ctx: ctx, p: own, known: known, sizes: sizesOf(own, other)}, &reading{ctx: ctx, p: other, known: known}
	a, err := first.meanings(first)
	if err != nil {
		return false
	}
	b, err := second.meanings(first)
	if err != nil {
		return false
	}
	there := make(map[string]bool, len(b))
	for _, m := range b {
		there[m.key()] = true
	}
	for i := range own.Tensors {
		if own.Tensors[i].Counts() && !there[a[i].key()] {
			return false
		}
	}
	for i, id := range own.Outputs {
		if a[id].key() != b[other.Outputs[i]].key() {
			return false
		}
	}
	return true
}

// meaning says how a tensor is computed: a hash over the operations and constants that lead to an array, which has the shape own; to is the
// shape in which it is read, nil where that is the same, or order says in which order its axes are: axis i is axis order[i].
type meaning struct {
	hash    [sha256.Size]byte
	own, to graph.Shape
	order   []int
}

func (m meaning) key() string { return fmt.Sprintf("%x %v %v", m.hash, m.to, m.order) }

// apart is the same array by itself, of a shape.
func (m meaning) apart(shape graph.Shape) meaning {
	if m.to == nil && m.order == nil {
		return m
	}
	w := newWriter("array")
	w.text(m.key())
	return meaning{hash: w.sum(), own: shape}
}

// reshaped is the meaning as an array of another shape, all of which is known. from is the one that it has.
func (m meaning) reshaped(from, to graph.Shape) meaning {
	if m.order != nil {
		m = m.apart(from)
	}
	if m.to = to; slices.Equal(to, m.own) {
		m.to = nil
	}
	return m
}

// turned is the meaning with the axes of an array of a shape in an order.
func (m meaning) turned(order []int, shape graph.Shape) meaning {
	if m.to != nil {
		m = m.apart(shape)
	}
	if m.order != nil {
		order = slices.Clone(order)
		for i, a := range order {
			order[i] = m.order[a]
		}
	}
	if m.order = order; slices.IsSorted(order) {
		m.order = nil
	}
	return m
}

// reading is a program that is read with sizes in the place of symbols.
type reading struct {
	ctx   context.Context
	p     *lower.Program
	known *constants
	sizes map[string]int64
}

// constants are the weights of two programs, each of them once. That they are the same is found by comparing those that are alike in a few
// elements: faster than hashes of all, and of weights in files the others are not read again.
type constants struct {
	list []*tensor.Tensor
	at   map[[sha256.Size]byte][]int // by a hash of these elements
}

// number is that of a row-major tensor among those that are known.
func (c *constants) number(t *tensor.Tensor) int {
	const few = 64
	w, data := newWriter("few"), reflect.ValueOf(t.Data)
	for i := 0; i < data.Len(); i += max(data.Len()/few, 1) {
		w.write(data.Index(i))
	}
	key := w.sum()
	for _, i := range c.at[key] {
		if tensor.Equal(c.list[i], t) {
			return i
		}
	}
	c.at[key], c.list = append(c.at[key], len(c.list)), append(c.list, t)
	return len(c.list) - 1
}

// sizesOf are the sizes that the inputs of a program have in another one, by the symbols of the first: a file may be for one of them.
func sizesOf(own, other *lower.Program) map[string]int64 {
	sizes := map[string]int64{}
	for _, id := range own.Inputs {
		for _, o := range other.Inputs {
			x, y := &own.Tensors[id], &other.Tensors[o]
			if x.Name != y.Name || len(x.Shape) != len(y.Shape) {
				continue
			}
			for i, d := range x.Shape { // of axes that trade places, the first stays
				if d.Symbol != "" && y.Shape[i].Known() && (i == 0 || !slices.ContainsFunc(x.Shape[1:], graph.Dim.Known)) {
					sizes[d.Symbol] = y.Shape[i].N
				}
			}
		}
	}
	return sizes
}

func (r *reading) shape(id lower.TensorID) graph.Shape {
	shape := slices.Clone(r.p.Tensors[id].Shape)
	for i, d := range shape {
		if n, ok := r.sizes[d.Symbol]; ok && !d.Known() {
			shape[i] = graph.Dim{N: n}
		}
	}
	return shape
}

// meanings lists what every tensor of a program means. Inputs are those of like, the channels at the other end where its have them there.
func (r *reading) meanings(like *reading) ([]meaning, error) {
	p := r.p
	list := make([]meaning, len(p.Tensors))
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Const != nil {
			w := newWriter("constant")
			w.write(reflect.ValueOf(t.Encoding))
			w.write(reflect.ValueOf(t.Const))
			list[i] = meaning{hash: w.sum(), own: t.Shape}
		}
	}
	for _, id := range p.Inputs {
		list[id] = r.input(id, like)
	}
	for i := range p.Steps {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		s := &p.Steps[i]
		if m, ok := r.moved(s, list); ok {
			list[s.Outputs[0]] = m
			continue
		}
		w := newWriter("step")
		w.step(r, s)
		var through meaning // what an operation on single numbers keeps of shape and order
		if elementwise(s.Op) && len(s.Inputs) == 1 {
			through = list[s.Inputs[0]]
			w.bytes(through.hash[:])
		} else {
			for _, in := range s.Inputs {
				if in == lower.NoTensor {
					w.number(0)
					continue
				}
				w.text(list[in].key())
			}
		}
		if w.err != nil {
			return nil, w.err
		}
		whole := w.sum()
		for k, out := range s.Outputs {
			if out == lower.NoTensor {
				continue
			}
			t := &p.Tensors[out]
			w := newWriter("output")
			w.bytes(whole[:])
			w.number(uint64(k))
			w.number(uint64(t.DType))
			w.write(reflect.ValueOf(t.Encoding))
			m := meaning{w.sum(), r.shape(out), through.to, through.order}
			if m.to != nil || m.order != nil {
				m.own = through.own
			}
			list[out] = m
		}
	}
	return list, nil
}

// moved is the meaning of what a step computes that changes nothing but shape or order of axes.
func (r *reading) moved(s *lower.Step, list []meaning) (m meaning, ok bool) {
	var g *graph.Graph
	switch op := s.Op.(type) {
	case *lower.Move:
		g = op.Graph
	case *lower.Island:
		g = op.Graph
	}
	if g == nil || len(g.Nodes()) != 1 || len(s.Outputs) != 1 || s.Outputs[0] == lower.NoTensor || len(s.Inputs) == 0 {
		return m, false
	}
	x, y := &r.p.Tensors[s.Inputs[0]], &r.p.Tensors[s.Outputs[0]]
	if x.DType != y.DType || (x.Encoding == nil) != (y.Encoding == nil) || x.Encoding != nil && *x.Encoding != *y.Encoding {
		return m, false
	}
	from, to := r.shape(s.Inputs[0]), r.shape(s.Outputs[0])
	_, known := from.Ints()
	n := g.Node(g.Nodes()[0])
	switch {
	case n.HandsOnInOrder():
		if _, ok := to.Ints(); ok && known {
			return list[s.Inputs[0]].reshaped(from, to), true
		}
	case n.Op == "Transpose":
		order := make([]int, len(from))
		for i := range order {
			order[i] = len(from) - 1 - i
		}
		for i, a := range n.AttrInts("perm") {
			order[i] = int(a)
		}
		long := slices.DeleteFunc(slices.Clone(order), func(a int) bool { return from[a].Known() && from[a].N == 1 })
		if slices.IsSorted(long) && known { // the numbers stay where they are
			return list[s.Inputs[0]].reshaped(from, to), true
		}
		return list[s.Inputs[0]].turned(order, from), true
	}
	return m, false
}

// input is the meaning of an input by its name. See turned for what it is fed where its channels stand at the other end.
func (r *reading) input(id lower.TensorID, like *reading) meaning {
	t, shape, order := &r.p.Tensors[id], r.shape(id), []int(nil)
	for _, in := range like.p.Inputs {
		x := like.shape(in)
		if like.p.Tensors[in].Name != t.Name || len(shape) != 4 || len(x) != 4 || slices.Equal(x, shape) {
			continue
		}
		for _, o := range [][]int{{0, 3, 1, 2}, {0, 2, 3, 1}} {
			if slices.Equal(graph.Shape{x[o[0]], x[o[1]], x[o[2]], x[o[3]]}, shape) {
				shape, order = x, o
				break
			}
		}
	}
	w := newWriter("input")
	w.text(t.Name)
	w.text(t.DType.String())
	return meaning{hash: w.sum(), own: shape, order: order}
}

// elementwise reports whether an operation computes every number of one of its input, the same way at every place.
func elementwise(op lower.Op) bool {
	switch op.(type) {
	case *lower.Table, *lower.Clamp, *lower.Requantize, *lower.Quantize, *lower.Dequantize:
		return true
	}
	return false
}

// writer hashes what a step is.
type writer struct {
	h   hash.Hash
	few []byte // that h has not seen yet
	buf []byte
	err error // of what has no form of bytes
}

func newWriter(what string) *writer {
	w := &writer{h: sha256.New(), few: make([]byte, 0, 256)}
	w.text(what)
	return w
}

func (w *writer) sum() (sum [sha256.Size]byte) {
	w.h.Write(w.few)
	w.h.Sum(sum[:0])
	return sum
}

func (w *writer) bytes(b []byte) {
	if w.number(uint64(len(b))); len(b) > cap(w.few)-len(w.few) {
		w.h.Write(w.few)
		w.h.Write(b)
		w.few = w.few[:0]
		return
	}
	w.few = append(w.few, b...)
}

func (w *writer) text(s string) { w.bytes([]byte(s)) }

func (w *writer) number(n uint64) {
	if len(w.few)+8 > cap(w.few) {
		w.h.Write(w.few)
		w.few = w.few[:0]
	}
	w.few = binary.LittleEndian.AppendUint64(w.few, n)
}

// step writes an operation with the attributes of its node where it has a window or factors.
func (w *writer) step(r *reading, s *lower.Step) {
	w.text(reflect.TypeOf(s.Op).String())
	w.number(uint64(len(s.Inputs)))
	switch op := s.Op.(type) {
	case *lower.Linear:
		w.linear(op, r.p.Graph, r.p.Graph.Node(s.Node), r.known)
	case *lower.Average:
		one := *op
		if op.Axes == nil {
			w.attributes(r.p.Graph.Node(s.Node))
		} else if op.ByCount != nil { // arithmetic and axes say all of it
			one.Kind = ""
		}
		w.write(reflect.ValueOf(one))
	case *lower.MaxPool:
		w.attributes(r.p.Graph.Node(s.Node))
		w.write(reflect.ValueOf(*op))
	case *lower.Simulated: // but for Why, which is for people
		w.write(reflect.ValueOf(op.Graph))
		w.write(reflect.ValueOf(op.In))
		w.write(reflect.ValueOf(op.Out))
	default:
		w.write(reflect.ValueOf(op).Elem())
	}
}

// linear writes a sum of products. A matrix of weights may lie either way, a bias of zeros is none, and limits are those of real numbers.
func (w *writer) linear(op *lower.Linear, g *graph.Graph, n *graph.Node, known *constants) {
	one := *op
	if op.Real == nil && op.Func == nil {
		one.Lo, one.Hi = 0, 0
	}
	if !slices.ContainsFunc(op.Bias, func(b int64) bool { return b != 0 }) {
		one.Bias = nil
	}
	if op.Weights != nil {
		weights, codes := *op.Weights, op.Weights.Codes.ToRowMajor()
		defer g.Forget(op.Weights.Codes)
		if either := len(codes.Shape) == 2 && !n.Gemm().TransA; !either {
			w.attributes(n)
		} else if one.Kind = ""; weights.Axis == 1 { // output channels first
			whole := tensor.Tensor{DType: codes.DType, Shape: append([]int{1}, codes.Shape...), Data: codes.Data}
			shape := []int{codes.Shape[1], codes.Shape[0]}
			codes, weights.Axis = g.Stored(&tensor.Tensor{DType: codes.DType, Shape: shape, Data: whole.ToChannelsLast().Data}), 0
		}
		one.Weights, weights.Codes = &weights, nil
		w.number(uint64(known.number(codes)))
	} else {
		w.attributes(n)
	}
	w.write(reflect.ValueOf(one))
}

// attributes writes operator and attributes of a node, in the order of names, but for those that say what is so without them.
func (w *writer) attributes(n *graph.Node) {
	w.text(strings.TrimPrefix(n.Domain+"."+n.Op, "."))
	list := slices.Clone(n.Attrs)
	arrange.Stable(list, func(a, b graph.Attr) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		a := &list[i]
		ints := a.Ints
		if a.Kind == graph.AttrInt {
			ints = []int64{a.I}
		}
		d, ok := defaults[a.Name]
		if ok && windowed[n.Op] && !slices.ContainsFunc(ints, func(x int64) bool { return x != d }) {
			continue
		}
		a.Doc = ""
		w.write(reflect.ValueOf(*a))
	}
}

// windowed are operators whose attributes are those of a window, which have the defaults: of a list, each of its numbers.
var windowed = map[string]bool{"Conv": true, "ConvTranspose": true, "MaxPool": true, "AveragePool": true}

var defaults = map[string]int64{"group": 1, "dilations": 1, "strides": 1, "pads": 0, "ceil_mode": 0, "count_include_pad": 0}

// version is that of ONNX which says what a node computes: from 13 on few operators have another meaning with the same attributes and
// inputs.
func version(n *graph.Node, opset int64) int64 {
	if n.Domain == "" && opset >= 7 && opset < 13 && stable[n.Op] {
		return 13
	}
	if n.Domain != "" || opset < 13 || strings.HasPrefix(n.Op, "Reduce") ||
		slices.Contains([]string{"AveragePool", "BatchNormalization", "DFT", "GridSample", "GroupNormalization", "Resize"}, n.Op) {
		return opset
	}
	return 13
}

// stable are operators that say the same since version 7, but for types.
var stable = map[string]bool{"Abs": true, "Add": true, "Concat": true, "Conv": true, "ConvTranspose": true, "Div": true, "Exp": true,
	"Flatten": true, "Gather": true, "Identity": true, "LeakyRelu": true, "MatMul": true, "Mul": true, "Neg": true, "Pow": true, "Relu": true,
	"Reshape": true, "Sigmoid": true, "Sqrt": true, "Sub": true, "Tanh": true, "Tile": true, "Transpose": true}

// graph writes what its outputs mean.
func (w *writer) graph(g *graph.Graph) {
	order, err := g.Order()
	if err != nil {
		w.err = err
		return
	}
	values := make([][sha256.Size]byte, g.NumValues())
	hashed := make([]bool, g.NumValues())
	for i, v := range g.Inputs {
		if g.Const(v) == nil {
			in := newWriter("input")
			in.number(uint64(i))
			in.text(g.Value(v).DType.String())
			values[v], hashed[v] = in.sum(), true
		}
	}
	of := func(to *writer, v graph.ValueID) {
		switch {
		case v == graph.NoValue:
			to.text("nothing")
			return
		case !hashed[v]:
			c := newWriter("constant")
			if c.write(reflect.ValueOf(g.Const(v))); c.err != nil {
				w.err = c.err
			}
			values[v], hashed[v] = c.sum(), true
		}
		to.bytes(values[v][:])
	}
	for _, id := range order {
		n := g.Node(id)
		one := newWriter("node")
		one.attributes(n)
		one.number(uint64(version(n, g.Opset(n.Domain))))
		for _, v := range n.Inputs {
			of(one, v)
		}
		if one.err != nil {
			w.err = one.err
		}
		whole := one.sum()
		for k, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			out := newWriter("output")
			out.bytes(whole[:])
			out.number(uint64(k))
			values[v], hashed[v] = out.sum(), true
		}
	}
	for _, v := range g.Outputs {
		of(w, v)
	}
}

// write writes plain data: numbers by their bits, tensors row-major, graphs by what their outputs mean.
func (w *writer) write(v reflect.Value) {
	if v.Kind() == reflect.Pointer && v.CanInterface() {
		switch x := v.Interface().(type) {
		case *tensor.Tensor:
			w.tensor(x)
			return
		case *graph.Graph:
			if w.number(uint64(truth(x != nil))); x != nil {
				w.graph(x)
			}
			return
		}
	}
	switch k := v.Kind(); {
	case k == reflect.Bool:
		w.number(uint64(truth(v.Bool())))
	case v.CanInt():
		w.number(uint64(v.Int()))
	case v.CanUint():
		w.number(v.Uint())
	case v.CanFloat():
		w.number(math.Float64bits(v.Float()))
	case k == reflect.String:
		w.text(v.String())
	case k == reflect.Slice || k == reflect.Array:
		w.number(uint64(v.Len()))
		for i := range v.Len() {
			w.write(v.Index(i))
		}
	case k == reflect.Struct:
		for i := range v.NumField() {
			w.write(v.Field(i))
		}
	case k == reflect.Pointer:
		if w.number(uint64(truth(!v.IsNil()))); !v.IsNil() {
			w.write(v.Elem())
		}
	default:
		w.err = fmt.Errorf("%s cannot be compared", v.Type())
	}
}

func (w *writer) tensor(t *tensor.Tensor) {
	if w.number(uint64(truth(t != nil))); t == nil {
		return
	}
	w.text(t.Type())
	b, err := binary.Append(w.buf[:0], binary.LittleEndian, t.ToRowMajor().Data)
	if err != nil { // texts
		b = fmt.Appendf(b[:0], "%q", t.Data)
	}
	w.buf = b
	w.bytes(b)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
