package onnxqdq

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
)

// A linear layer of more than two axes is a Gemm in the plan, which ONNX does not have. With a float bias package onnx writes MatMul and
// Add, which engines fuse. With one of integers it is written as a Gemm of matrices between two Reshapes of codes: ONNX Runtime makes an
// integer Gemm of it (QGemm), where behind a MatMul the bias would be added in float.

// rowsNode and backNode end the names of the two Reshapes, before the number that makes a name unlike one that is there.
const rowsNode, backNode = "_rows", "_back"

var unnumbered = regexp.MustCompile(`_[0-9]+$`)

// linears writes the Gemms with integer biases as matrices.
func (b *builder) linears() error {
	rows := map[graph.ValueID]graph.ValueID{} // by data: their dequantized rows
	for _, id := range b.g.Nodes() {
		n := b.g.Node(id)
		if !is(n, "Gemm") || b.g.GemmRank(n) <= 2 {
			continue
		}
		dq, bias := b.producer(n.Inputs[0], dequantizeLinear), b.producer(n.Input(graph.BiasInput), dequantizeLinear)
		if dq == nil || bias == nil || slices.Contains(b.g.Value(n.Outputs[0]).Shape, graph.Dim{}) {
			continue
		}
		if err := b.asMatrix(id, dq, rows); err != nil {
			return b.g.ErrorAt("export", id, err)
		}
	}
	for v := range b.matrices { // whose readers read the matrix instead
		if len(b.g.Uses(v)) == 0 && !b.g.IsOutput(v) && !b.g.Captured(v) {
			b.g.RemoveNode(b.g.Producer(v))
		}
	}
	return nil
}

// producer is the node of an operator that computes v, nil if another one does.
func (b *builder) producer(v graph.ValueID, op string) *graph.Node {
	if v == graph.NoValue || b.g.Producer(v) == graph.NoNode || !is(b.g.Node(b.g.Producer(v)), op) {
		return nil
	}
	return b.g.Node(b.g.Producer(v))
}

func (b *builder) asMatrix(id graph.NodeID, dq *graph.Node, rows map[graph.ValueID]graph.ValueID) error {
	name, x, y := b.g.Node(id).Name, b.g.Node(id).Inputs[0], b.g.Node(id).Outputs[0]
	codes := dq.Inputs[0]
	shape, err := b.shapeOf(name, y, codes)
	if err != nil {
		return err
	}
	flat, ok := rows[x]
	if !ok {
		if flat, err = b.rows(id, dq); err != nil {
			return err
		}
		rows[x] = flat
	}
	b.g.SetInput(id, 0, flat)
	if len(b.g.Uses(x)) == 0 && !b.g.IsOutput(x) && !b.g.Captured(x) {
		b.g.RemoveNode(b.g.Producer(x))
	}
	at, result := b.rounded(id, y)
	v := *b.g.Value(result)
	v.Name, v.Shape = b.g.FreshName(v.Name+rowsNode), matrixOf(v.Shape)
	matrix, err := b.g.AddValue(v)
	if err == nil {
		err = b.g.SetOutput(at, 0, matrix)
	}
	if err == nil {
		b.matrices[result] = matrix
		_, err = b.g.AddNode(graph.Node{Name: name + backNode, Op: "Reshape", Inputs: []graph.ValueID{matrix, shape},
			Outputs: []graph.ValueID{result}})
	}
	return err
}

// rounded returns the Q that alone reads a result y of node id, behind the activation between them, with its own result: the second Reshape
// stands behind it. Where there is none it is the node itself.
func (b *builder) rounded(id graph.NodeID, y graph.ValueID) (graph.NodeID, graph.ValueID) {
	var between []graph.ValueID
	for v := y; ; {
		use, sole := b.g.SoleUse(v)
		if !sole || use.Index != 0 {
			return id, y
		}
		n := b.g.Node(use.Node)
		between = append(between, v)
		switch v = n.Outputs[0]; {
		case is(n, quantizeLinear):
			for _, m := range between {
				b.g.Value(m).Shape = matrixOf(b.g.Value(m).Shape)
			}
			return use.Node, v
		case !is(n, "Relu", "Clip"):
			return id, y
		}
	}
}

// rows returns the data of a DQ as a matrix, for a node whose weights say how long rows are where shapes do not.
func (b *builder) rows(id graph.NodeID, dq *graph.Node) (graph.ValueID, error) {
	name := b.g.Node(id).Name
	codes, y := *b.g.Value(dq.Inputs[0]), *b.g.Value(dq.Outputs[0])
	inputs, attrs := slices.Clone(dq.Inputs), slices.Clone(dq.Attrs)
	last := codes.Shape[len(codes.Shape)-1]
	if w := b.g.Value(b.g.Node(id).Inputs[1]).Shape; !last.Known() && len(w) == 2 {
		last = w[b.g.Node(id).AttrInt("transB", 0)]
	}
	if !last.Known() {
		return graph.NoValue, errors.New("the length of its rows is not known: fix the sizes (qwb bind) first")
	}
	codes.Name, codes.Shape = b.g.FreshName(codes.Name+rowsNode), matrixOf(codes.Shape)
	y.Name, y.Shape = b.g.FreshName(y.Name+rowsNode), codes.Shape
	matrix, made := b.matrices[inputs[0]]
	if !made {
		var err error
		if matrix, err = b.g.AddValue(codes); err != nil {
			return matrix, err
		}
	}
	flat, err := b.g.AddValue(y)
	if err != nil {
		return flat, err
	}
	if !made {
		shape := b.g.AddConst(name+rowsNode+"_shape", tensor.FromI64([]int64{-1, last.N}, 2))
		if _, err = b.g.AddNode(graph.Node{Name: name + rowsNode, Op: "Reshape", Inputs: []graph.ValueID{inputs[0], shape},
			Outputs: []graph.ValueID{matrix}}); err != nil {
			return flat, err
		}
	}
	inputs[0] = matrix
	_, err = b.g.AddNode(graph.Node{Name: b.g.FreshName(name + rowsNode + "_" + dequantizeLinear), Op: dequantizeLinear, Inputs: inputs,
		Outputs: []graph.ValueID{flat}, Attrs: attrs})
	return flat, err
}

// shapeOf returns the shape that a product y of data x had: a constant, or, where more than one axis is open, that of the data but for the
// last axis.
func (b *builder) shapeOf(name string, y, x graph.ValueID) (graph.ValueID, error) {
	dims := b.g.Value(y).Shape
	open, shape := 0, make([]int64, len(dims))
	for i, d := range dims {
		if shape[i] = d.N; !d.Known() {
			open++
			shape[i] = -1
		}
	}
	if name += backNode + "_shape"; open <= 1 {
		return b.g.AddConst(name, tensor.FromI64(shape, len(shape))), nil
	}
	vector := func(what string, v int64) graph.ValueID {
		return b.g.AddConst(name+what, tensor.FromI64([]int64{v}, 1))
	}
	of := x
	for _, n := range []graph.Node{
		{Op: "Shape", Inputs: []graph.ValueID{of}},
		{Op: "Slice", Inputs: []graph.ValueID{graph.NoValue, vector("_from", 0), vector("_to", -1)}},
		{Op: "Concat", Inputs: []graph.ValueID{graph.NoValue, vector("_last", shape[len(shape)-1])}, Attrs: []graph.Attr{graph.Int("axis", 0)}},
	} {
		n.Name = b.g.FreshName(name + "_" + n.Op)
		n.Inputs[0] = of
		v, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_" + n.Op + "_out"), DType: tensor.Int64})
		if err != nil {
			return v, err
		}
		n.Outputs = []graph.ValueID{v}
		if _, err := b.g.AddNode(n); err != nil {
			return v, err
		}
		of = v
	}
	return of, nil
}

// matrixOf is a shape with its leading axes in one.
func matrixOf(s graph.Shape) graph.Shape {
	n := graph.Dim{N: 1}
	for _, d := range s[:len(s)-1] {
		if n.N *= d.N; !d.Known() {
			n.N = -1
			break
		}
	}
	return graph.Shape{n, s[len(s)-1]}
}

// joined returns g, as a file has it, with a Gemm in the place of what was written for one of more than two axes; g itself where there is
// none. Names tell.
func joined(g *graph.Graph) *graph.Graph {
	if slices.ContainsFunc(g.Nodes(), func(id graph.NodeID) bool { return is(g.Node(id), "MatMulInteger") || isRecurrence(g.Node(id)) }) {
		floats := g.Clone()
		n, err := passes.FloatProducts(floats)
		k := 0
		if err == nil {
			k, err = passes.FloatRecurrences(floats)
		}
		if err == nil && n+k > 0 {
			graph.InferShapes(floats)
			g = floats
		}
	}
	g = onnx.Linears(g)
	list := slices.DeleteFunc(g.Nodes(), func(id graph.NodeID) bool {
		n := g.Node(id)
		return !is(n, "Gemm", "QGemm") || !flattened(g, n) && unflattened(g, n) == nil
	})
	if len(list) == 0 {
		return g
	}
	g = g.Clone()
	for _, id := range list {
		if n := g.Node(id); flattened(g, n) {
			reader := g.Node(reader(g, n))
			g.SetInput(reader.ID, 0, g.Node(g.Producer(reader.Inputs[0])).Inputs[0])
			forgetShapes(g, reader.ID)
		}
	}
	graph.InferShapes(g)
	for _, id := range list {
		if back := unflattened(g, g.Node(id)); back != nil && restores(g, back) {
			moveResult(g, back.ID, g.Producer(back.Inputs[0]), back.Outputs[0])
		}
	}
	return g
}

func isRecurrence(n *graph.Node) bool {
	return n.Op == "DynamicQuantizeLSTM" && n.Domain == "com.microsoft"
}

// forgetShapes forgets the shapes of what a node computes, and of what is computed of it, as far as the next Reshape.
func forgetShapes(g *graph.Graph, id graph.NodeID) {
	if is(g.Node(id), "Reshape") {
		return
	}
	for _, v := range g.Node(id).Outputs {
		if v == graph.NoValue || g.Value(v).Shape == nil {
			continue
		}
		g.Value(v).Shape = nil
		for _, u := range g.Uses(v) {
			forgetShapes(g, u.Node)
		}
	}
}

// sameRank reports an error where the file's node does not multiply tensors of the axes that the plan's Gemm does.
func (r *recoverer) sameRank(of, n *graph.Node) error {
	if of.Op != "Gemm" || r.plan.GemmRank(of) <= 2 || !is(n, "Gemm", "QGemm") {
		return nil
	}
	if n.Op == "Gemm" && r.g.GemmRank(n) != r.plan.GemmRank(of) || unflattened(r.g, n) != nil {
		return errors.New("the Reshapes around it give other shapes than the plan's")
	}
	return nil
}

// reader is the node that reads the codes that are the data of a Gemm: the DQ before it, or the operator on integers itself.
func reader(g *graph.Graph, n *graph.Node) graph.NodeID {
	if p := g.Producer(n.Inputs[0]); p != graph.NoNode && is(g.Node(p), dequantizeLinear) {
		return p
	}
	return n.ID
}

// flattened reports whether the codes of a Gemm come from a Reshape that makes rows of all axes but the last.
func flattened(g *graph.Graph, n *graph.Node) bool {
	p := g.Producer(g.Node(reader(g, n)).Inputs[0])
	if p == graph.NoNode || !is(g.Node(p), "Reshape") || !strings.HasSuffix(unnumbered.ReplaceAllString(g.Node(p).Name, ""), rowsNode) {
		return false
	}
	shape, x := g.Const(g.Node(p).Input(1)), g.Value(g.Node(p).Inputs[0]).Shape
	return shape != nil && shape.DType == tensor.Int64 && shape.Len() == 2 && shape.I64()[0] == -1 && len(x) > 0 &&
		(!x[len(x)-1].Known() || shape.I64()[1] == x[len(x)-1].N)
}

// unflattened is the Reshape behind a Gemm, nil where there is none.
func unflattened(g *graph.Graph, n *graph.Node) *graph.Node {
	var last *graph.Node
	for i, name := 1, n.Name+backNode; ; i, name = i+1, fmt.Sprintf("%s%s_%d", n.Name, backNode, i) {
		id, ok := g.LookupNode(name)
		if !ok {
			return last
		}
		if is(g.Node(id), "Reshape") {
			last = g.Node(id)
		}
	}
}

// restores reports whether a Reshape leaves the axes of its data as they are, once the one in front of the Gemm is taken out.
func restores(g *graph.Graph, back *graph.Node) bool {
	shape, x := g.Const(back.Input(1)), g.Value(back.Inputs[0]).Shape
	if shape == nil || x == nil {
		return true // made of the shape of the data, or the operator on integers tells none
	}
	return shape.DType == tensor.Int64 &&
		slices.EqualFunc(shape.I64(), x, func(n int64, d graph.Dim) bool { return n == -1 || !d.Known() || n == d.N })
}

// moveResult takes out node from and makes its result y that of node to.
func moveResult(g *graph.Graph, from, to graph.NodeID, y graph.ValueID) {
	if len(g.Uses(y)) == 0 && !g.IsOutput(y) {
		return
	}
	old := g.Node(to).Outputs[0]
	g.RemoveNode(from)
	g.ReplaceUses(old, y)
	if g.SetOutput(to, 0, y) == nil { // y has no producer any more
		g.RemoveValue(old)
	}
}
