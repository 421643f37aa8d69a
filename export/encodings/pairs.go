package encodings

import (
	"fmt"
	"math"
	"slices"

	"qwb/export/table"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
)

// Paired says what Pairs did.
type Paired struct {
	Tensors int // that have a pair now
	Floats  int // entries that say float
	Fused   int // entries of what an activation reads alone, with the encoding behind that
	Biases  int // entries of 32 bits, which follow from the scales of an operator's input and weights
	// Unknown are the names of entries that no tensor of the model has.
	Unknown []string
}

// Pairs gives the float model that encodings of version 0.6.1, 1.0.0, 2.0.0 or 2.1.0 are of a QuantizeLinear and a DequantizeLinear behind
// every tensor that has an entry of integers. g is changed. What the file does not say clearly, and integers that ONNX has no type for, are
// errors that name the tensor.
func Pairs(g *graph.Graph, file []byte) (*Paired, error) {
	x := &examination{}
	if err := x.read(file); err != nil {
		return nil, err
	}
	if len(x.Found) > 0 {
		return nil, fmt.Errorf("encodings of %s: one of %s, %s, %s, %s is wanted", x.Found[0].Text, v061, v100, v200, v210)
	}
	if len(x.Entries) == 0 {
		return nil, fmt.Errorf("there are no encodings in it")
	}
	p, seen := &Paired{}, map[string]bool{}
	for i := range x.Entries {
		e := &x.Entries[i]
		v, known := g.Lookup(e.Name)
		switch {
		case seen[e.Name]:
			return nil, fmt.Errorf("%s: it has two encodings", e.Name)
		case e.Fault != "":
			return nil, fmt.Errorf("%s: %s", e.Name, e.Fault)
		case !known:
			p.Unknown = append(p.Unknown, e.Name)
		case e.Float:
			p.Floats++
		case e.Bits == 32 && g.Const(v) != nil:
			p.Biases++
		case x.behind(g, v, e):
			p.Fused++
		default:
			if err := pair(g, v, e); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			p.Tensors++
		}
		seen[e.Name] = true
	}
	return p, nil
}

// behind reports whether a tensor has the encoding of what an activation makes of it: the two are computed together, and rounded once.
func (x *examination) behind(g *graph.Graph, v graph.ValueID, e *table.Entry) bool {
	use, sole := g.SoleUse(v)
	if !sole || g.Const(v) != nil || g.IsInput(v) {
		return false
	}
	n := g.Node(use.Node)
	if op := target.AIMET.Op(n); op == nil || op.Role != target.Activation {
		return false
	}
	i := slices.IndexFunc(x.Entries, func(o table.Entry) bool { return o.Name == g.Value(n.Outputs[0]).Name })
	return i >= 0 && x.Entries[i].Bits == e.Bits && slices.Equal(x.Entries[i].Scale, e.Scale) && slices.Equal(x.Entries[i].Offset, e.Offset)
}

// codes are the integer types of ONNX by bits, signed and unsigned.
var codes = map[int][2]tensor.DType{2: {tensor.Int2, tensor.Uint2}, 4: {tensor.Int4, tensor.Uint4}, 8: {tensor.Int8, tensor.Uint8},
	16: {tensor.Int16, tensor.Uint16}}

// pair puts a pair behind a tensor.
func pair(g *graph.Graph, v graph.ValueID, e *table.Entry) error {
	types, ok := codes[e.Bits]
	if !ok {
		return fmt.Errorf("integers of %d bits, which ONNX has no type for", e.Bits)
	}
	val := *g.Value(v)
	if val.DType != tensor.Float32 && val.DType != tensor.Undefined {
		return fmt.Errorf("an encoding of a tensor of %s", val.DType)
	}
	if len(e.Scale) == 0 || len(e.Offset) != len(e.Scale) {
		return fmt.Errorf("%d scales and %d offsets", len(e.Scale), len(e.Offset))
	}
	attrs, shape, err := along(g, v, e)
	if err != nil {
		return err
	}
	half := math.Ldexp(1, e.Bits-1)
	signed := !slices.ContainsFunc(e.Offset, func(o float64) bool { return o != -half }) // the zero point of signed integers is 0
	d, zeros := types[1], make([]int32, len(e.Offset))
	if signed {
		d = types[0]
	}
	scales := make([]float32, len(e.Scale))
	for i, s := range e.Scale {
		scales[i] = float32(s)
		if !(scales[i] > 0) || math.IsInf(float64(scales[i]), 0) {
			return fmt.Errorf("scale %g", s)
		}
		if z := -e.Offset[i]; !signed {
			if z < 0 || z > 2*half-1 || z != math.Trunc(z) {
				return fmt.Errorf("offset %g is no zero point of %d bits", e.Offset[i], e.Bits)
			}
			zeros[i] = int32(z)
		}
	}
	s := g.AddConst(g.FreshName(val.Name+"_scale"), tensor.FromF32(scales, shape...))
	z := g.AddConst(g.FreshName(val.Name+"_zero_point"), tensor.New(d, shape...).WithIntegers(zeros))
	return insert(g, v, []graph.ValueID{s, z}, d, attrs)
}

// insert adds the two nodes. What read the tensor reads what dequantizes; an output keeps its name.
func insert(g *graph.Graph, v graph.ValueID, params []graph.ValueID, d tensor.DType, attrs []graph.Attr) error {
	val := *g.Value(v)
	add := func(name string, d tensor.DType) graph.ValueID {
		y, _ := g.AddValue(graph.Value{Name: g.FreshName(val.Name + name), DType: d, Shape: val.Shape}) // the name is a fresh one
		return y
	}
	domain := ""
	if g.Opset("") < 21 && (d.Bits() != 8 || len(attrs) > 0 && g.Opset("") < 13) {
		domain = "com.microsoft" // older versions of ONNX have no such pair
		if g.Opset(domain) == 0 {
			g.Opsets = append(g.Opsets, graph.Opset{Domain: domain, Version: 1})
		}
	}
	from, back := v, add("_dequantized", val.DType)
	if g.IsOutput(v) {
		from = add("_float", val.DType)
		p := g.Producer(v)
		if p == graph.NoNode {
			return fmt.Errorf("it is an output of the model that no operator computes")
		}
		if err := g.SetOutput(p, slices.Index(g.Node(p).Outputs, v), from); err != nil {
			return err
		}
		back = v
	} else {
		g.ReplaceUses(v, back)
	}
	q := add("_quantized", d)
	for _, n := range []graph.Node{
		{Op: "QuantizeLinear", Inputs: append([]graph.ValueID{from}, params...), Outputs: []graph.ValueID{q}},
		{Op: "DequantizeLinear", Inputs: append([]graph.ValueID{q}, params...), Outputs: []graph.ValueID{back}}} {
		n.Name, n.Attrs, n.Domain = g.FreshName(val.Name+"_"+n.Op), attrs, domain
		if _, err := g.AddNode(n); err != nil {
			return err
		}
	}
	return nil
}

// along is where several scales of an entry lie: attributes of the pair, and the shape of its scales.
func along(g *graph.Graph, v graph.ValueID, e *table.Entry) ([]graph.Attr, []int, error) {
	shape := g.Value(v).Shape
	if len(e.Scale) == 1 && e.Block == 0 {
		return nil, nil, nil
	}
	axis := e.Axis
	for _, u := range g.Uses(v) {
		if a, ok := target.OutputAxis(g, g.Node(u.Node), u.Index); ok && axis < 0 {
			axis = a
		}
	}
	if axis < 0 || axis >= len(shape) || !shape[axis].Known() {
		return nil, nil, fmt.Errorf("%d scales, and nothing says along which axis", len(e.Scale))
	}
	if e.Block == 0 {
		if int64(len(e.Scale)) != shape[axis].N {
			return nil, nil, fmt.Errorf("%d scales along axis %d of %s", len(e.Scale), axis, shape)
		}
		return []graph.Attr{graph.Int("axis", int64(axis))}, []int{len(e.Scale)}, nil
	}
	if e.Axis < 0 {
		return nil, nil, fmt.Errorf("blocks of %d, and version %s does not say along which axis", e.Block, v100)
	}
	of, n := make([]int, len(shape)), 1
	for i, d := range shape {
		of[i] = int(d.N)
		if i == axis {
			of[i] = (of[i] + e.Block - 1) / e.Block
		}
		n *= of[i]
	}
	if n != len(e.Scale) {
		return nil, nil, fmt.Errorf("%d scales for blocks of %d along axis %d of %s", len(e.Scale), e.Block, axis, shape)
	}
	return []graph.Attr{graph.Int("axis", int64(axis)), graph.Int("block_size", int64(e.Block))}, of, nil
}
