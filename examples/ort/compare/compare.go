package main

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// comparison is one run of ONNX Runtime, being computed again.
type comparison struct {
	g   *graph.Graph
	rec record
	// x holds what was computed again, by ValueID, in float64 sums rounded to float32, and e how far ONNX Runtime's value may be
	// from it, element by element (nil: it is the recorded value itself).
	x, e []*tensor.Tensor
}

// compare computes every node again, in order. A step begins at recorded tensors: graph inputs, what a DequantizeLinear gives,
// integers and indices, and the results of float operators for which there is no error bound (see bounds); it ends at the
// QuantizeLinear that reads it.
func compare(g *graph.Graph, rec record, out *report) error {
	order, err := g.Order()
	if err != nil {
		return err
	}
	c := &comparison{g: g, rec: rec, x: make([]*tensor.Tensor, g.NumValues()), e: make([]*tensor.Tensor, g.NumValues())}
	for _, v := range g.Values() {
		if t := g.Const(v); t != nil {
			c.x[v] = t.ToRowMajor()
		} else if g.IsInput(v) {
			c.x[v] = rec[v]
		}
	}
	for _, id := range order {
		if err := c.node(g.Node(id), out); err != nil {
			return g.ErrorAt("compare", id, err)
		}
	}
	return nil
}

func (c *comparison) node(n *graph.Node, out *report) error {
	for _, v := range n.Outputs {
		if v != graph.NoValue && c.rec[v] == nil {
			return fmt.Errorf("tensor %q was not recorded", c.g.Value(v).Name)
		}
	}
	switch {
	case n.Op == "QuantizeLinear":
		return c.quantize(n, out.quantized(c.g.Value(n.Outputs[0]).Name))
	case n.Op == "DequantizeLinear":
		return c.dequantize(n, out.quantized(c.g.Value(n.Outputs[0]).Name))
	}
	x, err := evaluate(c.g, n, c.inputs(n, c.x))
	if err != nil {
		return err
	}
	bound := bounds[n.Op]
	for i, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if !sameShape(x[i], c.rec[v]) {
			return fmt.Errorf("output %d is %s, ONNX Runtime has %s", i, x[i].Type(), c.rec[v].Type())
		}
		if x[i].DType != tensor.Float32 {
			c.x[v] = c.rec[v]
			continue
		}
		if bound == nil || c.g.IsOutput(v) {
			r := out.float(c.g.Value(v).Name)
			r.elements += x[i].Len()
			r.distance = max(r.distance, relative(x[i], c.rec[v]))
		}
		if bound == nil {
			c.x[v] = c.rec[v] // a step of its own
			continue
		}
		c.x[v] = x[i]
		if c.e[v], err = bound(&step{c: c, n: n, y: x[i], output: i}); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) inputs(n *graph.Node, values []*tensor.Tensor) []*tensor.Tensor {
	in := make([]*tensor.Tensor, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != graph.NoValue {
			in[i] = values[v]
		}
	}
	return in
}

// quantize compares a quantized tensor with what qwb makes of the x that it computed again. Where they differ, the value before
// rounding, in real arithmetic, must lie close to a rounding boundary.
func (c *comparison) quantize(n *graph.Node, r *row) error {
	v := n.Outputs[0]
	c.x[v] = c.rec[v]
	x, got := c.x[n.Inputs[0]], c.rec[v]
	p, err := c.params(n, x)
	if err != nil {
		return err
	}
	e, codes := floats(c.e[n.Inputs[0]]), got.Integers()
	for i := range x.Len() {
		grid := p.at(i)
		grid.QMin, grid.QMax = span(got.DType)
		exact := float64(x.F32()[i]) / float64(grid.Scale)
		bound := math.Abs(exact) * unit // the division
		if e != nil {
			bound += float64(e[i]) / float64(grid.Scale)
		}
		r.elements++
		if at := exact + float64(grid.ZeroPoint); at+bound > float64(grid.QMin)-0.5 && at-bound < float64(grid.QMax)+0.5 {
			r.bound = max(r.bound, bound) // others clip whatever their error
		}
		q, want := codes[i], grid.Quantize(x.F32()[i])
		if q == want {
			continue
		}
		r.different++
		distance := math.Abs(exact + float64(grid.ZeroPoint) - (float64(q)+float64(want))/2) // of two neighbours: to the boundary between them
		r.distance = max(r.distance, distance)
		if (q-want == 1 || want-q == 1) && distance <= bound {
			r.ties++
		}
	}
	return nil
}

// dequantize compares (q - zero point) * scale, which has one value only: there are no ties.
func (c *comparison) dequantize(n *graph.Node, r *row) error {
	v := n.Outputs[0]
	c.x[v] = c.rec[v]
	q := c.x[n.Inputs[0]]
	p, err := c.params(n, q)
	if err != nil {
		return err
	}
	for i, code := range q.Integers() {
		r.elements++
		if p.at(i).Dequantize(code) != c.rec[v].F32()[i] {
			r.different++
		}
	}
	return nil
}

// parameters are scales and zero points of a tensor, with what it takes to find those of an element.
type parameters struct {
	scale    []float32
	zero     []int32
	n, inner int
}

func (c *comparison) params(n *graph.Node, x *tensor.Tensor) (*parameters, error) {
	if c.x[n.Inputs[1]] == nil || n.Input(2) == graph.NoValue || c.x[n.Inputs[2]] == nil {
		return nil, fmt.Errorf("scale or zero point is no constant")
	}
	p := &parameters{scale: c.x[n.Inputs[1]].F32(), zero: c.x[n.Input(2)].Integers(), n: 1, inner: x.Len()}
	if len(p.scale) > 1 {
		axis, _ := graph.Axis(n.Axis(), len(x.Shape))
		if axis >= len(x.Shape) || x.Shape[axis] != len(p.scale) || n.Quantize().Block != 0 {
			return nil, fmt.Errorf("%d scales for %s", len(p.scale), x.Type())
		}
		_, p.n, p.inner = x.Blocks(axis)
	}
	return p, nil
}

func (p *parameters) at(i int) qmath.Grid {
	k := 0
	if len(p.scale) > 1 {
		k = i / p.inner % p.n
	}
	return qmath.Grid{Scale: p.scale[k], ZeroPoint: p.zero[k]}
}

// span is the range of an integer type that QuantizeLinear gives.
func span(d tensor.DType) (lo, hi int32) {
	switch d {
	case tensor.Int8:
		return -1 << 7, 1<<7 - 1
	case tensor.Int16:
		return -1 << 15, 1<<15 - 1
	case tensor.Uint16:
		return 0, 1<<16 - 1
	}
	return 0, 1<<8 - 1
}

// relative is max |a-b| / max |b|.
func relative(a, b *tensor.Tensor) float64 {
	diff, top := 0.0, 0.0
	for i, x := range a.F32() {
		y := float64(b.F32()[i])
		diff, top = max(diff, math.Abs(float64(x)-y)), max(top, math.Abs(y))
	}
	if diff == 0 {
		return 0
	}
	return diff / top // infinite where only zeros were recorded
}

func sameShape(a, b *tensor.Tensor) bool { return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) }

func floats(t *tensor.Tensor) []float32 {
	if t == nil {
		return nil
	}
	return t.F32()
}
