package qdq

import (
	"fmt"
	"math"

	"qwb/graph"
)

// quant writes one Quant of QONNX, which Brevitas exports: integers of a number of bits, signed or not, without the lowest one where it is
// narrow (https://github.com/fastmachinelearning/qonnx, docs/qonnx-custom-ops/quant_op.md).
func (f *faker) quant(id graph.NodeID) error {
	n := *f.g.Node(id)
	if len(n.Inputs) < 4 || len(n.Outputs) != 1 {
		return fmt.Errorf("operator Quant has %d inputs, not tensor, scale, zero point and bits", len(n.Inputs))
	}
	scale, shape := f.numbers(n.Inputs[1])
	zero, _ := f.numbers(n.Inputs[2])
	bits, _ := f.numbers(n.Inputs[3])
	switch {
	case len(scale) == 0 || len(zero) == 0 || len(bits) == 0:
		return fmt.Errorf("operator Quant: scale, zero point or bits are computed when the model runs: a plan holds constant ones only")
	case n.AttrStr("rounding_mode", "ROUND") != "ROUND":
		return fmt.Errorf("operator Quant rounds by %s; only ROUND, half to even", n.AttrStr("rounding_mode", ""))
	case len(bits) != 1 || bits[0] != math.Trunc(bits[0]) || bits[0] < 2 || bits[0] > 16:
		return fmt.Errorf("operator Quant has %g bits: only 2 to 16, the same for all channels", bits[0])
	case len(zero) != 1 && len(zero) != len(scale):
		return fmt.Errorf("operator Quant has %d zero points for %d scales", len(zero), len(scale))
	}
	q := &fakeGrid{low: 0, high: math.Exp2(bits[0]) - 1}
	signed, narrow := n.AttrInt("signed", 1) != 0, n.AttrInt("narrow", 0) != 0
	if signed {
		q.low, q.high = -math.Exp2(bits[0]-1), math.Exp2(bits[0]-1)-1
	}
	switch {
	case narrow && signed:
		q.low++
	case narrow:
		q.high--
	}
	axis, ok := channelAxis(shape)
	if !ok {
		return fmt.Errorf("operator Quant has scales %v, along more than one axis", shape)
	}
	q.fromEnd, q.scale = axis, scale
	for i := range scale {
		q.zero = append(q.zero, zero[i%len(zero)])
	}
	rank := len(f.g.Value(n.Inputs[0]).Shape)
	if t := f.constant(n.Inputs[0]); t != nil {
		rank = len(t.Shape)
	}
	done, err := f.pair(n.Name, n.Inputs[0], n.Outputs[0], max(rank, len(shape)), q, nil)
	if err == nil && !done {
		err = fmt.Errorf("operator Quant with scale %g, zero point %g and integers %g to %g has no form as Q and DQ", scale[0], zero[0],
			q.low, q.high)
	}
	return err
}

// channelAxis returns the axis, counted from the end (-1 is the last), of a shape with one dimension other than 1,
// and 0 where there is none.
func channelAxis(shape []int) (axis int, ok bool) {
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if axis != 0 {
			return 0, false
		}
		axis = i - len(shape)
	}
	return axis, true
}
