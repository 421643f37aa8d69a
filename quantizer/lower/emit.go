package lower

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// emit writes tensors and steps.
func (c *compiler) emit() error {
	for _, v := range c.g.Inputs {
		if c.g.Const(v) != nil {
			continue
		}
		c.program.Inputs = append(c.program.Inputs, c.define(v, realForm))
		if err := c.convert(v); err != nil {
			return err
		}
	}
	for _, u := range c.units {
		if err := c.Context.Err(); err != nil {
			return err
		}
		if err := c.emitUnit(u); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	for _, v := range c.g.Outputs {
		id, err := c.read(v, realForm)
		if err != nil {
			return err
		}
		c.program.Outputs = append(c.program.Outputs, id)
	}
	return nil
}

// emitUnit emits a unit. Float nodes wait in the island until a step needs what it computes.
func (c *compiler) emitUnit(u *unit) error {
	if u.family != nil {
		for _, in := range c.inputs(u) {
			if p := c.g.Producer(in.value); p != graph.NoNode && slices.Contains(c.island, p) {
				if err := c.flush(); err != nil {
					return err
				}
			}
		}
		for _, id := range u.nodes {
			for _, v := range c.g.Node(id).Inputs { // computed shapes and conditions
				if p := c.g.Producer(v); p != graph.NoNode && slices.Contains(c.island, p) {
					if err := c.flush(); err != nil {
						return err
					}
				}
			}
		}
	}
	if u.float {
		c.island = append(c.island, u.nodes...)
	}
	if u.family == nil {
		return nil
	}
	if err := u.family.emit(c, u); err != nil {
		return err
	}
	for _, v := range u.outputs(c.g) {
		if u.float && c.base[v] == nil {
			continue // the float form comes with the island
		}
		if err := c.convert(v); err != nil {
			return err
		}
	}
	return nil
}

// define adds the tensor of v in a form, which its step is about to compute.
func (c *compiler) define(v graph.ValueID, f form) TensorID {
	val := c.g.Value(v)
	id := TensorID(len(c.program.Tensors))
	t := Tensor{ID: id, Name: val.Name, Value: v, DType: c.dtype(v, f), Shape: val.Shape}
	if !f.real {
		e := f.enc
		t.Encoding, t.Name = &e, c.integerName(v)
	}
	c.program.Tensors = append(c.program.Tensors, t)
	c.tensors[formOf{v, f}] = id
	return id
}

// integerName is a name for one more encoding of v.
func (c *compiler) integerName(v graph.ValueID) string {
	name := c.g.Value(v).Name + "_QuantizeLinear"
	if n := c.encodings[v]; n > 0 {
		name = fmt.Sprintf("%s_%d", name, n)
	}
	c.encodings[v]++
	return name
}

// read returns the tensor of v in a form, which a step has computed.
func (c *compiler) read(v graph.ValueID, f form) (TensorID, error) {
	if id, ok := c.tensors[formOf{v, f}]; ok {
		return id, nil
	}
	if t := c.g.Const(v); t != nil {
		return c.constant(v, t, f)
	}
	return NoTensor, fmt.Errorf("%s: %q is not there as %s", stage, c.g.Value(v).Name, c.dtype(v, f))
}

// constant adds a constant operand.
func (c *compiler) constant(v graph.ValueID, t *tensor.Tensor, f form) (TensorID, error) {
	if !f.real {
		codes, err := quantizeConst(t, f.enc)
		if err != nil {
			return NoTensor, fmt.Errorf("%s: constant %q: %w", stage, c.g.Value(v).Name, err)
		}
		t = codes
	}
	id := c.define(v, f)
	c.program.Tensors[id].Const = t
	return id, nil
}

// step adds a step.
func (c *compiler) step(node graph.NodeID, nodes []graph.NodeID, in, out []TensorID, op Op) StepID {
	id := StepID(len(c.program.Steps))
	c.program.Steps = append(c.program.Steps, Step{ID: id, Node: node, Nodes: nodes, Inputs: in, Outputs: out, Op: op})
	return id
}

// unitStep adds the step of a unit.
func (c *compiler) unitStep(u *unit, in, out []TensorID, op Op) StepID {
	return c.step(u.head(), slices.Clone(u.nodes), in, out, op)
}

// convert adds the steps that bring v, which has just been computed, into the forms in which it is read besides.
func (c *compiler) convert(v graph.ValueID) error {
	if !c.isFloat(v) {
		return nil
	}
	for _, f := range c.wanted[v] {
		if _, ok := c.tensors[formOf{v, f}]; ok {
			continue
		}
		if err := c.convertTo(v, f); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) convertTo(v graph.ValueID, f form) error {
	from := realForm
	if c.base[v] != nil {
		from = integer(*c.base[v])
	}
	in, err := c.read(v, from)
	if err != nil {
		return err
	}
	out := c.define(v, f)
	ids := func(id TensorID) []TensorID { return []TensorID{id} }
	switch {
	case from.real:
		at := c.step(graph.NoNode, nil, ids(in), ids(out), &Quantize{Quantizer: c.profile.Quantizer(f.enc.Grid())})
		c.cross(at, in, f.enc.DType(), false)
	case f.real:
		at := c.step(graph.NoNode, nil, ids(in), ids(out), &Dequantize{})
		c.cross(at, out, from.enc.DType(), true)
	default:
		op, err := c.requantize(from.enc, f.enc, f.enc.QMin, f.enc.QMax)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", stage, c.g.Value(v).Name, err)
		}
		c.step(graph.NoNode, nil, ids(in), ids(out), op)
	}
	return nil
}

// cross records a conversion between the tensor real and integers of type d, Undefined where they are sums.
func (c *compiler) cross(at StepID, real TensorID, d tensor.DType, toFloat bool) {
	v := c.program.Tensors[real].Value
	c.program.Crossings = append(c.program.Crossings, Crossing{Step: at, Tensor: real, ToFloat: toFloat,
		Bytes: c.bytes(v, d) + c.bytes(v, tensor.Float32)})
}

// warn adds a warning about a node.
func (c *compiler) warn(id graph.NodeID, format string, args ...any) {
	c.program.Warnings = append(c.program.Warnings, tqc.Warning{Node: c.g.Node(id).Name, Text: fmt.Sprintf(format, args...)})
}
