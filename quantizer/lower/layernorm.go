package lower

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// LayerNorm is the normalization of rows of integers: all axes from one on, which are the arithmetic's N elements.
type LayerNorm struct {
	Norm qmath.LayerNorm
}

// Name implements Op.
func (*LayerNorm) Name() string { return "LayerNormalization" }

func (o *LayerNorm) describe() string {
	return fmt.Sprintf("rows of %d in %d..%d", o.Norm.N, o.Norm.Y.QMin, o.Norm.Y.QMax)
}

// Compute implements Computed.
func (o *LayerNorm) Compute(p *Program, s *Step, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	codes, n := in[0].Integers(), o.Norm.N
	if len(codes)%n != 0 {
		return nil, fmt.Errorf("rows of %d in %s", n, in[0].Type())
	}
	for i := 0; i < len(codes); i += n {
		o.Norm.Row(codes[i:i+n], codes[i:i+n])
	}
	out, err := tqc.Narrow(p.Tensors[s.Outputs[0]].DType, in[0].Shape, codes)
	return []*tensor.Tensor{out}, err
}

var layerNormFamily = family{name: "layernorm", emit: emitLayerNorm, ops: []string{"LayerNormalization"}}

func emitLayerNorm(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	encs, in, err := c.operands(u, 0, 1)
	if err != nil {
		return err
	}
	v, y, err := c.result(u)
	if err != nil {
		return err
	}
	size, err := normRow(c.g, n)
	if err != nil {
		return c.refuse(u, "%w", err)
	}
	var rows [2][]float32
	for i, plain := range []float32{1, 0} {
		if rows[i], err = normConstant(c.g.Const(n.Input(i+1)), n.Input(i+1) == graph.NoValue, size, plain); err != nil {
			return c.refuse(u, "input %d: %w", i+1, err)
		}
	}
	op := &LayerNorm{}
	if op.Norm, err = c.profile.PrepareLayerNorm(encs[0].Grid(), y.Grid(), rows[0], rows[1], n.Epsilon()); err != nil {
		return c.fail(u.head(), "%w", err)
	}
	c.unitStep(u, in, []TensorID{c.define(v, integer(*c.base[v]))}, op)
	return nil
}

// normRow returns how many elements a LayerNormalization works on at once.
func normRow(g *graph.Graph, n *graph.Node) (int, error) {
	shape := g.Value(n.Inputs[0]).Shape
	axis, ok := graph.Axis(n.Axis(), len(shape))
	if !ok || slices.ContainsFunc(shape[axis:], func(d graph.Dim) bool { return !d.Known() }) {
		return 0, fmt.Errorf("the size of a row of %s from axis %d on is not known", shape, n.Axis())
	}
	size := int64(1)
	for _, d := range shape[axis:] {
		size *= d.N
	}
	return int(size), nil
}

// normConstant returns a scale or bias with one number for each of n elements; plain stands for one that is absent.
func normConstant(t *tensor.Tensor, absent bool, n int, plain float32) ([]float32, error) {
	switch {
	case absent:
		return slices.Repeat([]float32{plain}, n), nil
	case t == nil || t.DType != tensor.Float32 || t.Len() != n && t.Len() != 1:
		return nil, fmt.Errorf("it is not one constant float32, or one for each of the %d elements of a row", n)
	}
	return slices.Repeat(t.ToRowMajor().F32(), n/t.Len()), nil
}
