package onnxqdq

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

const (
	quantizeLinear   = "QuantizeLinear"
	dequantizeLinear = "DequantizeLinear"
	dynamicQuantize  = "DynamicQuantizeLinear"
)

// producer returns the node that computes input i of n, nil for inputs and constants.
func (c *checker) producer(n *graph.Node, i int) *graph.Node {
	if p := c.g.Producer(n.Input(i)); p != graph.NoNode {
		return c.g.Node(p)
	}
	return nil
}

// dequantizer returns the DequantizeLinear in front of input i of n, nil if there is none.
func (c *checker) dequantizer(n *graph.Node, i int) *graph.Node {
	if p := c.producer(n, i); is(p, dequantizeLinear) {
		return p
	}
	return nil
}

// movedInput reports whether a value is what a DQ gives of an input of the model, its elements moved; see dequantizeFirst.
func (c *checker) movedInput(v graph.ValueID) bool {
	list := c.g.HandedOn(v)
	p := c.g.Producer(list[len(list)-1])
	return c.t.Export.GuardFloat && p != graph.NoNode && is(c.g.Node(p), dequantizeLinear) &&
		slices.Contains(c.g.Inputs, c.g.Node(p).Inputs[0])
}

// readers returns the nodes that read output i of n; none of one that is left out.
func (c *checker) readers(n *graph.Node, i int) []*graph.Node {
	var out []*graph.Node
	if n.Outputs[i] == graph.NoValue {
		return nil
	}
	for _, u := range c.g.Uses(n.Outputs[i]) {
		out = append(out, c.g.Node(u.Node))
	}
	return out
}

// scales returns the constant scales of a Q or DQ as numbers: float32, powers of two, or E4M3 times the scale of the tensor. nil for no
// node and for other scales.
func (c *checker) scales(n *graph.Node) []float32 {
	if n == nil {
		return nil
	}
	if two := c.producer(n, 1); is(two, dequantizeLinear) {
		return c.twoLevels(two)
	}
	t := c.g.Const(n.Input(1))
	switch {
	case t == nil:
	case t.DType == tensor.Float32:
		return t.F32()
	case t.DType == tensor.Float8E8M0:
		out := make([]float32, t.Len())
		for i, code := range tensor.Of[uint8](t) {
			out[i] = qmath.DecodeE8M0(code)
		}
		return out
	}
	return nil
}

// twoLevels returns the scales of NV blocks, nil where a DequantizeLinear does not give them.
func (c *checker) twoLevels(n *graph.Node) []float32 {
	codes, whole := c.g.Const(n.Input(0)), c.g.Const(n.Input(1))
	if codes == nil || whole == nil || codes.DType != tensor.Float8E4M3FN || whole.DType != tensor.Float32 || whole.Len() != 1 {
		return nil
	}
	codec := qmath.Codec{Format: qmath.FormatOf(qmath.FloatE4M3), Scale: whole.F32()[0]}
	out := make([]float32, codes.Len())
	for i, q := range codes.Integers() {
		out[i] = codec.Dequantize(q)
	}
	return out
}

// runTime reports whether the scale of a Q or DQ is computed from the tensor that is quantized, as this exporter writes it.
func (c *checker) runTime(n *graph.Node) bool {
	q := n
	if is(n, dequantizeLinear) {
		if q = c.producer(n, 0); q == nil {
			return false
		}
	}
	if is(q, dynamicQuantize) {
		return q == n || n.Input(1) == q.Output(1) && n.Input(2) == q.Output(2)
	}
	return is(q, quantizeLinear) && c.g.Const(q.Input(1)) == nil && c.madeOf(q.Input(1), q.Input(0)) &&
		(q == n || n.Input(1) == q.Input(1) && n.Input(2) == q.Input(2))
}

// madeOf reports whether v is computed from x and constants by operators that scales are made of. Their chains are short.
func (c *checker) madeOf(v, x graph.ValueID) bool {
	if v == x || c.g.Const(v) != nil {
		return true
	}
	p := c.g.Producer(v)
	if p == graph.NoNode || !is(c.g.Node(p), "Abs", "ReduceMax", "ReduceMin", "Min", "Max", "Sub", "Div") {
		return false
	}
	for _, in := range c.g.Node(p).Inputs {
		if !c.madeOf(in, x) {
			return false
		}
	}
	return true
}

// zeroPoints returns the constant zero points of a Q or DQ as integers.
func (c *checker) zeroPoints(n *graph.Node) (zp []int32, t *tensor.Tensor) {
	if t = c.g.Const(n.Input(2)); t == nil {
		return nil, nil
	}
	return t.Integers(), t
}

// sameParams reports whether two Q or DQ nodes have equal scales and zero points.
func (c *checker) sameParams(a, b *graph.Node) bool {
	for i := 1; i <= 2; i++ {
		if a.Input(i) == b.Input(i) {
			continue
		}
		x, y := c.g.Const(a.Input(i)), c.g.Const(b.Input(i))
		if x == nil || y == nil || !tensor.Equal(x, y) {
			return false
		}
	}
	return true
}

// role returns the target's row for n if it runs on integers, else nil.
func (c *checker) role(n *graph.Node) *target.Op {
	op := c.t.Op(n)
	switch {
	case op == nil:
	case c.integer != nil && c.integer(n.Name):
		return op
	case c.integer == nil && c.looks(n, op):
		return op
	}
	return nil
}

// looks is looksInteger, which asks about what a node reads, once for each node.
func (c *checker) looks(n *graph.Node, op *target.Op) bool {
	known, ok := c.guessed[n.ID]
	if !ok {
		known = c.looksInteger(n, op)
		if c.guessed == nil {
			c.guessed = map[graph.NodeID]bool{}
		}
		c.guessed[n.ID] = known
	}
	return known
}

// looksInteger guesses from the pairs around a node. A float operator may read what an integer one computed, behind a DQ.
func (c *checker) looksInteger(n *graph.Node, op *target.Op) bool {
	x, w := c.dequantizer(n, 0) != nil, c.dequantizer(n, 1) != nil
	switch {
	case !c.t.Placement.Outputs():
		return x || w
	case op.Role == target.Weighted && c.weight(n) != nil:
		return x // else the weights alone are quantized
	case op.Role == target.Weighted && c.g.Const(n.Input(1)) != nil:
		return false
	}
	if _, err := c.t.Supports(c.g, n.ID); op.Role != target.Weighted && (err != nil || c.readsFloat(n)) {
		return false
	}
	readers := c.readers(n, 0)
	if len(readers) == 1 && c.activates(readers[0]) {
		readers = c.readers(readers[0], 0)
	}
	return x && slices.ContainsFunc(readers, func(r *graph.Node) bool { return is(r, quantizeLinear) })
}

// readsFloat reports whether an operator reads a tensor that nothing computes on integers: then it is float itself, whatever stands around
// it, as a product with a root that the target has in float.
func (c *checker) readsFloat(n *graph.Node) bool {
	return slices.ContainsFunc(target.DataInputs(c.g, n.ID), func(i int) bool {
		if c.g.Const(n.Input(i)) != nil || c.dequantizer(n, i) != nil {
			return false
		}
		p := c.producer(n, i)
		if p == nil {
			return true
		}
		if head := c.producer(p, 0); head != nil && c.activates(p) && c.role(head) != nil {
			return false
		}
		return c.role(p) == nil
	})
}

// activates reports whether n may be computed together with the integer operator whose result it alone reads.
func (c *checker) activates(n *graph.Node) bool {
	op := c.t.Op(n)
	return op != nil && op.Role == target.Activation && (c.integer == nil || c.integer(n.Name))
}

// weight returns the constant behind the DQ, or the Q and DQ, of input 1 of a weighted operator, nil if there is none.
func (c *checker) weight(n *graph.Node) *tensor.Tensor {
	dq := c.dequantizer(n, 1)
	if dq == nil {
		return nil
	}
	if q := c.quantizer(dq); q != nil {
		return c.g.Const(q.Input(0))
	}
	return c.g.Const(dq.Input(0))
}

// quantizer returns the QuantizeLinear whose integers a DQ reads, nil if they are an initializer.
func (c *checker) quantizer(dq *graph.Node) *graph.Node {
	if q := c.producer(dq, 0); is(q, quantizeLinear, dynamicQuantize) {
		return q
	}
	return nil
}

// activation returns the DQ in front of input i if what it reads is computed, not a constant.
func (c *checker) activation(n *graph.Node, i int) *graph.Node {
	dq := c.dequantizer(n, i)
	if dq == nil {
		return nil
	}
	if q := c.quantizer(dq); q == nil || c.g.Const(q.Input(0)) != nil {
		return nil
	}
	return dq
}
