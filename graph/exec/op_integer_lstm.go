package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// integerLSTM is TensorFlow Lite's LSTM of integers, integer for integer (qmath.Cell). Attributes of the node: scales and zero points
// of data and state (x_scale, x_zero_point, h_scale, h_zero_point), the scale of the cells' state (c_scale), and scales of W and R
// (w_scale, r_scale), one for all or one for each gate of each direction. A state that is absent is 0.
type integerLSTM struct {
	reverse []bool
	cells   []qmath.Cell // by direction
	xz, hz  int32
}

func buildIntegerLSTM(n *graph.Node, _ int64) (evalFunc, error) {
	r, err := buildRecurrence[float32](n, lstmGates, []string{"Sigmoid", "Tanh", "Tanh"})
	if err != nil {
		return nil, err
	}
	l := &integerLSTM{reverse: r.reverse, xz: int32(n.AttrInt("x_zero_point", 0)), hz: int32(n.AttrInt("h_zero_point", 0))}
	if !graph.UsualCells(n) || !r.batchLast {
		return nil, fmt.Errorf("clip, coupled gates, other functions than Sigmoid and Tanh, or layout 1")
	}
	var scales [2][]float32
	for i, name := range []string{"w_scale", "r_scale"} {
		if scales[i] = attrFloats(n, name); len(scales[i]) != 1 && len(scales[i]) != lstmGates*len(r.reverse) {
			return nil, fmt.Errorf("%s has %d numbers for %d directions of %d gates", name, len(scales[i]), len(r.reverse), lstmGates)
		}
	}
	for d := range r.reverse {
		var by [2][lstmGates]float32
		for g := range lstmGates {
			for i, s := range scales {
				by[i][g] = s[(d*lstmGates+g)%len(s)]
			}
		}
		c, err := qmath.NewCell(n.AttrFloat("x_scale", 0), n.AttrFloat("h_scale", 0), n.AttrFloat("c_scale", 0), by[0], by[1])
		if err != nil {
			return nil, err
		}
		l.cells = append(l.cells, c)
	}
	return l.run, nil
}

func (l *integerLSTM) run(c *call) error {
	for i, d := range []tensor.DType{tensor.Int8, tensor.Int8, tensor.Int8, tensor.Int32, tensor.Undefined, tensor.Int8, tensor.Int16} {
		if t := c.raw(i); t != nil && t.DType != d {
			return badType(i, t.DType)
		}
	}
	x, w, r, b := c.in(0), c.in(graph.WeightInput), c.in(graph.RecurrenceInput), c.in(3)
	steps, batch, in, hidden, dirs := x.Shape[0], x.Shape[1], x.Shape[2], r.Shape[2], len(l.reverse)
	rows := lstmGates * hidden
	if !slices.Equal(w.Shape, []int{dirs, rows, in}) || !slices.Equal(r.Shape, []int{dirs, rows, hidden}) || b.Len() != dirs*rows {
		return fmt.Errorf("weights %s and %s and biases %s for data %s", w.Type(), r.Type(), b.Type(), x.Type())
	}
	for i := 5; i <= 6; i++ {
		if t := c.in(i); t != nil && t.Len() != dirs*batch*hidden {
			return fmt.Errorf("initial state %s for %d directions, %d samples and %d units", t.Type(), dirs, batch, hidden)
		}
	}
	var out [3]*tensor.Tensor
	for i := range out {
		if c.wants(i) {
			var err error
			if out[i], err = c.out(i); err != nil {
				return err
			}
		}
	}
	for d := range dirs {
		p := &integerPass{cell: &l.cells[d], reverse: l.reverse[d], steps: steps, batch: batch, in: in, hidden: hidden, dirs: dirs, d: d,
			hz: l.hz, x: tensor.Of[int8](x), w: tensor.Of[int8](w)[d*rows*in:][:rows*in], r: tensor.Of[int8](r)[d*rows*hidden:][:rows*hidden]}
		p.xb, p.hb = folded(p.w, tensor.Of[int32](b)[d*rows:][:rows], in, l.xz), folded(p.r, make([]int32, rows), hidden, l.hz)
		c.parallel(batch, steps*rows*(in+hidden), func(lo, hi int) {
			for n := lo; n < hi; n++ {
				p.sample(n, c.in(5), c.in(6), out)
			}
		})
	}
	return nil
}

// folded are biases less a zero point times the sums of the rows of weights.
func folded(w []int8, bias []int32, k int, zero int32) []int32 {
	out := slices.Clone(bias)
	for i := range out {
		for _, v := range w[i*k:][:k] {
			out[i] -= zero * int32(v)
		}
	}
	return out
}

// integerPass is a direction of an integerLSTM.
type integerPass struct {
	cell                              *qmath.Cell
	reverse                           bool
	steps, batch, in, hidden, dirs, d int
	hz                                int32
	x, w, r                           []int8
	xb, hb                            []int32
}

// sample computes all steps of sample n.
func (p *integerPass) sample(n int, first, cells *tensor.Tensor, out [3]*tensor.Tensor) {
	h, next, c := make([]int8, p.hidden), make([]int8, p.hidden), make([]int16, p.hidden)
	at := (p.d*p.batch + n) * p.hidden
	for j := range h {
		h[j] = int8(p.hz)
	}
	if first != nil {
		copy(h, tensor.Of[int8](first)[at:])
	}
	if cells != nil {
		copy(c, tensor.Of[int16](cells)[at:])
	}
	for t := range p.steps {
		if p.reverse {
			t = p.steps - 1 - t
		}
		x := p.x[(t*p.batch+n)*p.in:][:p.in]
		for j := range h {
			var gates [lstmGates]int16
			for g := range gates {
				i := g*p.hidden + j
				gates[g] = p.cell.Gate(g, p.xb[i]+dotOf(p.w[i*p.in:], x), p.hb[i]+dotOf(p.r[i*p.hidden:], h))
			}
			var y int32
			c[j], y = p.cell.Next(gates, c[j])
			next[j] = int8(min(max(y+p.hz, -128), 127))
		}
		h, next = next, h
		if out[0] != nil {
			copy(tensor.Of[int8](out[0])[((t*p.dirs+p.d)*p.batch+n)*p.hidden:], h)
		}
	}
	if out[1] != nil {
		copy(tensor.Of[int8](out[1])[at:], h)
	}
	if out[2] != nil {
		copy(tensor.Of[int16](out[2])[at:], c)
	}
}

// dotOf is the sum of products of the first elements of w, as many as x has, with x.
func dotOf(w, x []int8) (sum int32) {
	w = w[:len(x)]
	for i, v := range x {
		sum += int32(v) * int32(w[i])
	}
	return sum
}
