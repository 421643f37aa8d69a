package lower

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// Move is an operator that moves or selects integers without looking at what they mean: Reshape, Transpose, Slice, Split, Gather,
// Resize to the nearest, Pad, ReduceMax, ... Graph holds the node alone, with the inputs and outputs of the step, in order; its
// tensors of numbers have the integer type, and the constant of a Pad is the zero point.
type Move struct {
	Graph *graph.Graph
}

// Name implements Op.
func (o *Move) Name() string { return o.node().Op }

func (o *Move) describe() string { return "" }

func (o *Move) node() *graph.Node { return o.Graph.Node(o.Graph.Nodes()[0]) }

var moveFamily = family{name: "move", passes: true, emit: emitMove, ops: []string{
	"DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements", "Identity", "Pad", "ReduceMax", "ReduceMin", "Reshape",
	"Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Upsample"}}

func emitMove(c *compiler, u *unit) error {
	id := u.head()
	n := c.g.Node(id)
	return c.emitPassing(u, func(in Encoding, data TensorID, outs []TensorID) (Op, []TensorID, error) {
		part, inputs, err := c.moveGraph(n, in, data)
		if err != nil {
			return nil, nil, err
		}
		return &Move{Graph: part}, inputs, nil
	})
}

// moveGraph returns a graph of n alone, for integers of encoding e, and the tensors that it reads.
func (c *compiler) moveGraph(n *graph.Node, e Encoding, data TensorID) (*graph.Graph, []TensorID, error) {
	part := graph.New(n.Name, c.g.Opset(""))
	part.Opsets = append([]graph.Opset(nil), c.g.Opsets...)
	node := graph.Node{Name: n.Name, Op: n.Op, Domain: n.Domain, Attrs: append([]graph.Attr(nil), n.Attrs...)}
	var inputs []TensorID
	for i, v := range n.Inputs {
		switch t := c.g.Const(v); {
		case v == graph.NoValue:
			node.Inputs = append(node.Inputs, v)
		case t != nil && !(i == 0 && c.data(n.ID, i)):
			node.Inputs = append(node.Inputs, part.AddConst(c.g.Value(v).Name, t))
		default:
			f := realForm
			if i == 0 && c.data(n.ID, i) {
				f = integer(e)
			}
			id := data
			if i != 0 {
				var err error
				if id, err = c.read(v, f); err != nil {
					return nil, nil, err
				}
			}
			inputs = append(inputs, id)
			in, err := part.AddValue(graph.Value{Name: c.g.Value(v).Name, DType: c.dtype(v, f), Shape: c.g.Value(v).Shape})
			if err != nil {
				return nil, nil, err
			}
			part.Inputs = append(part.Inputs, in)
			node.Inputs = append(node.Inputs, in)
		}
	}
	if n.Op == "Pad" {
		padWithZeroPoint(part, &node, e)
	}
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			node.Outputs = append(node.Outputs, v)
			continue
		}
		d := c.g.Value(v).DType
		if c.isFloat(v) {
			d = e.DType()
		}
		out, err := part.AddValue(graph.Value{Name: c.g.Value(v).Name, DType: d, Shape: c.g.Value(v).Shape})
		if err != nil {
			return nil, nil, err
		}
		part.Outputs = append(part.Outputs, out)
		node.Outputs = append(node.Outputs, out)
	}
	_, err := part.AddNode(node)
	return part, inputs, err
}

// padWithZeroPoint gives a Pad that fills with 0 the constant whose meaning is 0, in the form that has it as an input.
func padWithZeroPoint(part *graph.Graph, n *graph.Node, e Encoding) {
	if n.Pad().Mode != "constant" {
		return
	}
	if part.Opset("") < 11 {
		pads := n.Pad().Pads
		n.Attrs = []graph.Attr{graph.Str("mode", "constant")}
		n.Inputs = append(n.Inputs, part.AddConst("pads", tensor.FromI64(pads, len(pads))))
		part.Opsets = []graph.Opset{{Version: 13}}
	}
	zero := tensor.New(e.DType())
	setCode(zero, 0, e.ZeroPoint)
	for len(n.Inputs) < 3 {
		n.Inputs = append(n.Inputs, graph.NoValue)
	}
	n.Inputs[2] = part.AddConst("zero_point", zero)
}

// emitPassing emits a unit whose output has the encoding of its input, once for every form in which it is wanted. op makes the
// operation for an encoding, given the tensor of input 0.
func (c *compiler) emitPassing(u *unit, op func(e Encoding, data TensorID, outs []TensorID) (Op, []TensorID, error)) error {
	id := u.head()
	outputs := c.g.Node(id).Outputs
	for _, f := range c.passing(u) {
		in, err := c.passed(id, 0, f)
		if err != nil {
			return err
		}
		source := f
		if e := c.program.Tensors[in].Encoding; *e != f.enc {
			source = integer(*e) // the output has another scale: brought there behind the step
		}
		outs := make([]TensorID, 0, len(outputs))
		for _, v := range outputs {
			switch {
			case v == graph.NoValue:
			case !c.isFloat(v) || !c.writes(v, f):
				outs = append(outs, NoTensor)
			case source == f:
				outs = append(outs, c.define(v, f))
			default:
				outs = append(outs, c.defineStaged(v, source))
			}
		}
		o, inputs, err := op(source.enc, in, outs)
		if err != nil {
			return err
		}
		c.unitStep(u, inputs, outs, o)
		if source != f {
			if err := c.rescale(u, outs, outputs, source, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// writes reports whether v is written in form f by the step that computes it.
func (c *compiler) writes(v graph.ValueID, f form) bool {
	for _, w := range c.forms(v) {
		if w == f {
			return true
		}
	}
	return false
}

// passed returns the tensor of input i for an output in form f: in that form where the input is real, else in its own.
func (c *compiler) passed(id graph.NodeID, i int, f form) (TensorID, error) {
	e, quantized, err := c.seen(id, i)
	if err != nil {
		return NoTensor, err
	}
	if quantized {
		f = integer(e)
	}
	t, err := c.read(c.g.Node(id).Inputs[i], f)
	if err != nil {
		return NoTensor, c.fail(id, "input %d: %w", i, err)
	}
	return t, nil
}

// defineStaged adds a tensor of v that only a Requantize reads.
func (c *compiler) defineStaged(v graph.ValueID, f form) TensorID {
	if id, ok := c.tensors[formOf{v, f}]; ok {
		return id
	}
	return c.define(v, f)
}

// rescale brings the outputs of a passing step from one encoding to another.
func (c *compiler) rescale(u *unit, outs []TensorID, values []graph.ValueID, from, to form) error {
	op, err := c.requantize(from.enc, to.enc, to.enc.QMin, to.enc.QMax)
	if err != nil {
		return c.fail(u.head(), "%w", err)
	}
	at := 0
	for _, v := range values {
		if v == graph.NoValue {
			continue
		}
		if outs[at] != NoTensor {
			c.step(graph.NoNode, nil, []TensorID{outs[at]}, []TensorID{c.define(v, to)}, op)
		}
		at++
	}
	return nil
}
