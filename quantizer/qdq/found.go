package qdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// fewest is how many numbers a weight must have for its grid to be no accident.
const fewest = 16

// find gives a grid to float weights that lie on one which no node names: an exporter has folded their fake quantization into them
// (PyTorch's dynamo does with arithmetic). Only operators whose input is quantized are looked at. Every number has to be, bit for bit, an
// integer of 8 bits times the scale.
func (r *reader) find() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	count, first := 0, ""
	for _, id := range order {
		n := r.g.Node(id)
		if len(r.q.reads[graph.Use{Node: id, Index: 0}]) == 0 || len(r.q.reads[graph.Use{Node: id, Index: 1}]) > 0 {
			continue
		}
		t := r.g.Const(n.Input(1))
		if t == nil || t.DType != tensor.Float32 || t.Len() < fewest || r.q.codes[n.Inputs[1]] != nil {
			continue
		}
		axis, ok := graph.OutAxis(n, len(t.Shape))
		if c := n.Conv(); !ok || c.Transposed && c.Group != 1 {
			continue
		}
		q := gridBehind(t.ToRowMajor(), axis)
		if q == nil {
			continue
		}
		r.q.reads[graph.Use{Node: id, Index: 1}] = []*grid{q}
		if count++; count == 1 {
			first = n.Name
		}
	}
	if count > 0 {
		r.q.Warnings = append(r.q.Warnings, tqc.Warning{Node: first, Value: float64(count),
			Text: fmt.Sprintf("the weights of %d operators are multiples of a scale that "+
				"the file does not name; they are read as integers", count)})
	}
	return nil
}

// gridBehind returns the grid of int8 that all numbers of a tensor lie on, by one scale or by one along axis; nil where there is none.
func gridBehind(t *tensor.Tensor, axis int) *grid {
	q := &grid{dtype: tensor.Int8, axis: -1, zero: []int32{0}}
	if s, ok := step(t.F32()); ok {
		q.scale = []float32{s}
		q.reach(t.F32(), s)
		return q
	}
	axis, ok := graph.Axis(axis, len(t.Shape))
	if !ok {
		return nil
	}
	outer, n, inner := t.Blocks(axis)
	q.axis, q.zero = axis, make([]int32, n)
	x := t.F32()
	channel := make([]float32, 0, outer*inner)
	for c := range n {
		channel = channel[:0]
		for o := range outer {
			at := (o*n + c) * inner
			channel = append(channel, x[at:at+inner]...)
		}
		s, ok := step(channel)
		if !ok {
			return nil
		}
		q.scale = append(q.scale, s)
		q.reach(channel, s)
	}
	return q
}

// reach widens the range of integers to that of the fewest bits which hold numbers by a scale.
func (q *grid) reach(x []float32, scale float32) {
	for _, v := range x {
		for c := int32(whole(float64(v / scale))); c < q.low || c > q.high || q.low == 0; {
			q.low, q.high = min(2*q.low, -2), max(2*q.high+1, 1)
		}
	}
}

// step is qmath.Step of int8: 1 for nothing but zeros.
func step(x []float32) (float32, bool) {
	s, ok := qmath.Step(x, 127, 0)
	if s == 0 {
		s = 1
	}
	return s, ok
}
