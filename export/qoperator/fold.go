package qoperator

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/qdq"
)

const (
	quantizeLinear   = "QuantizeLinear"
	dequantizeLinear = "DequantizeLinear"
	microsoft        = "com.microsoft"
)

// moving lists the operators of one data input that select and move elements, so that codes take the same way as the numbers that they
// stand for; Resize does to the nearest only. ONNX Runtime has kernels of all of them for both types of codes.
// Identity and Dropout are not there any more.
var moving = []string{"Expand", "Flatten", "Gather", "GatherElements", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Resize",
	"Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}

// limits are the codes that a type holds.
var limits = map[tensor.DType][2]int32{tensor.Uint8: {0, 255}, tensor.Int8: {-128, 127}}

// Fold rewrites a graph of Q/DQ pairs, as onnxqdq.Build makes it, in place: a float operator between DequantizeLinear and QuantizeLinear
// becomes the operator on integers, one that only moves elements reads and gives codes, and an activation between an operator and its Q
// becomes limits of the codes, or nothing where the type ends there by itself. What has no such form stays as it is; left says why, by the
// name of the node, in graph order.
func Fold(g *graph.Graph) (left []Left, err error) {
	f := &folder{g: g}
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	for _, id := range order {
		if !g.Alive(id) || !f.standard(id) {
			continue
		}
		n := g.Node(id)
		name, why := n.Name, error(nil)
		switch op := forms[n.Op]; {
		case op != "":
			why = f.operator(id, op)
		case slices.Contains(moving, n.Op):
			why = f.move(id)
		case n.Op == "Relu" || n.Op == "Clip":
			why = f.limit(id)
		default:
			continue
		}
		if why != nil {
			left = append(left, Left{name, why})
		}
	}
	f.sweep(order)
	if f.contrib && g.Opset(microsoft) == 0 {
		g.Opsets = append(g.Opsets, graph.Opset{Domain: microsoft, Version: 1})
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return left, nil
}

// Left is a node that keeps its Q/DQ form, with the reason.
type Left struct {
	Node string
	Why  error
}

// forms are the operators on integers by the float operators that they are made of.
var forms = inverse()

func inverse() map[string]string {
	m := map[string]string{}
	for name, form := range qdq.QOperators {
		if name != qdq.ProductOfFloats {
			m[form.Op] = name
		}
	}
	return m
}

type folder struct {
	g       *graph.Graph
	contrib bool // something of com.microsoft was added
}

func (f *folder) standard(id graph.NodeID) bool {
	n := f.g.Node(id)
	return n.IsONNX()
}

// codes is a tensor of integers with its scale and zero point.
type codes struct {
	x, scale, zero graph.ValueID
	dq             *graph.Node // the DequantizeLinear that gives the numbers; nil behind an operator
}

func (f *folder) dtype(c codes) tensor.DType { return f.g.Value(c.x).DType }

// of returns the codes behind the DequantizeLinear that gives a value.
func (f *folder) of(v graph.ValueID) (codes, bool) {
	p := f.g.Producer(v)
	if p == graph.NoNode || !f.standard(p) {
		return codes{}, false
	}
	n := f.g.Node(p)
	if n.Op != dequantizeLinear || n.Input(2) == graph.NoValue {
		return codes{}, false
	}
	return codes{n.Inputs[0], n.Inputs[1], n.Inputs[2], n}, true
}

// end is the Q that alone reads a value: its codes, the ends that the activations in between leave of them, these activations and the Q.
type end struct {
	y         codes
	low, high int32
	nodes     []graph.NodeID
}

// behind follows a value to its Q.
func (f *folder) behind(v graph.ValueID) (*end, error) {
	var acts []graph.NodeID
	for {
		use, sole := f.g.SoleUse(v)
		if !sole || use.Index != 0 {
			return nil, errors.New("its result is not read by one QuantizeLinear alone")
		}
		n := f.g.Node(use.Node)
		switch {
		case !f.standard(use.Node):
			return nil, fmt.Errorf("its result is read by %s", n.Op)
		case n.Op == "Relu" || n.Op == "Clip":
			acts = append(acts, use.Node)
			v = n.Outputs[0]
			continue
		case n.Op != quantizeLinear || n.Input(2) == graph.NoValue:
			return nil, fmt.Errorf("its result is read by %s", n.Op)
		}
		e := &end{y: codes{x: n.Outputs[0], scale: n.Inputs[1], zero: n.Inputs[2]}, nodes: append(acts, use.Node)}
		return e, f.limits(e, acts)
	}
}

// staysFloat reports whether nothing quantizes v, activations in between or not.
func (f *folder) staysFloat(v graph.ValueID) bool {
	return !slices.ContainsFunc(f.g.Uses(v), func(u graph.Use) bool {
		n := f.g.Node(u.Node)
		return n.Op == quantizeLinear || (n.Op == "Relu" || n.Op == "Clip") && !f.staysFloat(n.Outputs[0])
	})
}

// limits finds what a chain of activations leaves of the codes.
func (f *folder) limits(e *end, acts []graph.NodeID) error {
	ends, ok := limits[f.dtype(e.y)]
	scale, zero := f.g.Const(e.y.scale), f.g.Const(e.y.zero)
	switch {
	case !ok:
		return fmt.Errorf("codes of type %s: operators on integers have uint8 and int8", f.dtype(e.y))
	case scale == nil || zero == nil || scale.DType != tensor.Float32 || scale.Len() != 1 || zero.Len() != 1:
		return errors.New("scale and zero point of its result are not one constant each")
	}
	e.low, e.high = ends[0], ends[1]
	codec := qmath.Codec{Format: qmath.Format{Bits: 8, QMin: e.low, QMax: e.high}, Scale: scale.F32()[0], ZeroPoint: zero.Integers()[0]}
	for _, id := range acts {
		n := f.g.Node(id)
		var bounds [2]*float32
		if n.Op == "Relu" {
			bounds[0] = new(float32)
		}
		for i := 1; n.Op == "Clip" && i <= 2; i++ {
			v := n.Input(i)
			if v == graph.NoValue {
				continue
			}
			c := f.g.Const(v)
			if c == nil || c.DType != tensor.Float32 || c.Len() != 1 {
				return fmt.Errorf("%s %q has limits that are not constants", n.Op, n.Name)
			}
			bounds[i-1] = &c.F32()[0]
		}
		// Rounding never turns an order around: the code of a limited number is the limited code.
		if bounds[0] != nil {
			at := codec.Quantize(*bounds[0])
			e.low, e.high = max(e.low, at), max(e.high, at)
		}
		if bounds[1] != nil {
			at := codec.Quantize(*bounds[1])
			e.low, e.high = min(e.low, at), min(e.high, at)
		}
	}
	return nil
}

// finish puts node n, whose output is to be the codes of e, in the place of the float operator id and of what stands behind it.
func (f *folder) finish(id graph.NodeID, n graph.Node, e *end) error {
	for i := len(e.nodes) - 1; i >= 0; i-- {
		f.g.RemoveNode(e.nodes[i])
	}
	f.g.RemoveNode(id)
	y := e.y.x
	ends := limits[f.dtype(e.y)]
	if e.low <= ends[0] && e.high >= ends[1] {
		n.Outputs = []graph.ValueID{y}
		_, err := f.g.AddNode(n)
		return err
	}
	v := *f.g.Value(y)
	all, err := f.g.AddValue(graph.Value{Name: f.g.FreshName(v.Name + "_unlimited"), DType: v.DType, Shape: v.Shape})
	if err != nil {
		return err
	}
	n.Outputs = []graph.ValueID{all}
	if _, err := f.g.AddNode(n); err != nil {
		return err
	}
	return f.clip(v.Name, all, y, e)
}

func (f *folder) clip(name string, from, to graph.ValueID, e *end) error {
	d := f.dtype(e.y)
	in := []graph.ValueID{from}
	for _, b := range []struct {
		what string
		code int32
	}{{"_low", e.low}, {"_high", e.high}} {
		in = append(in, f.g.AddConst(name+b.what, tensor.New(d).WithIntegers([]int32{b.code})))
	}
	_, err := f.g.AddNode(graph.Node{Name: f.g.FreshName(name + "_Clip"), Op: "Clip", Inputs: in, Outputs: []graph.ValueID{to}})
	return err
}

// equal reports whether two tensors of codes have one scale and zero point.
func (f *folder) equal(a, b codes) bool {
	same := func(v, w graph.ValueID) bool {
		if v == w {
			return true
		}
		x, y := f.g.Const(v), f.g.Const(w)
		return x != nil && y != nil && tensor.Equal(x, y)
	}
	return same(a.scale, b.scale) && same(a.zero, b.zero)
}

// move lets an operator that only moves elements read and give codes. All that it gives must be quantized again as what it reads is.
func (f *folder) move(id graph.NodeID) error {
	n := f.g.Node(id)
	x, ok := f.of(n.Inputs[0])
	if !ok {
		return nil // it moves floats
	}
	if _, ok := limits[f.dtype(x)]; !ok {
		return fmt.Errorf("codes of type %s: operators on integers have uint8 and int8", f.dtype(x))
	}
	if n.Op == "Resize" && !f.g.Passive(id) {
		return errors.New("it computes new numbers: kernels of integers do not round them as Q does")
	}
	var ends []*end
	for i, v := range n.Outputs {
		if v == graph.NoValue || len(f.g.Uses(v)) == 0 && !f.g.IsOutput(v) {
			ends = append(ends, nil)
			continue
		}
		e, err := f.behind(v)
		switch {
		case err != nil:
			return err
		case len(e.nodes) > 1:
			return fmt.Errorf("an activation follows %s", n.Op)
		case !f.equal(x, e.y) || f.dtype(x) != f.dtype(e.y):
			return fmt.Errorf("output %d has another scale than the input", i)
		}
		ends = append(ends, e)
	}
	for i, e := range ends {
		if e == nil {
			if n.Outputs[i] != graph.NoValue {
				f.g.Value(n.Outputs[i]).DType = f.dtype(x)
			}
			continue
		}
		f.g.RemoveNode(e.nodes[0])
		if err := f.g.SetOutput(id, i, e.y.x); err != nil {
			return err
		}
	}
	f.g.SetInput(id, 0, x.x)
	return nil
}

// limit makes limits of codes of an activation that stands alone between two grids that are one.
func (f *folder) limit(id graph.NodeID) error {
	n := f.g.Node(id)
	x, ok := f.of(n.Inputs[0])
	if !ok {
		return nil // it follows an operator, or computes with floats
	}
	e := &end{}
	use, sole := f.g.SoleUse(n.Outputs[0])
	if !sole {
		return errors.New("its result is not read by one QuantizeLinear alone")
	}
	q := f.g.Node(use.Node)
	if q.Op != quantizeLinear || !f.standard(use.Node) || q.Input(2) == graph.NoValue {
		return fmt.Errorf("its result is read by %s", q.Op)
	}
	e.y, e.nodes = codes{x: q.Outputs[0], scale: q.Inputs[1], zero: q.Inputs[2]}, []graph.NodeID{use.Node}
	if err := f.limits(e, []graph.NodeID{id}); err != nil {
		return err
	}
	if !f.equal(x, e.y) || f.dtype(x) != f.dtype(e.y) {
		return errors.New("its result has another scale than its input")
	}
	name := n.Name
	f.g.RemoveNode(use.Node)
	f.g.RemoveNode(id)
	return f.clip(name, x.x, e.y.x, e)
}

// sweep takes out what nobody reads any more: every DequantizeLinear before its operator, and pairs that would change nothing.
func (f *folder) sweep(order []graph.NodeID) {
	for _, id := range order {
		if !f.g.Alive(id) || !f.standard(id) || f.g.Node(id).Op != quantizeLinear {
			continue
		}
		n := f.g.Node(id)
		x, ok := f.of(n.Inputs[0])
		if y := (codes{x: n.Outputs[0], scale: n.Inputs[1], zero: n.Input(2)}); ok && y.zero != graph.NoValue && f.dtype(x) == f.dtype(y) &&
			f.equal(x, y) {
			f.g.ReplaceUses(y.x, x.x)
			f.g.RemoveNode(id)
		}
	}
	for i := len(order) - 1; i >= 0; i-- {
		id := order[i]
		if !f.g.Alive(id) || !f.standard(id) || f.g.Node(id).Op != dequantizeLinear {
			continue
		}
		if v := f.g.Node(id).Outputs[0]; len(f.g.Uses(v)) > 0 || f.g.IsOutput(v) || f.g.Captured(v) {
			continue
		}
		in := slices.Clone(f.g.Node(id).Inputs)
		f.g.RemoveNode(id)
		for _, v := range in {
			if v != graph.NoValue {
				f.g.RemoveValue(v)
			}
		}
	}
	for _, v := range f.g.Values() {
		if f.g.Const(v) != nil && !f.g.Captured(v) {
			f.g.RemoveValue(v)
		}
	}
}
