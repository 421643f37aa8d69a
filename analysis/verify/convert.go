package verify

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// requantize brings integers from one grid to another, as a conversion or for a Relu or Clip.
type requantize struct {
	*layer
	want, got *qmath.Rescale
}

func (l *layer) deriveRequantize(op *lower.Requantize) (operation, error) {
	if err := l.sole(1); err != nil {
		return nil, err
	}
	x, y, err := l.integers()
	if err != nil {
		return nil, err
	}
	if l.node != nil {
		lo, hi, ok, err := l.limits(l.step.Nodes)
		if err != nil || !ok {
			return nil, fmt.Errorf("a change of scale for %s", l.node.Op)
		}
		y.QMin, y.QMax = y.Quantize(lo), y.Quantize(hi)
	}
	r, err := l.profile.PrepareRescale(x, y)
	return &requantize{l, &r, &op.Rescale}, err
}

func (r *requantize) compare(f *faults) { f.rescale(0, r.want, r.got) }

func (r *requantize) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	return []*exact{r.steps(dequantized(in[0], r.want.X), onGrid(r.want), r.want.Deviation())}, nil
}

// onGrid is the grid on which a change of scale ends.
func onGrid(r *qmath.Rescale) qmath.Grid {
	if r.Float {
		return r.Quantizer.Grid
	}
	return r.Y
}

// dequantized returns the real numbers of integers, exactly but for the rounding of float64.
func dequantized(t *tensor.Tensor, g qmath.Grid) []float64 {
	codes := t.Integers()
	out := make([]float64, len(codes))
	for i, q := range codes {
		out[i] = float64(q-g.ZeroPoint) * float64(g.Scale)
	}
	return out
}

// clamp is a Relu or Clip on one grid.
type clamp struct {
	*layer
	y   qmath.Grid
	got *lower.Clamp
}

func (l *layer) deriveClamp(op *lower.Clamp) (operation, error) {
	if err := l.wants("Relu", "Clip"); err != nil {
		return nil, err
	}
	if err := l.sole(1); err != nil {
		return nil, err
	}
	x, y, err := l.integers()
	if err != nil {
		return nil, err
	}
	if x != y {
		return nil, fmt.Errorf("a clamp between two scales")
	}
	lo, hi, _, err := l.limits(l.step.Nodes)
	y.QMin, y.QMax = y.Quantize(lo), y.Quantize(hi)
	return &clamp{l, y, op}, err
}

func (c *clamp) compare(f *faults) {
	number(f, "lower clamp", 0, c.y.QMin, c.got.Lo)
	number(f, "upper clamp", 0, c.y.QMax, c.got.Hi)
}

func (c *clamp) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	return []*exact{c.steps(dequantized(in[0], c.y), c.y, 0)}, nil
}

// quantize makes integers of real numbers.
type quantize struct {
	*layer
	want, got qmath.Quantizer
}

func (l *layer) deriveQuantize(op *lower.Quantize) (operation, error) {
	if err := l.sole(1); err != nil {
		return nil, err
	}
	y := l.out(0)
	if y == nil || l.in(0) != nil {
		return nil, fmt.Errorf("quantization between the wrong types")
	}
	return &quantize{l, l.profile.Quantizer(*y), op.Quantizer}, nil
}

func (q *quantize) compare(f *faults) { f.quantizer(q.want, q.got) }

func (q *quantize) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	x := in[0].F32()
	values := make([]float64, len(x))
	for i, v := range x {
		values[i] = float64(v)
	}
	e := q.steps(values, q.want.Grid, 0)
	e.round = q.want.Rounding
	operations := 1.0 // a division, or the reciprocal, its product and their rounding
	if q.want.Reciprocal != 0 {
		operations = 3
	}
	most := float64(q.want.QMax-q.want.QMin) + 1
	e.bound = func(i int) float64 { return operations * float32Error * min(math.Abs(e.value[i]), most) }
	return []*exact{e}, nil
}

// dequantize makes real numbers of integers.
type dequantize struct {
	*layer
	x qmath.Grid
}

func (l *layer) deriveDequantize(*lower.Dequantize) (operation, error) {
	if err := l.sole(1); err != nil {
		return nil, err
	}
	x := l.in(0)
	if x == nil || l.out(0) != nil {
		return nil, fmt.Errorf("dequantization between the wrong types")
	}
	return &dequantize{l, *x}, nil
}

func (*dequantize) compare(*faults) {}

func (d *dequantize) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	e := &exact{real: true, value: dequantized(in[0], d.x)}
	e.bound = func(i int) float64 { return float32Error * math.Abs(e.value[i]) }
	return []*exact{e}, nil
}
