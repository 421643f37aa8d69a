package qdq

import (
	"context"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// Training with quantization writes its fake quantization in more ways than as a pair of Q and DQ. These steps write them as such pairs,
// before the normal form is taken, which would fold them into constants or tear them apart:
//
//   - a Clip of the integers between Q and DQ (PyTorch's range of 0 to 127, Brevitas' narrow ranges and fewer bits than the type has);
//   - Quant of QONNX;
//   - arithmetic: x / s, Clip and Round in either order, times s, with a zero point or the lowest number added before and after (LSQ and
//     other quantizers written by hand).
//
// Nodes of a pair that has fewer integers than its type carry the range as the attributes lowAttr and highAttr.
const (
	lowAttr  = "qwb_lowest_integer"
	highAttr = "qwb_highest_integer"
)

// faker is the state of one rewriting.
type faker struct {
	g      *graph.Graph
	folded *graph.Graph // a clone in which what follows from constants is one
	values int          // of g when it was cloned
}

// writeFakes writes all fake quantization of g as pairs and reports what Read is to warn of: roundings that a pair does not have.
func writeFakes(ctx context.Context, g *graph.Graph) (upward int, err error) {
	first := []passes.Pass{passes.ConstantNodes, passes.NoOps, passes.Bounds}
	if _, err := passes.Run(ctx, g, first); err != nil {
		return 0, err
	}
	f := &faker{g: g, folded: g.Clone(), values: g.NumValues()}
	if _, err := passes.Run(ctx, f.folded, []passes.Pass{passes.FoldConstants}); err != nil {
		return 0, err
	}
	order, err := g.Order()
	if err != nil {
		return 0, err
	}
	for _, id := range order {
		if !g.Alive(id) {
			continue
		}
		n := g.Node(id)
		switch {
		case isDequantize(n):
			err = f.clipped(id)
		case n.Op == "Quant" && qonnx(n.Domain):
			err = f.quant(id)
		case (n.Op == "Round" || n.Op == "Floor") && standard(n.Domain):
			var found bool
			if found, err = f.arithmetic(id); found && n.Op == "Floor" {
				upward++
			}
		}
		if err != nil {
			return 0, g.ErrorAt(stage, id, err)
		}
	}
	return upward, nil
}

func qonnx(domain string) bool {
	return domain == "qonnx.custom_op.general" || domain == "onnx.brevitas" || domain == "finn.custom_op.general"
}

// constant returns the value of a tensor that is constant or follows from constants.
func (f *faker) constant(v graph.ValueID) *tensor.Tensor {
	if v == graph.NoValue {
		return nil
	}
	if t := f.g.Const(v); t != nil || int(v) >= f.values {
		return t
	}
	return f.folded.Const(v)
}

// numbers are the elements of a constant tensor of real numbers or integers.
func (f *faker) numbers(v graph.ValueID) ([]float64, []int) {
	t := f.constant(v)
	if t == nil {
		return nil, nil
	}
	t = t.ToRowMajor()
	var out []float64
	switch d := t.Data.(type) {
	case []float32:
		out = widened(d)
	case []float64:
		out = slices.Clone(d)
	case []int8:
		out = widened(d)
	case []uint8:
		out = widened(d)
	case []int16:
		out = widened(d)
	case []uint16:
		out = widened(d)
	case []int32:
		out = widened(d)
	case []int64:
		out = widened(d)
	}
	return out, t.Shape
}

func widened[T float32 | int8 | uint8 | int16 | uint16 | int32 | int64](s []T) []float64 {
	out := make([]float64, len(s))
	for i, v := range s {
		out[i] = float64(v)
	}
	return out
}

// bounds returns the limits of a Clip with constant ones; those that are absent are infinite.
func (f *faker) bounds(n *graph.Node) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(-1), math.Inf(1)
	if f.g.Opset("") < 11 {
		low, high := n.Limits()
		return float64(low), float64(high), true
	}
	for i, bound := range []*float64{&lo, &hi} {
		if v := n.Input(i + 1); v != graph.NoValue {
			x, _ := f.numbers(v)
			if len(x) != 1 {
				return lo, hi, false
			}
			*bound = x[0]
		}
	}
	return lo, hi, lo <= hi
}

// clipped takes a Clip of integers between Q and DQ, or between a constant and DQ, into their range.
func (f *faker) clipped(id graph.NodeID) error {
	dq := f.g.Node(id)
	p := f.g.Producer(dq.Inputs[0])
	if p == graph.NoNode || f.g.Node(p).Op != "Clip" || !standard(f.g.Node(p).Domain) {
		return nil
	}
	clip := f.g.Node(p)
	x := clip.Input(0)
	lo, hi, ok := f.bounds(clip)
	t := f.constant(x)
	q := f.g.Producer(x)
	if !ok || t == nil && (q == graph.NoNode || !isQuantize(f.g.Node(q))) {
		return nil
	}
	d := f.integerType(x, t, q)
	full, known := limits[d]
	if !known || d == tensor.Int32 {
		return nil
	}
	low, high := max(lo, float64(full[0])), min(hi, float64(full[1]))
	if low != math.Trunc(low) || high != math.Trunc(high) || low >= high {
		return nil
	}
	if t != nil { // constants are brought into the range here
		codes := t.ToRowMajor().Integers()
		for i, c := range codes {
			codes[i] = min(max(c, int32(low)), int32(high))
		}
		f.g.SetInput(id, 0, f.g.AddConst(f.g.Value(x).Name+"_clipped", t.ToRowMajor().WithIntegers(codes)))
		limited(f.g.Node(id), d, int32(low), int32(high))
		return nil
	}
	own := *f.g.Node(q)
	if u, sole := f.g.SoleUse(x); !sole || u.Node != p { // others read the whole range
		y, err := f.g.AddValue(graph.Value{Name: f.g.FreshName(f.g.Value(x).Name + "_clipped"), DType: d, Shape: f.g.Value(x).Shape})
		if err != nil {
			return err
		}
		if q, err = f.g.AddNode(graph.Node{Op: own.Op, Domain: own.Domain, Attrs: slices.Clone(own.Attrs), Inputs: slices.Clone(own.Inputs),
			Outputs: []graph.ValueID{y}}); err != nil {
			return err
		}
		x = y
	}
	limited(f.g.Node(q), d, int32(low), int32(high))
	for _, u := range slices.Clone(f.g.Uses(clip.Outputs[0])) {
		if isDequantize(f.g.Node(u.Node)) && u.Index == 0 {
			f.g.SetInput(u.Node, 0, x)
			limited(f.g.Node(u.Node), d, int32(low), int32(high))
		}
	}
	if clip := f.g.Node(p); len(f.g.Uses(clip.Outputs[0])) == 0 && !f.g.IsOutput(clip.Outputs[0]) {
		f.g.RemoveNode(p)
	}
	return nil
}

// integerType is the type of integers that Q gives or a constant has.
func (f *faker) integerType(x graph.ValueID, t *tensor.Tensor, q graph.NodeID) tensor.DType {
	if t != nil {
		return t.DType
	}
	if z := f.constant(f.g.Node(q).Input(2)); z != nil {
		return z.DType
	}
	if d := f.g.Value(x).DType; d != tensor.Undefined {
		return d
	}
	return tensor.Uint8
}

// limited notes at Q or DQ that it has fewer integers than its type.
func limited(n *graph.Node, d tensor.DType, low, high int32) {
	if limits[d] == [2]int32{low, high} {
		return
	}
	n.Attrs = slices.Clone(n.Attrs)
	n.SetAttr(graph.Int(lowAttr, int64(low)))
	n.SetAttr(graph.Int(highAttr, int64(high)))
}

// fakeGrid is a grid in the making: scales along an axis of a tensor of some rank, counted from its end, where there are several.
type fakeGrid struct {
	scale     []float64
	zero      []float64
	fromEnd   int // axis - rank; 0: one scale
	low, high float64
}

// pair puts Q and DQ by a grid in the place of what computes y from x. codes, where they are not nil, are the integers of x, a constant.
func (f *faker) pair(name string, x, y graph.ValueID, rank int, q *fakeGrid, codes *tensor.Tensor) (bool, error) {
	d := integersFor(q)
	if d == tensor.Undefined || !q.fits(d) {
		return false, nil
	}
	shape := []int{}
	var attrs []graph.Attr
	if q.fromEnd < 0 {
		if rank+q.fromEnd < 0 {
			return false, nil
		}
		shape, attrs = []int{len(q.scale)}, []graph.Attr{graph.Int("axis", int64(rank+q.fromEnd))}
	}
	scale, zero := tensor.New(tensor.Float32, shape...), tensor.New(d, shape...)
	z := make([]int32, len(q.scale))
	for i, s := range q.scale {
		scale.F32()[i], z[i] = float32(s), int32(q.zero[i])
	}
	zero = zero.WithIntegers(z)
	sv, zv := f.g.AddConst(name+"_scale", scale), f.g.AddConst(name+"_zero_point", zero)
	low, high := int32(q.low), int32(q.high)
	var integers graph.ValueID
	if codes != nil {
		whole := tensor.New(d, codes.Shape...)
		list := make([]int32, codes.Len())
		for i, c := range codes.F32() {
			list[i] = int32(c)
		}
		integers = f.g.AddConst(name+"_quantized", whole.WithIntegers(list))
	} else {
		var err error
		if integers, err = f.g.AddValue(graph.Value{Name: f.g.FreshName(name + "_quantized"), DType: d, Shape: f.g.Value(x).Shape}); err != nil {
			return false, err
		}
		id, err := f.g.AddNode(graph.Node{Op: "QuantizeLinear", Attrs: attrs, Inputs: []graph.ValueID{x, sv, zv},
			Outputs: []graph.ValueID{integers}})
		if err != nil {
			return false, err
		}
		limited(f.g.Node(id), d, low, high)
	}
	old := f.g.Producer(y)
	spare, err := f.g.AddValue(graph.Value{Name: f.g.FreshName(name + "_before")})
	if err != nil {
		return false, err
	}
	if err := f.g.SetOutput(old, 0, spare); err != nil {
		return false, err
	}
	id, err := f.g.AddNode(graph.Node{Op: "DequantizeLinear", Attrs: slices.Clone(attrs), Inputs: []graph.ValueID{integers, sv, zv},
		Outputs: []graph.ValueID{y}})
	if err != nil {
		return false, err
	}
	f.g.Value(y).DType = tensor.Float32
	limited(f.g.Node(id), d, low, high)
	f.sweep(old)
	return true, nil
}

// sweep removes a node whose outputs nobody reads, and then those before it.
func (f *faker) sweep(id graph.NodeID) {
	for _, v := range f.g.Node(id).Outputs {
		if v != graph.NoValue && (len(f.g.Uses(v)) > 0 || f.g.IsOutput(v) || f.g.Captured(v)) {
			return
		}
	}
	in := slices.Clone(f.g.Node(id).Inputs)
	f.g.RemoveNode(id)
	for _, v := range in {
		if v == graph.NoValue {
			continue
		}
		if p := f.g.Producer(v); p != graph.NoNode {
			f.sweep(p)
		} else if f.g.Const(v) != nil {
			f.g.RemoveValue(v)
		}
	}
}

// integersFor is the smallest common type that holds a grid's integers.
func integersFor(q *fakeGrid) tensor.DType {
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16} {
		if l := limits[d]; q.low >= float64(l[0]) && q.high <= float64(l[1]) {
			return d
		}
	}
	return tensor.Undefined
}

// fits reports whether a type holds the zero points too, and scales and range are sound.
func (q *fakeGrid) fits(d tensor.DType) bool {
	l := limits[d]
	for i, s := range q.scale {
		if z := q.zero[i]; !(s > 0) || math.IsInf(float64(float32(s)), 0) || float32(s) == 0 || z < float64(l[0]) || z > float64(l[1]) ||
			z != math.Trunc(z) {
			return false
		}
	}
	return q.low < q.high && q.low == math.Trunc(q.low) && q.high == math.Trunc(q.high)
}
