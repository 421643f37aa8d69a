package rewrite

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Chain is a way of a convolution's output channels, each by itself, to one value: channel j of every value on it is computed from channel
// j of the convolution's output and of constants alone, or, behind a depthwise convolution with several outputs per input,
// from one of them.
type Chain struct {
	At    graph.NodeID   // the convolution
	Nodes []graph.NodeID // behind it, in graph order; the last computes Output
	// Output is the only value of the chain that is read outside.
	Output   graph.ValueID
	Channels int // of the convolution's output
	// Depthwise are the depthwise convolutions among Nodes, in graph order.
	Depthwise []graph.NodeID
}

// alone are the operators whose channels, axis 1, do not meet: of any number of operands that broadcast, or of one.
var alone = map[string]bool{"Add": true, "Sub": true, "Mul": true, "Div": true, "Min": true, "Max": true, "Sum": true,
	"Mean": true, "Pow": true,
	"Relu": true, "LeakyRelu": true, "PRelu": true, "Clip": true, "Sigmoid": true, "HardSigmoid": true, "HardSwish": true,
	"Tanh": true, "Elu": true,
	"Selu": true, "Celu": true, "Softplus": true, "Softsign": true, "ThresholdedRelu": true, "Gelu": true, "Mish": true,
	"Swish": true, "Erf": true,
	"Exp": true, "Log": true, "Sqrt": true, "Abs": true, "Neg": true, "Reciprocal": true, "Identity": true,
	"BatchNormalization": true, "MaxPool": true, "AveragePool": true, "LpPool": true, "GlobalAveragePool": true, "GlobalMaxPool": true}

// Chains lists the chains of a convolution, shorter ones first: at each value where what follows can be taken apart by channels and joined
// again. The convolution must read all its input channels at every output and have constant weights; else there are none. Shapes have to be
// inferred.
func Chains(g *graph.Graph, id graph.NodeID) []Chain {
	at := g.Node(id)
	w := g.Const(at.Input(1))
	if at.Op != "Conv" || !at.IsONNX() || w == nil || w.DType != tensor.Float32 || at.Conv().Group != 1 ||
		at.Input(2) != graph.NoValue && g.Const(at.Input(2)) == nil {
		return nil
	}
	order, err := g.Order()
	if err != nil {
		return nil
	}
	first, channels := at.Output(0), w.Shape[0]
	inside := map[graph.ValueID][]graph.NodeID{first: nil} // by value: the nodes that it is computed by behind the convolution, in graph order
	var chains []Chain
	for _, n := range order[slices.Index(order, id)+1:] {
		if multiple, err := apart(g, n, func(v graph.ValueID) bool { _, ok := inside[v]; return ok }); err != nil || multiple == 0 {
			continue
		}
		node := g.Node(n)
		member := map[graph.NodeID]bool{n: true}
		for _, v := range node.Inputs {
			for _, p := range inside[v] {
				member[p] = true
			}
		}
		var nodes []graph.NodeID
		for _, o := range order {
			if member[o] {
				nodes = append(nodes, o)
			}
		}
		inside[node.Output(0)] = nodes
		c := Chain{At: id, Nodes: nodes, Output: node.Output(0), Channels: channels}
		for _, m := range nodes {
			if g.Node(m).Op == "Conv" {
				c.Depthwise = append(c.Depthwise, m)
			}
		}
		if c.closed(g, member) {
			chains = append(chains, c)
		}
	}
	return chains
}

// closed reports whether nothing outside reads a value of the chain but its output.
func (c *Chain) closed(g *graph.Graph, member map[graph.NodeID]bool) bool {
	for _, id := range append([]graph.NodeID{c.At}, c.Nodes...) {
		v := g.Node(id).Output(0)
		if v == c.Output {
			continue
		}
		if g.IsOutput(v) || g.Captured(v) {
			return false
		}
		for _, u := range g.Uses(v) {
			if !member[u.Node] {
				return false
			}
		}
	}
	return true
}

// apart says how many output channels a node has for each channel of its inputs of which known reports true, where no channel meets
// another and all else that it reads is constant; 0 if it reads none of them. An error says why it is not so.
func apart(g *graph.Graph, id graph.NodeID, known func(graph.ValueID) bool) (multiple int, err error) {
	n := g.Node(id)
	if !slices.ContainsFunc(n.Inputs, known) {
		return 0, nil
	}
	if !n.IsONNX() || len(n.Outputs) != 1 {
		return 0, fmt.Errorf("%s is not known to keep channels apart", n.Op)
	}
	y := g.Value(n.Output(0))
	if y.DType != tensor.Float32 || dim(g, y.ID, 1) < 0 {
		return 0, fmt.Errorf("the channels of %q are not known", y.Name)
	}
	if n.Op == "Conv" {
		w := g.Const(n.Input(1))
		in := dim(g, n.Input(0), 1)
		if !known(n.Input(0)) || w == nil || w.DType != tensor.Float32 || n.Input(2) != graph.NoValue && g.Const(n.Input(2)) == nil ||
			n.Conv().Group != in || w.Shape[1] != 1 || w.Shape[0]%in != 0 {
			return 0, fmt.Errorf("the convolution is not depthwise")
		}
		return w.Shape[0] / in, nil
	}
	if !alone[n.Op] {
		return 0, fmt.Errorf("%s is not known to keep channels apart", n.Op)
	}
	if _, by := n.AlignsByAttribute(g.Opset("")); by {
		return 0, fmt.Errorf("%s broadcasts by an attribute", n.Op)
	}
	if n.Op == "BatchNormalization" {
		if err := inference(g, n); err != nil {
			return 0, err
		}
	}
	for i, v := range n.Inputs {
		switch {
		case v == graph.NoValue:
		case known(v):
			if i > 0 && n.Op == "BatchNormalization" || len(g.Value(v).Shape) != len(y.Shape) || dim(g, v, 1) != dim(g, y.ID, 1) {
				return 0, fmt.Errorf("%q and %q have other channels", g.Value(v).Name, y.Name)
			}
		case g.Const(v) == nil:
			return 0, fmt.Errorf("it reads %q too", g.Value(v).Name)
		default:
			if _, err := operandAxis(g, n, i); err != nil {
				return 0, err
			}
		}
	}
	return 1, nil
}

// operandAxis is the axis of a constant operand along which it has one element, or row, per channel of the node's output; -1 where all
// channels read the same.
func operandAxis(g *graph.Graph, n *graph.Node, input int) (int, error) {
	t, y := g.Const(n.Inputs[input]), n.Output(0)
	axis := aligned(g, n.Inputs[input], y, 1)
	if n.Op == "Conv" || n.Op == "BatchNormalization" {
		axis = 0
	}
	if axis < 0 || t.Shape[axis] == 1 {
		return -1, nil
	}
	if t.Shape[axis] != dim(g, y, 1) || t.DType != tensor.Float32 {
		return 0, fmt.Errorf("its constant %s is not one float32 number per channel", t.Type())
	}
	return axis, nil
}

// pick is a tensor with the given rows along an axis.
func pick(t *tensor.Tensor, axis int, rows []int) *tensor.Tensor {
	t = t.ToRowMajor()
	shape := slices.Clone(t.Shape)
	shape[axis] = len(rows)
	out := tensor.New(t.DType, shape...)
	run, count := tensor.Count(t.Shape[axis+1:]), tensor.Count(t.Shape[:axis])
	for o := range count {
		for j, r := range rows {
			copy(out.F32()[(o*len(rows)+j)*run:][:run], t.F32()[(o*t.Shape[axis]+r)*run:][:run])
		}
	}
	return out
}

// spread lists the output channels of a node that has several for each input channel.
func spread(channels []int, multiple int) []int {
	out := make([]int, 0, len(channels)*multiple)
	for _, c := range channels {
		for k := range multiple {
			out = append(out, c*multiple+k)
		}
	}
	return out
}
