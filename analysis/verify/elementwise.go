package verify

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// pair is Add, Sub or Mul of two tensors of integers.
type pair struct {
	*layer
	a, b, y  qmath.Grid
	sum      *qmath.Sum
	product  *qmath.Product
	gotSum   *qmath.Sum
	gotMul   *qmath.Product
	subtract bool
}

// operands reads the grids of a step of two factors.
func (l *layer) operands() (*pair, error) {
	if err := l.sole(2); err != nil {
		return nil, err
	}
	a, b := l.seen(l.node.ID, 0), l.seen(l.node.ID, 1)
	_, y, err := l.integers()
	if err != nil {
		return nil, err
	}
	if a == nil || b == nil {
		return nil, fmt.Errorf("an input is not quantized")
	}
	p := &pair{layer: l, a: *a, b: *b}
	p.y, err = l.limited(y)
	return p, err
}

func (l *layer) deriveSum(op *lower.Sum) (operation, error) {
	if err := l.wants("Add", "Sub"); err != nil {
		return nil, err
	}
	p, err := l.operands()
	if err != nil {
		return nil, err
	}
	p.gotSum, p.subtract = &op.Sum, l.node.Op == "Sub"
	s, err := l.profile.PrepareSum(p.a, p.b, p.y, p.subtract)
	p.sum = &s
	return p, err
}

func (l *layer) deriveProduct(op *lower.Product) (operation, error) {
	if err := l.wants("Mul"); err != nil {
		return nil, err
	}
	p, err := l.operands()
	if err != nil {
		return nil, err
	}
	p.gotMul = &op.Product
	m, err := l.profile.PrepareProduct(p.a, p.b, p.y)
	p.product = &m
	return p, err
}

func (p *pair) compare(f *faults) {
	if p.product != nil {
		want, got := p.product, p.gotMul
		f.grid("first ", want.A, got.A)
		f.grid("second ", want.B, got.B)
		f.grid("", want.Y, got.Y)
		f.scaling(want.Scaling, got.Scaling)
		f.multiplier("", 0, want.M, got.M)
		flag(f, "float form", want.Float, got.Float)
		f.quantizer(want.Quantizer, got.Quantizer)
		return
	}
	want, got := p.sum, p.gotSum
	f.grid("first ", want.A, got.A)
	f.grid("second ", want.B, got.B)
	f.grid("", want.Y, got.Y)
	number(f, "form", 0, want.Form, got.Form)
	flag(f, "subtraction", want.Subtract, got.Subtract)
	f.scaling(want.Scaling, got.Scaling)
	f.multiplier("first ", 0, want.MA, got.MA)
	f.multiplier("second ", 0, want.MB, got.MB)
	f.multiplier("", 0, want.MY, got.MY)
	number(f, "left shift", 0, want.Left, got.Left)
	number(f, "right shift", 0, want.Right, got.Right)
	number(f, "rounding", 0, want.Rounding, got.Rounding)
	numbers(f, "factor", []float32{want.RA, want.RB, want.K}, []float32{got.RA, got.RB, got.K})
	f.quantizer(want.Quantizer, got.Quantizer)
}

func (p *pair) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	a, b := in[0].Integers(), in[1].Integers()
	shape := broadcast(in[0].Shape, in[1].Shape)
	ia, ib := source(shape, in[0].Shape), source(shape, in[1].Shape)
	values := make([]float64, len(ia))
	for i := range values {
		x := float64(a[ia[i]]-p.a.ZeroPoint) * float64(p.a.Scale)
		y := float64(b[ib[i]]-p.b.ZeroPoint) * float64(p.b.Scale)
		switch {
		case p.product != nil:
			values[i] = x * y
		case p.subtract:
			values[i] = x - y
		default:
			values[i] = x + y
		}
	}
	y, bound := p.y, 0.0
	if p.product != nil {
		bound = p.product.Deviation()
		if p.product.Float {
			y = p.product.Quantizer.Grid
		}
	} else {
		bound = p.sum.Deviation()
		if p.sum.Form == qmath.SumFloat {
			y = p.sum.Quantizer.Grid
		}
	}
	return []*exact{p.steps(values, y, bound)}, nil
}
