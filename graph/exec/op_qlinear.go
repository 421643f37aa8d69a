package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// qlinearEvals are ONNX Runtime's operators on 8-bit codes, each with scale and zero point as inputs. They compute what its
// kernels for x64 compute, code for code: profile ort of package qmath.
var qlinearEvals = []evaluator{
	{op: "QLinearAdd", build: onRuntime(evalQLinearAdd)},
	{op: "QLinearMul", build: onRuntime(evalQLinearMul)},
	{op: "QLinearSigmoid", build: onRuntime(evalQLinearSigmoid)},
	{op: "QLinearLeakyRelu", build: onRuntime(evalQLinearLeakyRelu)},
	{op: "QLinearSoftmax", build: buildQLinearSoftmax},
	{op: "QLinearConcat", build: onRuntime(evalQLinearConcat)},
	{op: "QLinearWhere", build: onRuntime(evalQLinearWhere)},
}

// onRuntime makes a build function of an evaluator that computes with the arithmetic of ONNX Runtime.
func onRuntime(f func(c *call, p qmath.Profile) error) func(*graph.Node, int64) (evalFunc, error) {
	return func(*graph.Node, int64) (evalFunc, error) {
		p, err := qmath.ProfileNamed("ort")
		return func(c *call) error { return f(c, p) }, err
	}
}

// grid returns the grid of codes of type d whose scale and zero point are inputs; a zero point that is absent is 0.
func (c *call) grid(d tensor.DType, scale, zp int) (qmath.Grid, error) {
	limits, ok := bounds[d]
	if !ok {
		return qmath.Grid{}, fmt.Errorf("codes of type %s are not supported", d)
	}
	s := c.in(scale)
	if s == nil || s.DType != tensor.Float32 || s.Len() != 1 {
		return qmath.Grid{}, fmt.Errorf("input %d is not one float32 scale", scale)
	}
	g := qmath.Grid{Scale: s.F32()[0], QMin: limits[0], QMax: limits[1]}
	if !qmath.Representable(g.Scale) {
		return g, fmt.Errorf("input %d: scale %g", scale, g.Scale)
	}
	if z := c.in(zp); z != nil {
		if z.DType != d || z.Len() != 1 {
			return g, fmt.Errorf("input %d, %s, is not one zero point of type %s", zp, z.Type(), d)
		}
		g.ZeroPoint = z.Integers()[0]
	}
	return g, nil
}

// byteCodes demands that input i holds 8-bit codes.
func (c *call) byteCodes(i int) error {
	if d := c.raw(i).DType; d != tensor.Uint8 && d != tensor.Int8 {
		return badType(i, d)
	}
	return nil
}

// binaryCodes computes an operator of two codes. The inputs are a, scale, zero point, b, scale, zero point, and scale and zero
// point of the result.
func (c *call) binaryCodes(prepare func(a, b, y qmath.Grid) (func(a, b int32) int32, error)) error {
	a, b := c.in(0), c.in(3)
	for _, i := range []int{0, 3} {
		if err := c.byteCodes(i); err != nil {
			return err
		}
	}
	ga, err := c.grid(a.DType, 1, 2)
	if err != nil {
		return err
	}
	gb, err := c.grid(b.DType, 4, 5)
	if err != nil {
		return err
	}
	gy, err := c.grid(a.DType, 6, 7)
	if err != nil {
		return err
	}
	at, err := prepare(ga, gb, gy)
	if err != nil {
		return err
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	q := make([]int32, out.Len())
	zip(c, broadcastTo(out.Shape, tensor.RowMajor, -1, a, b), q, a.Integers(), b.Integers(), 8, at)
	packInts(out, q)
	return nil
}

func evalQLinearAdd(c *call, p qmath.Profile) error {
	return c.binaryCodes(func(a, b, y qmath.Grid) (func(a, b int32) int32, error) {
		s, err := p.PrepareSum(a, b, y, false)
		return s.At, err
	})
}

func evalQLinearMul(c *call, p qmath.Profile) error {
	return c.binaryCodes(func(a, b, y qmath.Grid) (func(a, b int32) int32, error) {
		m, err := p.PrepareProduct(a, b, y)
		return m.At, err
	})
}

// tableCodes looks every code of input 0 up. The inputs are x, scale, zero point, and scale and zero point of the result.
func (c *call) tableCodes(prepare func(x, y qmath.Grid) (qmath.Table, error)) error {
	x := c.raw(0)
	if err := c.byteCodes(0); err != nil {
		return err
	}
	gx, err := c.grid(x.DType, 1, 2)
	if err != nil {
		return err
	}
	gy, err := c.grid(x.DType, 3, 4)
	if err != nil {
		return err
	}
	table, err := prepare(gx, gy)
	if err != nil {
		return err
	}
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	switch d := x.Data.(type) {
	case []uint8:
		for i, q := range d {
			tensor.Of[uint8](out)[i] = table[q]
		}
	case []int8:
		for i, q := range d {
			tensor.Of[int8](out)[i] = int8(table[uint8(q)])
		}
	}
	return nil
}

func evalQLinearSigmoid(c *call, p qmath.Profile) error {
	return c.tableCodes(func(x, y qmath.Grid) (qmath.Table, error) { return p.Table(x, y, p.Sigmoid()), nil })
}

func evalQLinearLeakyRelu(c *call, p qmath.Profile) error {
	return c.tableCodes(func(x, y qmath.Grid) (qmath.Table, error) {
		return p.LeakyRelu(x, y, c.node.Alpha())
	})
}

// buildQLinearSoftmax normalizes along an axis; attribute opset says which: along all axes from axis on before 13.
func buildQLinearSoftmax(n *graph.Node, _ int64) (evalFunc, error) {
	axis, flat := n.Axis(), n.AttrInt("opset", 13) < 13
	p, err := qmath.ProfileNamed("ort")
	return func(c *call) error {
		x := c.in(0)
		if err := c.byteCodes(0); err != nil {
			return err
		}
		a, err := axisIn(axis, len(x.Shape))
		if err != nil {
			return err
		}
		outer, rows, inner := blocks(x.Shape, a)
		if flat {
			rows, inner = rows*inner, 1
		}
		gx, err := c.grid(x.DType, 1, 2)
		if err != nil {
			return err
		}
		gy, err := c.grid(x.DType, 3, 4)
		if err != nil {
			return err
		}
		s, err := p.PrepareSoftmax(gx, gy, rows)
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		q, codes := make([]int32, x.Len()), x.Integers()
		row := make([]int32, rows)
		for o := range outer {
			for i := range inner {
				at := o*rows*inner + i
				for k := range row {
					row[k] = codes[at+k*inner]
				}
				s.Row(row, row)
				for k, v := range row {
					q[at+k*inner] = v
				}
			}
		}
		packInts(out, q)
		return nil
	}, err
}

// evalQLinearConcat has the inputs scale and zero point of the result, then tensor, scale and zero point of each part.
func evalQLinearConcat(c *call, p qmath.Profile) error {
	out, err := c.out(0)
	if err != nil {
		return err
	}
	axis, err := axisIn(c.node.Axis(), len(out.Shape))
	if err != nil {
		return err
	}
	outer, _, inner := blocks(out.Shape, axis)
	q := make([]int32, out.Len())
	pitch, at := out.Shape[axis]*inner, 0
	for i := 2; i+2 < len(c.ins); i += 3 {
		part, err := c.rescaled(p, i, out.DType, [2]int{0, 1})
		if err != nil {
			return err
		}
		n := c.in(i).Shape[axis] * inner
		for o := range outer {
			copy(q[o*pitch+at:][:n], part[o*n:][:n])
		}
		at += n
	}
	packInts(out, q)
	return nil
}

// rescaled returns the codes of input i, whose scale and zero point follow it, on the grid of inputs y.
func (c *call) rescaled(p qmath.Profile, i int, d tensor.DType, y [2]int) ([]int32, error) {
	if err := c.byteCodes(i); err != nil {
		return nil, err
	}
	gx, err := c.grid(c.raw(i).DType, i+1, i+2)
	if err != nil {
		return nil, err
	}
	gy, err := c.grid(d, y[0], y[1])
	if err != nil {
		return nil, err
	}
	r, err := p.PrepareRescale(gx, gy)
	if err != nil {
		return nil, err
	}
	var table [256]int32
	for k := range table {
		table[k] = r.At(gx.QMin + int32(k))
	}
	q := make([]int32, c.raw(i).Len())
	for k, v := range c.in(i).Integers() {
		q[k] = table[v-gx.QMin]
	}
	return q, nil
}

// evalQLinearWhere has the inputs condition, x, scale, zero point, y, scale, zero point, and scale and zero point of the result.
func evalQLinearWhere(c *call, p qmath.Profile) error {
	out, err := c.out(0)
	if err != nil {
		return err
	}
	x, err := c.rescaled(p, 1, out.DType, [2]int{7, 8})
	if err != nil {
		return err
	}
	y, err := c.rescaled(p, 4, out.DType, [2]int{7, 8})
	if err != nil {
		return err
	}
	cond, ok := c.in(0).Data.([]bool)
	if !ok {
		return badType(0, c.in(0).DType)
	}
	q := make([]int32, out.Len())
	br := broadcastTo(out.Shape, tensor.RowMajor, -1, c.in(0), c.in(1), c.in(4))
	sc, sx, sy := br.rowStep(0), br.rowStep(1), br.rowStep(2)
	br.rows(c.parallel, 4, func(at, n int, from []int) {
		for i := range n {
			if q[at+i] = y[from[2]+i*sy]; cond[from[0]+i*sc] {
				q[at+i] = x[from[1]+i*sx]
			}
		}
	})
	packInts(out, q)
	return nil
}
