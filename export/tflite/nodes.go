package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"qwb/export"
	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
	tf "qwb/graph/tflite"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// movers are the operators that move elements; all take and give values of any type.
var movers = map[string]func(b *builder, g *graph.Graph, n *graph.Node, x *value, out []*value) error{
	"Transpose": (*builder).relabel, "Slice": (*builder).sliced, "Split": (*builder).split, "Pad": (*builder).pad, "Tile": (*builder).tile,
	"Expand": (*builder).expand, "Resize": (*builder).resize, "Upsample": (*builder).resize, "DepthToSpace": (*builder).blocks,
	"SpaceToDepth": (*builder).blocks,
	"Identity":     (*builder).same, "Dropout": (*builder).same, "ReduceMax": (*builder).extreme, "ReduceMin": (*builder).extreme,
	"Reshape": (*builder).reshaped, "Flatten": (*builder).reshaped, "Squeeze": (*builder).reshaped, "Unsqueeze": (*builder).reshaped,
}

func isMove(op string) bool { return movers[op] != nil || op == "Gather" }

// moving are the operators that move integers.
func moving() []string { return append(slices.Sorted(maps.Keys(movers)), "Gather") }

// move writes a step that moves integers.
func (b *builder) move(s *lower.Step, op *lower.Move) error {
	g := op.Graph
	n := g.Node(g.Nodes()[0])
	in := make([]*value, len(n.Inputs))
	for k, id := range s.Inputs {
		if readsData(s, k) {
			x, err := b.input(id)
			if err != nil {
				return err
			}
			in[slices.Index(n.Inputs, g.Inputs[k])] = x
		}
	}
	out := make([]*value, len(s.Outputs))
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			var err error
			if out[k], err = b.valueOf(id); err != nil {
				return err
			}
		}
	}
	return b.moved(g, n, in, out)
}

func (b *builder) moved(g *graph.Graph, n *graph.Node, in, out []*value) error {
	if slices.ContainsFunc(out, func(y *value) bool { return y != nil && tensor.Count(y.shape) == 0 }) {
		return errors.New("an output without elements has no form in the file")
	}
	if n.Op == "Gather" {
		return b.gather(g, n, in, out[0])
	}
	f := movers[n.Op]
	if f == nil {
		return fmt.Errorf("%s has no form in the file", n.Op)
	}
	return f(b, g, n, in[0], out)
}

// island writes the operators of a part of the graph that runs in float.
func (b *builder) island(s *lower.Step, op *lower.Island) error {
	g := op.Graph.Clone()
	values := map[graph.ValueID]*value{}
	for k, id := range s.Inputs {
		shape, ok := b.p.Tensors[id].Shape.Ints()
		if ok {
			g.Value(g.Inputs[k]).Shape = graph.Static(shape...)
		}
		if readsData(s, k) {
			x, err := b.input(id)
			if err != nil {
				return err
			}
			values[g.Inputs[k]] = x
		}
	}
	if errs := graph.InferShapes(g); len(errs) > 0 {
		return errs[0]
	}
	for k, id := range s.Outputs {
		if id == lower.NoTensor {
			continue
		}
		if !needs(g, g.Outputs[k]) {
			continue
		}
		v, err := b.valueOf(id)
		if err != nil {
			return err
		}
		values[g.Outputs[k]] = v
	}
	if err := gelus(g); err != nil {
		return err
	}
	order, err := g.Order()
	if err != nil {
		return err
	}
	needed := neededNodes(g)
	for _, id := range order {
		if !needed[id] {
			continue
		}
		n := g.Node(id)
		if err := b.node(g, n, values); err != nil {
			if !errors.Is(err, errLost) {
				b.refused.Add(g.ErrorAt(stage, id, fmt.Errorf("in float: %w", err)))
			}
			for _, v := range n.Outputs {
				if v != graph.NoValue {
					values[v] = b.standIn(g.Value(v).Name, g.Value(v).DType, g.Value(v).Shape, nil)
				}
			}
		}
	}
	for k, id := range s.Outputs {
		if v, there := values[g.Outputs[k]]; there && id != lower.NoTensor {
			b.values[id] = v
		}
	}
	return nil
}

// gelus puts the operator in the place of its formula, some of whose operators (Erf) the file does not have.
func gelus(g *graph.Graph) error {
	for _, f := range pattern.Cover(g, pattern.GeluFormula) {
		root := g.Node(f.Root)
		n := graph.Node{Name: root.Name, Op: "Gelu", Inputs: []graph.ValueID{f.Value("x")}, Outputs: slices.Clone(root.Outputs)}
		for _, id := range f.Nodes {
			if g.Node(id).Op == "Tanh" {
				n.Attrs = []graph.Attr{graph.Str("approximate", "tanh")}
			}
		}
		g.RemoveNode(f.Root)
		if _, err := g.AddNode(n); err != nil {
			return err
		}
	}
	return nil
}

// needs reports whether a value of an island holds numbers of the file: shapes that only shape inputs read do not.
func needs(g *graph.Graph, v graph.ValueID) bool {
	t := g.Value(v)
	_, ok := types[t.DType]
	return ok
}

// node writes a float operator of an island.
func (b *builder) node(g *graph.Graph, n *graph.Node, values map[graph.ValueID]*value) error {
	in := make([]*value, len(n.Inputs))
	for k, id := range n.Inputs {
		if id == graph.NoValue || shapeInput(n, k) {
			continue
		}
		if v, there := values[id]; there && v == nil {
			return errLost
		}
		if values[id] == nil {
			c := g.Const(id)
			if c == nil {
				return fmt.Errorf("%q is not there", g.Value(id).Name)
			}
			typ, ok := types[c.DType]
			if !ok {
				return fmt.Errorf("constant %q has the type %s", g.Value(id).Name, c.DType)
			}
			values[id] = &value{name: g.Value(id).Name, typ: typ, shape: c.Shape, konst: c, at: map[string]int{}}
		}
		in[k] = values[id]
	}
	out := make([]*value, len(n.Outputs))
	for k, id := range n.Outputs {
		if id == graph.NoValue || len(g.Uses(id)) == 0 && !g.IsOutput(id) {
			continue
		}
		if values[id] == nil {
			t := g.Value(id)
			shape, ok := t.Shape.Ints()
			typ, known := types[t.DType]
			if !known {
				return fmt.Errorf("%q has the type %s, which TensorFlow Lite's kernels do not have%s", t.Name, t.DType, export.ToFloat32(t.DType))
			}
			if !ok || t.Shape == nil {
				return fmt.Errorf("%q is %s: the file needs fixed shapes", t.Name, graph.FormatType(t.DType, t.Shape))
			}
			values[id] = &value{name: t.Name, typ: typ, shape: shape, at: map[string]int{}}
		}
		out[k] = values[id]
	}
	if !n.IsONNX() {
		return fmt.Errorf("operators of %s have no form in the file", n.Domain)
	}
	if i := slices.IndexFunc(slices.Concat(in, out), func(v *value) bool { return v != nil && castAlone(v.typ) }); i >= 0 && n.Op != "Cast" {
		v := g.Value(slices.Concat(n.Inputs, n.Outputs)[i])
		return fmt.Errorf("%q has the type %s, of which TensorFlow Lite's kernels have CAST alone%s", v.Name, v.DType, export.ToFloat32(v.DType))
	}
	if isMove(n.Op) {
		return b.moved(g, n, in, out)
	}
	switch n.Op {
	case "TopK":
		return b.topK(n, in, out)
	case "LSTM":
		return b.lstm(n, in, out, [3][]float32{})
	}
	f, ok := floats[n.Op]
	if !ok && graph.IsRecurrent(n) {
		return fmt.Errorf("TensorFlow Lite has no kernel of %s: export the model with its steps unrolled, or with LSTM in its place", n.Op)
	}
	if !ok {
		return fmt.Errorf("the operator has no form in the file")
	}
	// What reduces nothing to a number (means, products) gives one or another in kernels; windows over nothing fit nothing.
	if n.Op != "Concat" && (tensor.Count(out[0].shape) > 0 || graph.Slides(n.Op) || strings.HasSuffix(n.Op, "Pool")) &&
		slices.ContainsFunc(in, func(x *value) bool { return x != nil && tensor.Count(x.shape) == 0 }) {
		return errors.New("an input without elements has no form in the file")
	}
	return f(b, g, n, in, out[0])
}

// same passes a value on under another name.
func (b *builder) same(_ *graph.Graph, _ *graph.Node, x *value, out []*value) error {
	perm := order(len(x.shape), []*value{x})
	b.reshape(b.read(x, perm), b.make(out[0], perm))
	return nil
}

// relabel is a Transpose: the elements stay, their axes have other numbers.
func (b *builder) relabel(_ *graph.Graph, n *graph.Node, x *value, out []*value) error {
	rank := len(x.shape)
	p := make([]int, rank)
	if list := n.AttrInts("perm"); list != nil {
		for i, a := range list {
			p[i] = int(a)
		}
	} else {
		for i := range p {
			p[i] = rank - 1 - i
		}
	}
	b.relabelled(x, p, out[0])
	return nil
}

// relabelled makes a value the one whose axes it has in another order.
func (b *builder) relabelled(x *value, p []int, out *value) {
	from := order(len(p), []*value{x})
	if x.konst != nil || x.flat != nil {
		b.read(x, from)
	}
	to := make([]int, len(p))
	for j, a := range from {
		to[j] = where(p, a)
	}
	i := b.read(x, from)
	out.perm = to
	out.at[fmt.Sprint(to)] = i
}

// reshaped is a Reshape and its like: in the stored order if that has the elements where the graph has them, or where the order can wait.
func (b *builder) reshaped(_ *graph.Graph, n *graph.Node, x *value, out []*value) error {
	y := out[0]
	if x.konst == nil && x.flat == nil {
		if !sameBytes(x.shape, x.perm) {
			if len(y.shape) == 2 && len(x.shape) > 2 && y.shape[0] == x.shape[0] && x.perm[0] == 0 {
				y.flat = &flat{x}
				return nil
			}
		} else {
			b.reshape(b.read(x, x.perm), b.make(y, identity(len(y.shape))))
			return nil
		}
	}
	b.reshape(b.read(x, identity(len(x.shape))), b.make(y, identity(len(y.shape))))
	return nil
}

// places runs an operator on the numbers of the elements of x: which element each of an output's is, -1 for a constant.
func (b *builder) places(g *graph.Graph, n *graph.Node, x []int, outputs int) ([]*tensor.Tensor, error) {
	if tensor.Count(x) > math.MaxInt32 {
		return nil, fmt.Errorf("%v has too many elements", x)
	}
	part, err := graph.Extract(g, []graph.ValueID{n.Inputs[0]}, n.Outputs[:outputs])
	if err != nil {
		return nil, err
	}
	numbers := tensor.New(tensor.Int32, x...)
	for i := range tensor.Of[int32](numbers) {
		tensor.Of[int32](numbers)[i] = int32(i)
	}
	return steps.MoveNumbers(b.ctx, &lower.Move{Graph: part}, numbers, nil)
}

// unravel is the index of an element.
func unravel(at int, shape []int) []int {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i], at = at%shape[i], at/shape[i]
	}
	return index
}

// cut finds begin, end and stride of a part of x, given where its elements come from.
func cut(from *tensor.Tensor, x []int) (begin, end, stride []int) {
	numbers := tensor.Of[int32](from.ToRowMajor())
	begin = unravel(int(numbers[0]), x)
	end, stride = make([]int, len(x)), make([]int, len(x))
	for a, inner := len(x)-1, 1; a >= 0; a-- {
		size := from.Shape[a]
		stride[a] = 1
		if size > 1 {
			stride[a] = unravel(int(numbers[inner]), x)[a] - begin[a]
		}
		end[a] = begin[a] + (size-1)*stride[a]
		if end[a]++; stride[a] < 0 {
			end[a] -= 2
		}
		inner *= size
	}
	return begin, end, stride
}

func (b *builder) sliced(g *graph.Graph, n *graph.Node, x *value, out []*value) error {
	return b.parts(g, n, x, out[:1])
}

func (b *builder) split(g *graph.Graph, n *graph.Node, x *value, out []*value) error {
	return b.parts(g, n, x, out)
}

// parts writes a STRIDED_SLICE for every output.
func (b *builder) parts(g *graph.Graph, n *graph.Node, x *value, out []*value) error {
	list, err := b.places(g, n, x.shape, len(n.Outputs))
	if err != nil {
		return err
	}
	perm := order(len(x.shape), []*value{x})
	in := b.read(x, perm)
	for k, y := range out {
		if y == nil {
			continue
		}
		begin, end, stride := cut(list[k], x.shape)
		b.slice(in, b.make(y, perm), permuted(begin, perm), permuted(end, perm), permuted(stride, perm))
	}
	return nil
}

func (b *builder) number(name string, x float32) int {
	return b.tensor(tf.Tensor{Name: name, Type: tf.Float32, Shape: []int{1}, Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))})
}

func (b *builder) tile(_ *graph.Graph, _ *graph.Node, x *value, out []*value) error {
	perm := order(len(x.shape), []*value{x})
	var times []int
	for _, a := range perm {
		times = append(times, out[0].shape[a]/max(x.shape[a], 1))
	}
	in := b.read(x, perm)
	b.op("TILE", []int{in, b.list("multiples", times)}, []int{b.make(out[0], perm)})
	return nil
}

func (b *builder) expand(_ *graph.Graph, _ *graph.Node, x *value, out []*value) error {
	x = b.ranked(x, len(out[0].shape)) // a tensor without axes stays one
	perm := order(len(out[0].shape), []*value{x})
	in := b.operand(x, perm)
	b.op("BROADCAST_TO", []int{in, b.list("shape", permuted(out[0].shape, perm))}, []int{b.make(out[0], perm)})
	return nil
}

func (b *builder) extreme(g *graph.Graph, n *graph.Node, x *value, out []*value) error {
	axes, err := g.ReducedAxes(n, len(x.shape))
	if err != nil {
		return err
	}
	lo, hi := int32(0), int32(0)
	if e := out[0].enc; e != nil {
		lo, hi = e.QMin, e.QMax
	}
	name := "REDUCE_MAX"
	if n.Op == "ReduceMin" {
		name = "REDUCE_MIN"
	}
	b.reduce(name, x, out[0], axes, n.KeepDims(), lo, hi)
	return nil
}

// blocks is DepthToSpace or SpaceToDepth. TensorFlow Lite's have the channels of a block outermost, as mode DCR.
func (b *builder) blocks(_ *graph.Graph, n *graph.Node, x *value, out []*value) error {
	name := "SPACE_TO_DEPTH"
	in := b.read(x, last(4))
	if n.Op == "DepthToSpace" {
		name = "DEPTH_TO_SPACE"
		if n.AttrStr("mode", "DCR") == "CRD" { // the channels of a block are innermost
			block := int(n.AttrInt("blocksize", 1) * n.AttrInt("blocksize", 1))
			list := make([]int, x.shape[1])
			for i := range list {
				list[i] = i%max(out[0].shape[1], 1)*block + i/max(out[0].shape[1], 1)
			}
			turned := b.temporary(x, "channels", permuted(x.shape, last(4)), x.enc)
			b.op("GATHER", []int{in, b.list("indices", list)}, []int{turned}, "axis", 3)
			in = turned
		}
	}
	b.op(name, []int{in}, []int{b.make(out[0], last(4))}, "block_size", int(n.AttrInt("blocksize", 1)))
	return nil
}

// gather is a Gather along one axis.
func (b *builder) gather(g *graph.Graph, n *graph.Node, in []*value, y *value) error {
	x := in[0]
	axis, ok := graph.Axis(int(n.AttrInt("axis", 0)), len(x.shape))
	if !ok {
		return fmt.Errorf("axis of %v", x.shape)
	}
	var index int
	switch c := g.Const(n.Inputs[1]); {
	case c != nil:
		list := slices.Clone(c.Integers())
		if c.I64() != nil {
			list = nil
			for _, i := range c.I64() {
				list = append(list, int32(i))
			}
		}
		var ids []int
		for _, i := range list {
			if i < 0 {
				i += int32(x.shape[axis])
			}
			ids = append(ids, int(i))
		}
		index = b.whole("indices", ids, c.Shape)
	case len(in) > 1 && in[1] != nil:
		index = b.read(in[1], identity(len(in[1].shape)))
	default:
		return fmt.Errorf("its indices are not there")
	}
	from := b.read(x, identity(len(x.shape)))
	b.op("GATHER", []int{from, index}, []int{b.make(y, identity(len(y.shape)))}, "axis", axis)
	return nil
}
