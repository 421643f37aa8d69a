package exec

import (
	"errors"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// shapeEvals are operators that give elements another shape, or give shapes as elements.
var shapeEvals = []evaluator{
	{"Reshape", simple(evalReshape)},
	{"Flatten", simple(evalReshape)},
	{"Squeeze", simple(evalReshape)},
	{"Unsqueeze", simple(evalReshape)},
	{"Identity", simple(evalIdentity)},
	{"Dropout", buildDropout},
	{"Shape", simple(evalShape)},
	{"Size", simple(evalSize)},
	{"Constant", buildConstant},
}

// evalReshape gives the row-major elements of input 0 the inferred shape.
func evalReshape(c *call) error {
	shape := c.outShape(0)
	if x := c.raw(0); tensor.Count(shape) != x.Len() || shape == nil {
		return fmt.Errorf("%s cannot take the shape %v", x.Type(), shape)
	}
	return c.alias(0, 0, shape)
}

func evalIdentity(c *call) error { return c.pass(0, 0) }

// buildDropout passes its input: nothing is dropped at inference. The mask is all true.
func buildDropout(n *graph.Node, version int64) (evalFunc, error) {
	if version < 7 && n.AttrInt("is_test", 0) == 0 && version >= 1 && n.Attr("is_test") != nil {
		return nil, errors.New("training mode is not supported")
	}
	return func(c *call) error {
		if t := c.raw(2); t != nil {
			if b := tensor.Of[bool](t); len(b) == 1 && b[0] {
				return errors.New("training mode is not supported")
			}
		}
		if c.wants(1) {
			d := tensor.Bool
			if version < 10 {
				d = c.raw(0).DType
			}
			mask, err := c.outAs(1, d, c.raw(0).Shape, tensor.RowMajor)
			if err != nil {
				return err
			}
			if err := fillMask(mask); err != nil {
				return err
			}
		}
		return c.pass(0, 0)
	}, nil
}

// fillMask sets every element to true, or 1.
func fillMask(mask *tensor.Tensor) error {
	switch data := mask.Data.(type) {
	case []bool:
		fill(data, true)
		return nil
	case []float32:
		fill(data, 1)
		return nil
	}
	one, err := castTo(mask.DType, tensor.FromF32([]float32{1}, 1))
	if err == nil {
		storageOf(mask.Data).fill(one)
	}
	return err
}

func evalShape(c *call) error {
	shape := c.raw(0).Shape
	r := int64(len(shape))
	clamp := func(v int64) int64 {
		if v < 0 {
			v += r
		}
		return min(max(v, 0), r)
	}
	start, end := clamp(c.node.AttrInt("start", 0)), clamp(c.node.AttrInt("end", r))
	out, err := c.outAs(0, tensor.Int64, []int{int(max(end-start, 0))}, tensor.RowMajor)
	if err != nil {
		return err
	}
	for i := range out.I64() {
		out.I64()[i] = int64(shape[int(start)+i])
	}
	return nil
}

func evalSize(c *call) error {
	out, err := c.outAs(0, tensor.Int64, []int{}, tensor.RowMajor)
	if err != nil {
		return err
	}
	out.I64()[0] = int64(c.raw(0).Len())
	return nil
}

func buildConstant(n *graph.Node, _ int64) (evalFunc, error) {
	t, err := constantOf(n)
	if err != nil {
		return nil, err
	}
	return func(c *call) error {
		c.setOut(0, handle{t: t, buf: noBuf, fixed: true})
		return nil
	}, nil
}

// constantOf returns the tensor of a Constant node in any of its forms.
func constantOf(n *graph.Node) (*tensor.Tensor, error) {
	for i := range n.Attrs {
		switch a := &n.Attrs[i]; a.Name {
		case "value":
			if a.T != nil {
				return a.T, nil
			}
		case "value_float":
			return tensor.FromF32([]float32{a.F}), nil
		case "value_floats":
			return tensor.FromF32(a.Floats, len(a.Floats)), nil
		case "value_int":
			return tensor.FromI64([]int64{a.I}), nil
		case "value_ints":
			return tensor.FromI64(a.Ints, len(a.Ints)), nil
		case "value_string":
			return &tensor.Tensor{DType: tensor.String, Shape: []int{}, Data: []string{a.S}}, nil
		case "value_strings":
			return &tensor.Tensor{DType: tensor.String, Shape: []int{len(a.Strings)}, Data: a.Strings}, nil
		}
	}
	return nil, errors.New("a Constant without dense value")
}
