package cprogram

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// reshapes are the operators that leave all elements where they are (graph.Node.HandsOnInOrder), by name for the list of those that are
// written.
var reshapes = []string{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}

// moves are the other operators that only move elements, by parameters that are constant.
var moves = []string{"DepthToSpace", "Expand", "Gather", "GatherElements", "Pad", "Resize", "Slice", "SpaceToDepth", "Split", "Tile",
	"Transpose", "Upsample"}

// shapeInput reports whether input i of a node says where elements go, and is not itself moved or computed with.
func shapeInput(n *graph.Node, i int) bool {
	switch n.Op {
	case "Shape", "Size":
		return true
	case "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum":
		return i > 0
	case "Gather", "GatherElements":
		return false
	}
	return i > 0 && (slices.Contains(reshapes, n.Op) || slices.Contains(moves, n.Op))
}

func (w *writer) move(s *lower.Step, op *lower.Move) error {
	g := op.Graph
	n := g.Node(g.Nodes()[0])
	in := make([]*value, len(n.Inputs))
	for k := range s.Inputs {
		if w.readsData(s, k) {
			in[slices.Index(n.Inputs, g.Inputs[k])] = w.read(s.Inputs[k])
		}
	}
	shapes := make([][]int, len(s.Outputs))
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			shapes[k] = w.shape(id)
		}
	}
	outs, err := w.moved(g, n, in, shapes)
	if err != nil {
		return err
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			w.values[id] = outs[k]
		}
	}
	return nil
}

// moved writes an operator that moves or selects elements. in holds the arrays of inputs that are not constant; shapes are those of
// the outputs, nil where nobody reads them.
func (w *writer) moved(g *graph.Graph, n *graph.Node, in []*value, shapes [][]int) ([]*value, error) {
	x := in[0]
	outs := make([]*value, len(shapes))
	switch {
	case slices.Contains(reshapes, n.Op):
		outs[0] = &value{alias: x, dtype: x.dtype, shape: shapes[0]}
		w.line("/* %s keeps %s as it is */", n.Op, x.root().name)
		return outs, nil
	case n.Op == "ReduceMax" || n.Op == "ReduceMin":
		y, err := w.extreme(g, n, x, shapes[0])
		outs[0] = y
		return outs, err
	case n.Op == "Gather" && len(in) > 1 && in[1] != nil:
		y, err := w.gather(n, x, in[1], shapes[0])
		outs[0] = y
		return outs, err
	}
	for k, shape := range shapes {
		if shape == nil {
			continue
		}
		places, err := placesOf(w.ctx, g, n, x.shape, k, shape)
		if err != nil {
			return nil, err
		}
		w.open()
		if outs[k], err = w.pick(g, n, x, shape, places); err != nil {
			return nil, err
		}
		w.close()
	}
	return outs, nil
}

// placesOf lists, for every element of output k, which element of x it is, -1 for a constant. The operator is run on the numbers of
// the elements.
func placesOf(ctx context.Context, g *graph.Graph, n *graph.Node, x []int, k int, shape []int) ([]int, error) {
	part := graph.New(n.Name, g.Opset(""))
	part.Opsets = append([]graph.Opset(nil), g.Opsets...)
	node := graph.Node{Name: n.Name, Op: n.Op, Domain: n.Domain}
	for _, a := range n.Attrs {
		if n.Op != "Pad" || a.Name != "value" {
			node.Attrs = append(node.Attrs, a)
		}
	}
	data, err := part.AddValue(graph.Value{Name: "data", DType: tensor.Int32, Shape: graph.Static(x...)})
	if err != nil {
		return nil, err
	}
	part.Inputs = []graph.ValueID{data}
	node.Inputs = []graph.ValueID{data}
	for i, v := range n.Inputs {
		switch c := g.Const(v); {
		case i == 0:
		case v == graph.NoValue || n.Op == "Pad" && i == 2:
			node.Inputs = append(node.Inputs, graph.NoValue)
		case c == nil:
			return nil, fmt.Errorf("input %d of %s is not a constant: the C program has one shape for every tensor", i, n.Op)
		default:
			node.Inputs = append(node.Inputs, part.AddConst(fmt.Sprintf("input_%d", i), c))
		}
	}
	p := &lower.Program{Graph: part, Tensors: []lower.Tensor{{Name: "data", Value: data, DType: tensor.Int32, Shape: graph.Static(x...)}}}
	step := lower.Step{Node: graph.NoNode, Inputs: []lower.TensorID{0}, Op: &lower.Move{Graph: part}}
	for i, v := range n.Outputs {
		out := graph.NoValue
		if v != graph.NoValue {
			if out, err = part.AddValue(graph.Value{Name: fmt.Sprintf("output_%d", i), DType: tensor.Int32}); err != nil {
				return nil, err
			}
			part.Outputs = append(part.Outputs, out)
			step.Outputs = append(step.Outputs, lower.TensorID(len(p.Tensors)))
			p.Tensors = append(p.Tensors, lower.Tensor{ID: lower.TensorID(len(p.Tensors)), Value: out, DType: tensor.Int32})
		}
		node.Outputs = append(node.Outputs, out)
	}
	if _, err := part.AddNode(node); err != nil {
		return nil, err
	}
	graph.InferShapes(part)
	p.Steps = []lower.Step{step}
	run, err := program.New(p, program.Reference, 1)
	if err != nil {
		return nil, err
	}
	numbers := tensor.New(tensor.Int32, x...)
	for i := range tensor.Of[int32](numbers) {
		tensor.Of[int32](numbers)[i] = int32(i + 1) // what is filled in is 0
	}
	outs, err := run.RunStep(ctx, 0, []*tensor.Tensor{numbers})
	if err != nil {
		return nil, err
	}
	if !slices.Equal(outs[k].Shape, shape) {
		return nil, fmt.Errorf("%s gives %v for %v", n.Op, outs[k].Shape, shape)
	}
	var places []int
	for _, at := range tensor.Of[int32](outs[k].ToRowMajor()) {
		places = append(places, int(at)-1)
	}
	return places, nil
}

// pick writes the selection of places of x, by axes where they can be told apart.
func (w *writer) pick(g *graph.Graph, n *graph.Node, x *value, shape, places []int) (*value, error) {
	identity := len(places) == x.count()
	for i, at := range places {
		identity = identity && at == i
	}
	if identity {
		w.line("/* %s keeps %s as it is */", n.Op, x.root().name)
		return &value{alias: x, dtype: x.dtype, shape: shape}, nil
	}
	var size []int
	for _, d := range shape {
		if d != 1 {
			size = append(size, d)
		}
	}
	axes := byAxis(size, places)
	if axes == nil {
		size, axes = []int{len(places)}, [][]int{places}
	}
	var names []string
	for _, at := range axes {
		names = append(names, integers(w, "int32_t", fmt.Sprintf("%s: places along an axis", n.Op), 4, at))
	}
	w.line("static const int32_t size[] = {%s};", strings.Trim(braces(size), "{}"))
	w.line("static const int32_t *const at[] = {%s};", strings.Join(names, ", "))
	from := w.use(x)
	y := w.scratch(x.dtype, n.Op, shape...)
	t := x.dtype.String()
	w.call("pick_%s(%d, size, at, %s, %s, %s)", t, len(size), from, w.fill(g, n), w.use(y))
	return y, w.kernels.need("pick", t)
}

// fill is the constant of a Pad.
func (w *writer) fill(g *graph.Graph, n *graph.Node) string {
	if n.Op != "Pad" {
		return "0"
	}
	c := g.Const(n.Input(2))
	if c == nil || c.Len() != 1 {
		return w.real(n.Pad().Value)
	}
	if c.DType == tensor.Float32 {
		return w.real(c.F32()[0])
	}
	if codes := c.Integers(); codes != nil {
		return fmt.Sprint(codes[0])
	}
	return "0"
}

// byAxis tells places apart into one list for each axis, whose sums they are; a negative entry makes all places with it negative.
// The result is nil where that cannot be done.
func byAxis(size, places []int) [][]int {
	stride := steps(size, size)
	first := slices.IndexFunc(places, func(at int) bool { return at >= 0 })
	if first < 0 || len(size) == 0 || len(size) > maxRank {
		return nil
	}
	axes := make([][]int, len(size))
	base := places[first]
	for a, n := range size {
		axes[a] = make([]int, n)
		own := 0
		if stride[a] > 0 {
			own = first / stride[a] % n
		}
		least := 0
		for i := range axes[a] {
			at := places[first+(i-own)*stride[a]]
			if axes[a][i] = at - places[first]; at < 0 {
				axes[a][i] = outside
			} else {
				least = min(least, axes[a][i])
			}
		}
		for i := range axes[a] {
			if axes[a][i] != outside {
				axes[a][i] -= least
			}
		}
		base += least
	}
	for i := range axes[0] {
		if axes[0][i] != outside {
			axes[0][i] += base
		}
	}
	for i, at := range places {
		sum := 0
		for a := range size {
			if step := axes[a][i/stride[a]%size[a]]; step == outside || sum == outside {
				sum = outside
			} else {
				sum += step
			}
		}
		if sum != at {
			return nil
		}
	}
	return axes
}

// outside marks places that are not in the input.
const outside = -1

// extreme writes a ReduceMax or ReduceMin.
func (w *writer) extreme(g *graph.Graph, n *graph.Node, x *value, shape []int) (*value, error) {
	axes, err := axesOf(g, n, len(x.shape))
	if err != nil {
		return nil, err
	}
	of, over, err := reductionLayouts(x.shape, axes)
	if err != nil {
		return nil, err
	}
	kind := "largest"
	if n.Op == "ReduceMin" {
		kind = "smallest"
	}
	if err := w.kernels.need(kind); err != nil {
		return nil, err
	}
	w.line("static const struct layout of = %s, over = %s;", of, over)
	from := w.use(x)
	y := w.scratch(x.dtype, n.Op, shape...)
	w.call("%s_%s(&of, &over, %s, %s)", kind, x.dtype, from, w.use(y))
	return y, w.kernels.need("extreme", x.dtype.String(), kind)
}

// axesOf lists the axes of a reduction, from the front.
func axesOf(g *graph.Graph, n *graph.Node, rank int) ([]int, error) {
	axes, err := g.ReducedAxes(n, rank)
	if err == nil && len(axes) == 0 && rank > 0 {
		err = fmt.Errorf("it has no axes")
	}
	return axes, err
}

// gather writes a Gather by indices that are computed.
func (w *writer) gather(n *graph.Node, x, index *value, shape []int) (*value, error) {
	axis, ok := graph.Axis(n.Axis(), len(x.shape))
	if !ok || index.dtype != tensor.Int64 && index.dtype != tensor.Int32 {
		return nil, fmt.Errorf("axis %d of %v by indices of type %s", axis, x.shape, index.dtype)
	}
	from, by := w.use(x), w.use(index)
	y := w.scratch(x.dtype, n.Op, shape...)
	w.call("gather_%s_%s(%d, %d, %d, %d, %s, %s, %s)", x.dtype, index.dtype, tensor.Count(x.shape[:axis]), x.shape[axis],
		tensor.Count(x.shape[axis+1:]), index.count(), from, by, w.use(y))
	return y, w.kernels.need("gather", x.dtype.String(), index.dtype.String())
}
