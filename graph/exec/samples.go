package exec

import (
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// A batch of large samples does not fit into the second-level cache. Where nobody looks at values and every operator treats
// the samples of a batch apart, a batch is therefore run in parts, one after the other. A sample's result does not depend on
// the samples beside it, so this changes nothing.

// partBytes is how many bytes of input a part of a batch has at least; activations are several times as large.
const partBytes = 1 << 20

// findSamples sets apart if samples are computed apart from each other.
func (s *sessionState) findSamples() {
	var nodes []*graph.Node
	for i := range s.steps {
		if st := &s.steps[i]; !st.isConst {
			nodes = append(nodes, st.node)
		}
	}
	s.apart = len(s.outers) == 0 && apartness{s.g, s.unlessFed}.holds(nodes)
}

// SamplesApart reports whether every output of a graph has the samples of the inputs along its first axis, each computed from its own
// sample alone. The first axis of the inputs must be open. It knows the operators of convolution networks; others, and unfolded constants,
// make a graph inseparable.
func SamplesApart(g *graph.Graph) bool {
	order, err := g.Order()
	if err != nil {
		return false
	}
	nodes := make([]*graph.Node, len(order))
	for i, id := range order {
		nodes[i] = g.Node(id)
	}
	return apartness{g, func(v graph.ValueID) *tensor.Tensor {
		if v == graph.NoValue {
			return nil
		}
		return g.Const(v)
	}}.holds(nodes)
}

// apartness looks at the nodes of a graph for SamplesApart.
type apartness struct {
	g     *graph.Graph
	known func(graph.ValueID) *tensor.Tensor // what is the same in every run, else nil
}

// holds reports whether nodes, which are all that is not known, in order, treat samples apart.
func (a apartness) holds(nodes []*graph.Node) bool {
	rank := make([]int, a.g.NumValues()) // of values with samples along the first axis, else 0
	for _, v := range a.g.Inputs {
		if a.g.Const(v) == nil {
			shape := a.g.Value(v).Shape
			if len(shape) < 2 || shape[0].N > 0 { // only an open axis may be shorter in a run
				return false
			}
			rank[v] = len(shape)
		}
	}
	for _, n := range nodes {
		out := a.rankApart(n, rank)
		if out == 0 || len(n.Outputs) != 1 {
			return false
		}
		rank[n.Outputs[0]] = out
	}
	for _, v := range a.g.Outputs {
		if rank[v] == 0 {
			return false
		}
	}
	return len(a.g.Inputs) > 0
}

// rankApart returns the rank of a node's result if its samples are those of its inputs, else 0.
func (a apartness) rankApart(n *graph.Node, rank []int) int {
	if spec := n.Spec(); !n.IsONNX() || n.Input(0) == graph.NoValue || spec != nil && len(n.Inputs) < spec.MinIn {
		return 0
	}
	r := rank[n.Inputs[0]]
	alone := r > 0 // the other inputs are constants
	for _, v := range n.Inputs[1:] {
		alone = alone && (v == graph.NoValue || a.known(v) != nil)
	}
	switch n.Op {
	case "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Identity", "BatchNormalization",
		"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool":
		if alone {
			return r
		}
	case "Softmax":
		if axis, _ := graph.SoftmaxAxis(n, a.g.Opset("")); alone && axis != 0 && axis != -r {
			return r
		}
	case "Flatten":
		if n.Axis() == 1 {
			return min(r, 2)
		}
	case "Reshape":
		if shape := a.known(n.Input(1)); alone && shape != nil && shape.DType == tensor.Int64 && shape.Len() > 1 && shape.I64()[0] == 0 &&
			n.AttrInt("allowzero", 0) == 0 {
			return shape.Len()
		}
	case "Gemm":
		if alone && r >= 2 && !n.Gemm().TransA && a.spread(n.Input(2), r) {
			return r
		}
	case "MatMul":
		if w := a.known(n.Input(1)); alone && w != nil && len(w.Shape) == 2 {
			return r
		}
	case "Add", "Sub", "Mul", "Div":
		return a.rankOfBoth(n, rank)
	case "Concat":
		for _, v := range n.Inputs {
			if rank[v] != r {
				return 0
			}
		}
		if n.Axis() > 0 {
			return r
		}
	}
	return 0
}

// rankOfBoth is rankApart of an operator of two operands.
func (a apartness) rankOfBoth(n *graph.Node, rank []int) int {
	if len(n.Inputs) != 2 || a.g.Opset("") < 7 {
		return 0
	}
	x, y := n.Inputs[0], n.Inputs[1]
	switch {
	case rank[x] > 0 && rank[x] == rank[y], rank[x] > 0 && a.known(y) != nil && a.spread(y, rank[x]):
		return rank[x]
	case rank[y] > 0 && a.known(x) != nil && a.spread(x, rank[y]):
		return rank[y]
	}
	return 0
}

// spread reports whether a constant that is broadcast to a rank is the same for all samples. An absent one is.
func (a apartness) spread(v graph.ValueID, rank int) bool {
	if v == graph.NoValue {
		return true
	}
	t := a.known(v)
	return t != nil && (len(t.Shape) < rank || len(t.Shape) == rank && t.Shape[0] == 1)
}

// unlessFed returns the tensor of v if it is the same in every run that feeds no constant.
func (s *sessionState) unlessFed(v graph.ValueID) *tensor.Tensor {
	if v == graph.NoValue {
		return nil
	}
	if c := s.g.Const(v); c != nil {
		return c
	}
	return s.folded[v]
}

// parts is a batch that is run in parts.
type parts struct {
	feeds map[string]*tensor.Tensor
	ins   []tensor.Tensor  // what feeds holds
	outs  []*tensor.Tensor // of one part
}

// divide returns how many samples the feeds have and how many are run at a time; the same number if they are run together.
func (r *runnerState) divide(feeds map[string]*tensor.Tensor, hooks *Hooks) (samples, part int) {
	if !r.s.apart || hooks != nil {
		return 0, 0
	}
	for _, v := range r.s.g.Inputs {
		if r.s.g.Const(v) != nil && feeds[r.s.g.Value(v).Name] != nil {
			return 0, 0 // what was taken for a constant is none in this run
		}
	}
	bytes := 0
	for _, t := range feeds {
		if t == nil || t.DType != tensor.Float32 || t.Layout != tensor.RowMajor || len(t.Shape) < 2 || !fits(t, t.Len()) || samples > 0 &&
			t.Shape[0] != samples {
			return 0, 0
		}
		samples = t.Shape[0]
		bytes += 4 * t.Len()
	}
	if samples < 2 || bytes == 0 {
		return 0, 0
	}
	return samples, min(samples, max(1, (partBytes*samples+bytes-1)/bytes))
}

// runParts is runInto for a batch that is run in parts.
func (r *runnerState) runParts(ctx context.Context, feeds map[string]*tensor.Tensor, outs []*tensor.Tensor, samples, part int) error {
	p := &r.parts
	if p.feeds == nil {
		p.feeds, p.ins = map[string]*tensor.Tensor{}, make([]tensor.Tensor, len(r.s.g.Inputs))
		p.outs = make([]*tensor.Tensor, len(outs))
	}
	clear(p.feeds)
	for at := 0; at < samples; at += part {
		n := min(part, samples-at)
		for i, v := range r.s.g.Inputs {
			name := r.s.g.Value(v).Name
			t, given := feeds[name]
			if !given {
				continue
			}
			size := t.Len() / samples
			in := &p.ins[i]
			in.DType, in.Layout, in.Data = t.DType, t.Layout, t.F32()[at*size:][:n*size]
			in.Shape = append(append(in.Shape[:0], n), t.Shape[1:]...)
			p.feeds[name] = in
		}
		if len(p.feeds) < len(feeds) { // a name that is no input: the whole run says so
			_, err := r.forward(ctx, feeds, nil, nil, outs)
			return err
		}
		if _, err := r.forward(ctx, p.feeds, nil, nil, p.outs); err != nil {
			return err
		}
		for i, t := range p.outs {
			r.whole = append(append(r.whole[:0], samples), t.Shape[1:]...)
			if at == 0 {
				outs[i] = reuse(outs[i], t.DType, r.whole)
			}
			copyElements(outs[i].Data, at*(t.Len()/n), t.Data, 0, t.Len())
		}
	}
	r.samples, r.part = samples, samples-(samples-1)/part*part
	return nil
}

// reuse returns t if it is row-major of that type and shape, else a new tensor.
func reuse(t *tensor.Tensor, d tensor.DType, shape []int) *tensor.Tensor {
	if t != nil && t.Layout == tensor.RowMajor && t.DType == d && slices.Equal(t.Shape, shape) && fits(t, t.Len()) {
		return t
	}
	return tensor.New(d, slices.Clone(shape)...)
}
