package lower

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// quantizeConst returns the integers of a constant, row-major. NaN is an error.
func quantizeConst(t *tensor.Tensor, e Encoding) (*tensor.Tensor, error) {
	grid := e.Grid()
	return quantizeBy(t, e.DType(), func(int) qmath.Grid { return grid })
}

// quantizeBy returns the integers of a float32 constant in type d; grid gives the grid of each element of the row-major tensor.
func quantizeBy(t *tensor.Tensor, d tensor.DType, grid func(i int) qmath.Grid) (*tensor.Tensor, error) {
	if t.DType != tensor.Float32 {
		return nil, fmt.Errorf("a constant of type %s cannot be quantized", t.Type())
	}
	t = t.ToRowMajor()
	out := tensor.New(d, t.Shape...)
	for i, x := range t.F32() {
		if x != x {
			return nil, fmt.Errorf("the constant holds NaN at element %d", i)
		}
		if !setCode(out, i, grid(i).Quantize(x)) {
			return nil, fmt.Errorf("element %d does not fit into %s", i, d)
		}
	}
	return out, nil
}

// setCode stores q as element i of an integer tensor; false if it does not fit.
func setCode(t *tensor.Tensor, i int, q int32) bool {
	switch d := t.Data.(type) {
	case []int8:
		d[i] = int8(q)
		return int32(d[i]) == q
	case []uint8:
		d[i] = uint8(q)
		return int32(d[i]) == q
	case []int16:
		d[i] = int16(q)
		return int32(d[i]) == q
	case []uint16:
		d[i] = uint16(q)
		return int32(d[i]) == q
	case []int32:
		d[i] = q
		return true
	}
	return false
}

// Narrow stores integers in a new tensor of type d and the given shape; they must fit.
func Narrow(d tensor.DType, shape []int, codes []int32) (*tensor.Tensor, error) {
	out := tensor.New(d, shape...)
	if out.Len() != len(codes) {
		return nil, fmt.Errorf("%d integers for %s", len(codes), out.Type())
	}
	for i, q := range codes {
		if !setCode(out, i, q) {
			return nil, fmt.Errorf("%d does not fit into %s", q, d)
		}
	}
	return out, nil
}

// scalar returns the only element of a constant float32 input; false where the input is absent.
func (c *compiler) scalar(id graph.NodeID, i int) (float32, bool, error) {
	v := c.g.Node(id).Input(i)
	if v == graph.NoValue {
		return 0, false, nil
	}
	t := c.g.Const(v)
	if t == nil || t.DType != tensor.Float32 || t.Len() != 1 {
		return 0, false, c.fail(id, "input %d is not a constant number", i)
	}
	return t.F32()[0], true, nil
}

// constSlot returns the slot of a constant input, which must quantize.
func (c *compiler) constSlot(id graph.NodeID, i int) (*tqc.Slot, *tqc.Params, error) {
	slot := c.set.Input(id, i)
	if slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes() {
		return nil, nil, c.fail(id, "constant input %d is not quantized", i)
	}
	p := c.set.Params(slot)
	if !p.Ready() {
		return nil, nil, c.fail(id, "constant input %d has no scale", i)
	}
	return c.set.Slot(slot), p, nil
}
