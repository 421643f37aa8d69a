package lower

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// demand finds, from the outputs backwards, in which forms every value is read.
func (c *compiler) demand() error {
	for _, v := range c.g.Outputs {
		c.want(v, realForm)
	}
	for _, u := range slices.Backward(c.units) {
		if u.family != nil {
			if err := c.demandInteger(u); err != nil {
				return err
			}
		}
		if u.float {
			c.demandFloat(u)
		}
	}
	for _, list := range c.wanted {
		slices.Reverse(list)
	}
	return nil
}

func (c *compiler) demandInteger(u *unit) error {
	if u.why != "" {
		return c.demandSimulated(u)
	}
	if u.family == &recurrentFamily {
		if c.recurrentOfPlan(u.head()) {
			list, err := c.cellInputs(u.head())
			for _, in := range list {
				if c.g.Const(in.value) == nil {
					c.want(in.value, integer(in.enc))
				}
			}
			return err
		}
		for _, v := range c.reads(c.g.Node(u.head())) {
			c.want(v, realForm)
		}
		return nil
	}
	if u.family == &runTimeFamily {
		for _, in := range c.inputs(u) {
			c.want(in.value, realForm)
		}
		return nil
	}
	if !u.family.passes {
		for _, in := range c.inputs(u) {
			e, err := c.operand(in.node, in.index)
			if err != nil {
				return err
			}
			c.want(in.value, integer(e))
		}
		c.demandOwn(u)
		return nil
	}
	for _, v := range u.outputs(c.g) {
		for _, f := range c.forms(v) {
			if f.real && c.isFloat(v) {
				u.float = true
			}
		}
	}
	forms := c.passing(u)
	for _, in := range c.inputs(u) {
		e, quantized, err := c.seen(in.node, in.index)
		if err != nil {
			return err
		}
		if quantized {
			c.want(in.value, integer(e))
			continue
		}
		for _, f := range forms {
			c.want(in.value, f)
		}
	}
	c.demandOwn(u)
	return nil
}

// passing returns the integer forms in which the outputs of a unit are wanted that takes its input in the form of its output.
func (c *compiler) passing(u *unit) []form {
	var list []form
	for _, v := range u.outputs(c.g) {
		for _, f := range c.forms(v) {
			if !f.real && !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	return list
}

// demandOwn asks for the inputs that are shapes, indices and conditions.
func (c *compiler) demandOwn(u *unit) {
	for _, id := range u.nodes {
		for _, v := range c.g.Node(id).Inputs {
			if v != graph.NoValue && c.g.Const(v) == nil && !u.has(c.g, v) && !c.isFloat(v) {
				c.want(v, realForm)
			}
		}
	}
}

// demandFloat asks for what float nodes read, subgraphs included.
func (c *compiler) demandFloat(u *unit) {
	for _, id := range u.nodes {
		n := c.g.Node(id)
		for _, v := range c.reads(n) {
			if u.has(c.g, v) {
				continue
			}
			// Of a tensor that is quantized anyway, the shape is that of its integers.
			if onlyShape(n) && (c.base[v] != nil || len(c.wanted[v]) > 0) {
				continue
			}
			c.want(v, realForm)
		}
	}
}

// onlyShape reports whether a node looks at nothing but the shape of its input.
func onlyShape(n *graph.Node) bool { return n.Domain == "" && (n.Op == "Shape" || n.Op == "Size") }

// reads lists the computed values that a node reads, those captured by subgraphs included.
func (c *compiler) reads(n *graph.Node) []graph.ValueID {
	var list []graph.ValueID
	add := func(v graph.ValueID) {
		if v != graph.NoValue && c.g.Const(v) == nil && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	for _, v := range n.Inputs {
		add(v)
	}
	for _, name := range n.CapturedNames() {
		if v, ok := c.g.Lookup(name); ok {
			add(v)
		}
	}
	return list
}

// input is a tensor that a unit reads from outside.
type input struct {
	node  graph.NodeID
	index int
	value graph.ValueID
}

// inputs lists the computed tensors of numbers that a unit reads: those of its first node, then the residual. What an activation
// reads besides is constant.
func (c *compiler) inputs(u *unit) []input {
	var list []input
	for i, v := range c.g.Node(u.head()).Inputs {
		if v != graph.NoValue && c.g.Const(v) == nil && c.data(u.head(), i) {
			list = append(list, input{u.head(), i, v})
		}
	}
	if u.residual != graph.NoNode {
		if v := c.g.Node(u.residual).Inputs[u.skip]; c.g.Const(v) == nil {
			list = append(list, input{u.residual, u.skip, v})
		}
	}
	return list
}

// data reports whether input i of a node holds numbers that its integer form reads.
func (c *compiler) data(id graph.NodeID, i int) bool {
	n := c.g.Node(id)
	if !c.isFloat(n.Input(i)) {
		return false
	}
	s := n.Spec()
	return s == nil || s.InSocket(i) == graph.SocketData
}

// shapeOf returns the recorded shape of v as numbers; dimensions that are not known are 1.
func (c *compiler) shapeOf(v graph.ValueID) []int {
	shape := c.g.Value(v).Shape
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = 1
		if d.Known() {
			out[i] = int(d.N)
		}
	}
	return out
}

// bytes returns how much memory v takes in a type; dimensions that are not known are 1.
func (c *compiler) bytes(v graph.ValueID, d tensor.DType) int64 {
	n := int64(1)
	for _, s := range c.shapeOf(v) {
		n *= int64(s)
	}
	return n * int64(d.Bits()) / 8
}
