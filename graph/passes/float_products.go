package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// FloatProducts writes MatMulInteger as products of dequantized factors, where the scale of the sums shows what they stand for:
// IntegerProducts' form, and that of onnxruntime.quantization. What is computed of the sums in another way stays as it is. It returns how
// many it wrote.
func FloatProducts(g *graph.Graph) (int, error) {
	written := 0
	for _, id := range g.Nodes() {
		if !g.Alive(id) {
			continue
		}
		p, rest, ok := integerProduct(g, g.Node(id))
		if !ok {
			continue
		}
		if err := p.writeFloat(id, rest); err != nil {
			return written, g.ErrorAt("", id, err)
		}
		written++
	}
	return written, nil
}

// integerProduct reads a MatMulInteger whose sums become numbers by scale * scales; rest are the nodes between it and its result.
func integerProduct(g *graph.Graph, n *graph.Node) (p product, rest []graph.NodeID, ok bool) {
	p = product{g: g, name: n.Name, codes: n.Input(0), zero: n.Input(2), weights: n.Input(1), weightZero: n.Input(3), bias: graph.NoValue}
	if n.Op != "MatMulInteger" || n.Domain != "" {
		return p, nil, false
	}
	cast, ok := soleReader(g, n.Output(0), "Cast")
	if !ok || cast.AttrInt("to", 0) != int64(tensor.Float32) {
		return p, nil, false
	}
	first, ok := soleReader(g, cast.Outputs[0], "Mul")
	if !ok {
		return p, nil, false
	}
	rest = []graph.NodeID{cast.ID, first.ID}
	p.y = first.Outputs[0]
	factor := other(first, cast.Outputs[0])
	if m := producerOf(g, factor, "Mul"); m != nil && p.twoScales(m.Inputs[0], m.Inputs[1]) {
		return p, rest, true
	}
	second, ok := soleReader(g, p.y, "Mul") // by one scale after the other
	if !ok {
		return p, nil, false
	}
	p.y = second.Outputs[0]
	return p, append(rest, second.ID), p.twoScales(factor, other(second, first.Outputs[0]))
}

// twoScales tells the scale of the codes from those of the weights.
func (p *product) twoScales(a, b graph.ValueID) bool {
	if !p.isScale(p.codes, a, p.zero) {
		a, b = b, a
	}
	p.scale, p.weightScale = a, b
	if !p.isScale(p.codes, a, p.zero) {
		return false
	}
	w, s := p.weights, p.g.Const(b)
	if turn := producerOf(p.g, w, "Transpose"); turn != nil && p.g.Const(turn.Inputs[0]) != nil {
		w = turn.Inputs[0]
	}
	if c := p.g.Const(w); c != nil {
		return s != nil && s.DType == tensor.Float32 && (s.Len() == 1 || len(s.Shape) == 1) && len(c.Shape) == 2
	}
	return p.isScale(w, b, p.weightZero)
}

// isScale reports whether codes are those of a scale and zero point of run time.
func (p *product) isScale(codes, scale, zero graph.ValueID) bool {
	if p.g.Producer(codes) == graph.NoNode || p.g.Const(scale) != nil {
		return false
	}
	switch n := p.g.Node(p.g.Producer(codes)); n.Op {
	case "DynamicQuantizeLinear":
		return scale == n.Output(1) && zero == n.Output(2)
	case "QuantizeLinear":
		return scale == n.Input(1) && zero == n.Input(2)
	}
	return false
}

// soleReader is the node that alone reads v, with an operator.
func soleReader(g *graph.Graph, v graph.ValueID, op string) (*graph.Node, bool) {
	if v == graph.NoValue {
		return nil, false
	}
	u, sole := g.SoleUse(v)
	if !sole || g.Node(u.Node).Op != op || g.Node(u.Node).Domain != "" {
		return nil, false
	}
	return g.Node(u.Node), true
}

// other is the operand of a node of two that is not v.
func other(n *graph.Node, v graph.ValueID) graph.ValueID {
	if n.Inputs[0] == v {
		return n.Inputs[1]
	}
	return n.Inputs[0]
}

// writeFloat puts a product of dequantized factors in the place of node id and those of rest.
func (p *product) writeFloat(id graph.NodeID, rest []graph.NodeID) error {
	g := p.g
	for _, n := range append(rest, id) {
		g.RemoveNode(n)
	}
	for _, u := range slices.Clone(g.Uses(p.scale)) { // the product of scales, if nobody else reads it
		if n := g.Node(u.Node); n.Op == "Mul" && len(g.Uses(n.Outputs[0])) == 0 && !g.IsOutput(n.Outputs[0]) {
			g.RemoveNode(n.ID)
			break
		}
	}
	w := &nodeWriter{g: g, name: p.name}
	data := w.dequantized("_data", p.codes, p.scale, p.zero, -1)
	weights, axis, turn := p.weights, 1, producerOf(g, p.weights, "Transpose")
	if turn != nil && g.Const(turn.Inputs[0]) != nil {
		weights, axis = turn.Inputs[0], 0
	} else {
		turn = nil
	}
	if c := g.Const(p.weightScale); c == nil {
		axis = -1
	} else if c.Len() == 1 {
		axis = -1
		if len(c.Shape) > 0 {
			one := tensor.New(tensor.Float32)
			one.F32()[0] = c.F32()[0]
			p.weightScale = g.AddConst(p.name+"_scale", one)
		}
	}
	right := w.dequantized("_weights", weights, p.weightScale, p.weightZero, axis)
	if turn != nil && p.writeGemm(w, data, right) {
		return w.err
	}
	if turn != nil {
		right = w.value("Transpose", "_turned", tensor.Float32, g.Value(turn.Outputs[0]).Shape, turn.Attrs, right)
	}
	w.node("MatMul", "", nil, p.y, data, right)
	return w.err
}

// writeGemm writes a product of two matrices, of which right has the columns as its rows, as a Gemm, with the constant that alone is added
// behind it. It reports whether they are matrices.
func (p *product) writeGemm(w *nodeWriter, data, right graph.ValueID) bool {
	if rank, known := pattern.Rank(p.g, p.codes); !known || rank != 2 {
		return false
	}
	y, in := p.y, []graph.ValueID{data, right}
	if add, sole := soleReader(p.g, y, "Add"); sole && p.g.Const(other(add, y)) != nil {
		in = append(in, other(add, y))
		y = add.Outputs[0]
		p.g.RemoveNode(add.ID)
	}
	w.node("Gemm", "", []graph.Attr{graph.Int("transB", 1)}, y, in...)
	return true
}

// dequantized adds a DequantizeLinear; an axis below 0 stands for one scale.
func (w *nodeWriter) dequantized(suffix string, codes, scale, zero graph.ValueID, axis int) graph.ValueID {
	in := []graph.ValueID{codes, scale}
	if zero != graph.NoValue {
		in = append(in, zero)
	}
	var attrs []graph.Attr
	if axis >= 0 {
		attrs = []graph.Attr{graph.Int("axis", int64(axis))}
	}
	return w.value("DequantizeLinear", suffix+"_DequantizeLinear", tensor.Float32, w.g.Value(codes).Shape, attrs, in...)
}
