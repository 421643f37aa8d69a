package passes

import (
	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// Names of the nodes that stand for one product end so; MatMulInteger has the name of the product. biasNode is that of package onnx, by
// which a file's MatMul and Add are known to be one Gemm.
const (
	castNode   = "_Cast"
	scalesNode = "_scales"
	scaledNode = "_scaled"
	biasNode   = "_bias"
)

// mostTerms is the most products of codes of 8 bits, of 255 and 128 at most, whose sum fits into int32.
const mostTerms = (1<<31 - 1) / (255 * 128)

// IntegerProducts writes MatMul and Gemm of dequantized factors as products of their codes, where the codes on the left have 8 bits and a
// scale that is computed when the model runs, one for all or one for each row. Those on the right are the same, with one scale, or
// constants with one scale or one for each column:
//
//	MatMulInteger(codes, weights) -> Cast to float32 -> Mul by scale * scales (rows: by scales, then by scale) -> Add of the bias
//
// It is the form that ONNX Runtime computes on integers (DynamicQuantizeMatMul, MatMulIntegerToFloat); as Q/DQ it would be multiplied in
// float. Conv of data with one scale and constant weights becomes ConvInteger in the same way. The node keeps its name. Products with
// factors (alpha, beta), a transposed left side or more terms than int32 holds for certain stay as they are, and so do those that fits
// declines. It returns how many it wrote. FloatProducts reads the form of MatMulInteger back.
func IntegerProducts(g *graph.Graph, fits func(*graph.Node) bool) (int, error) {
	written := 0
	for _, id := range g.Nodes() {
		p, ok := runTimeProduct(g, g.Node(id))
		if !ok || !fits(g.Node(id)) {
			continue
		}
		if err := p.write(id); err != nil {
			return written, g.ErrorAt("", id, err)
		}
		written++
	}
	sweepDequantized(g)
	return written, nil
}

// product is a product of codes.
type product struct {
	g           *graph.Graph
	name        string
	codes       graph.ValueID // of the data
	scale, zero graph.ValueID // of the data; the zero point may be graph.NoValue
	rows        bool          // every row of the data has a scale
	weights     graph.ValueID
	weightScale graph.ValueID // one, or one for each column
	weightZero  graph.ValueID // graph.NoValue where it is 0
	trans       bool          // the rows of the weights are the columns of the product
	bias, y     graph.ValueID // the bias may be graph.NoValue
	window      []graph.Attr  // of a Conv
	axes        int           // behind that of the channels: 0 but for a Conv
}

// runTimeProduct reads a product that IntegerProducts is about.
func runTimeProduct(g *graph.Graph, n *graph.Node) (p product, ok bool) {
	p = product{g: g, name: n.Name, bias: graph.NoValue, y: n.Output(0)}
	switch {
	case n.Domain != "" || n.Op != "MatMul" && n.Op != "Gemm" && n.Op != "Conv" || p.y == graph.NoValue:
		return p, false
	case n.Op == "Conv":
		rank, known := pattern.Rank(g, p.y)
		if p.window, p.axes, p.bias = n.Attrs, rank-2, n.Input(graph.BiasInput); !known || p.axes < 1 ||
			p.bias != graph.NoValue && g.Const(p.bias) == nil {
			return p, false
		}
	case n.Op == "Gemm":
		f := n.Gemm()
		if f.Alpha != 1 || f.Beta != 1 || f.TransA {
			return p, false
		}
		p.trans, p.bias = f.TransB, n.Input(graph.BiasInput)
	}
	data, weights := producerOf(g, n.Input(0), "DequantizeLinear"), producerOf(g, n.Input(1), "DequantizeLinear")
	if data == nil || weights == nil || data.Input(1) == graph.NoValue || weights.Input(1) == graph.NoValue {
		return p, false
	}
	p.codes, p.scale, p.zero = data.Inputs[0], data.Inputs[1], data.Input(2)
	p.weights, p.weightScale, p.weightZero = weights.Inputs[0], weights.Inputs[1], weights.Input(2)
	return p, p.dataFit(data) && p.weightsFit(weights)
}

// dataFit reports whether the codes on the left have 8 bits and scales of run time, one for all or for each row.
func (p *product) dataFit(dq *graph.Node) bool {
	if p.g.Const(p.scale) != nil || p.g.Const(p.codes) != nil || !isByte(p.g.Value(p.codes).DType) {
		return false
	}
	rank, known := pattern.Rank(p.g, p.codes)
	if size := dq.AttrInt("block_size", 0); size > 0 {
		shape := p.g.Value(p.codes).Shape
		axis, ok := graph.Axis(int(dq.AttrInt("axis", 1)), rank)
		p.rows = known && ok && axis == rank-1 && shape[axis].Known() && shape[axis].N == size
		return p.rows && p.zero == graph.NoValue && p.axes == 0
	}
	r, ok := pattern.Rank(p.g, p.scale)
	return known && rank >= 2 && ok && r == 0
}

// weightsFit reports whether the codes on the right are constants of 8 bits with one scale or one for each channel, or computed ones
// with one scale of run time.
func (p *product) weightsFit(dq *graph.Node) bool {
	w, s := p.g.Const(p.weights), p.g.Const(p.weightScale)
	if w == nil && s == nil && !p.rows && p.axes == 0 {
		rank, known := pattern.Rank(p.g, p.weights)
		scales, scalar := pattern.Rank(p.g, p.weightScale)
		shape := p.g.Value(p.weights).Shape
		return known && rank >= 2 && scalar && scales == 0 && !p.trans && isByte(p.g.Value(p.weights).DType) &&
			shape[rank-2].N <= mostTerms && dq.AttrInt("block_size", 0) == 0
	}
	if w == nil || s == nil || len(w.Shape) != p.axes+2 || !isByte(w.DType) || s.DType != tensor.Float32 || dq.AttrInt("block_size", 0) > 0 {
		return false
	}
	columns, terms, along := w.Shape[1], w.Shape[0], 1
	if p.trans || p.axes > 0 {
		columns, terms, along = w.Shape[0], tensor.Count(w.Shape[1:]), 0
	}
	if z := p.g.Const(p.weightZero); p.weightZero != graph.NoValue && (z == nil || z.DType != w.DType) {
		return false
	}
	axis, ok := graph.Axis(int(dq.AttrInt("axis", 1)), len(w.Shape))
	perColumn := len(s.Shape) == 1 && s.Len() == columns && ok && axis == along
	return terms <= mostTerms && (len(s.Shape) == 0 || perColumn)
}

// channels is a constant of one number, or one for each channel, in the form that counts along the channels of the result.
func (p *product) channels(v graph.ValueID) graph.ValueID {
	if v == graph.NoValue || len(p.g.Const(v).Shape) == 0 {
		return v
	}
	t := *p.g.Const(v).ToRowMajor()
	t.Shape = make([]int, p.axes+1)
	for i := range t.Shape {
		t.Shape[i] = 1
	}
	t.Shape[0] = p.g.Const(v).Len()
	return p.g.AddConst(p.g.FreshName(p.g.Value(v).Name+"_channels"), &t)
}

func isByte(d tensor.DType) bool { return d == tensor.Int8 || d == tensor.Uint8 }

// producerOf is the node of ai.onnx that computes v with an operator, nil if another one does.
func producerOf(g *graph.Graph, v graph.ValueID, op string) *graph.Node {
	if v == graph.NoValue || g.Producer(v) == graph.NoNode {
		return nil
	}
	if n := g.Node(g.Producer(v)); n.Op == op && n.Domain == "" {
		return n
	}
	return nil
}

// write puts the product of codes in the place of node id.
func (p *product) write(id graph.NodeID) error {
	g := p.g
	shape := g.Value(p.y).Shape
	g.RemoveNode(id)
	w := &nodeWriter{g: g, name: p.name}
	weights := p.weights
	if p.trans {
		c := g.Const(weights)
		weights = w.value("Transpose", "_Transpose", c.DType, graph.Static(c.Shape[1], c.Shape[0]), nil, weights)
	}
	in := []graph.ValueID{p.codes, weights}
	if p.zero != graph.NoValue || p.weightZero != graph.NoValue {
		in = append(in, p.zero)
	}
	if p.weightZero != graph.NoValue {
		in = append(in, p.weightZero)
	}
	op := "MatMulInteger"
	if p.axes > 0 {
		op, p.weightScale, p.bias = "ConvInteger", p.channels(p.weightScale), p.channels(p.bias)
	}
	real := w.value(op, "", tensor.Int32, shape, p.window, in...)
	real = w.value("Cast", castNode, tensor.Float32, shape, []graph.Attr{graph.Int("to", int64(tensor.Float32))}, real)
	scales := p.scale
	if p.rows {
		real = w.value("Mul", scalesNode, tensor.Float32, shape, nil, real, p.weightScale)
	} else {
		scales = w.value("Mul", scalesNode, tensor.Float32, g.Value(p.weightScale).Shape, nil, p.scale, p.weightScale)
	}
	if p.bias == graph.NoValue {
		w.node("Mul", scaledNode, nil, p.y, real, scales)
		return w.err
	}
	w.node("Add", biasNode, nil, p.y, w.value("Mul", scaledNode, tensor.Float32, shape, nil, real, scales), p.bias)
	return w.err
}

// nodeWriter adds nodes whose names begin with name, and remembers the first error.
type nodeWriter struct {
	g    *graph.Graph
	name string
	err  error
}

// value adds a node of one output and returns that.
func (w *nodeWriter) value(op, suffix string, d tensor.DType, shape graph.Shape, attrs []graph.Attr, in ...graph.ValueID) graph.ValueID {
	y, err := w.g.AddValue(graph.Value{Name: w.g.FreshName(w.name + suffix + "_output"), DType: d, Shape: shape})
	if w.err == nil {
		w.err = err
	}
	w.node(op, suffix, attrs, y, in...)
	return y
}

// node adds a node that computes y.
func (w *nodeWriter) node(op, suffix string, attrs []graph.Attr, y graph.ValueID, in ...graph.ValueID) {
	if w.err == nil {
		_, w.err = w.g.AddNode(graph.Node{Name: w.name + suffix, Op: op, Attrs: attrs, Inputs: in, Outputs: []graph.ValueID{y}})
	}
}

// sweepDequantized takes out the DequantizeLinear that nobody reads any more.
func sweepDequantized(g *graph.Graph) {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		if n.Op == "DequantizeLinear" && len(g.Uses(n.Outputs[0])) == 0 && !g.IsOutput(n.Outputs[0]) && !g.Captured(n.Outputs[0]) {
			g.RemoveNode(id)
		}
	}
}
