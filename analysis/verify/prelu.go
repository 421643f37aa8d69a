package verify

import (
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// prelu is x from 0 on and slope*x below.
type prelu struct {
	*pair
	got   *lower.PRelu
	above []int32 // by raw byte or word of x
	bound float64
}

func (l *layer) derivePRelu(op *lower.PRelu) (operation, error) {
	if err := l.wants("PRelu"); err != nil {
		return nil, err
	}
	operands, err := l.operands()
	if err != nil {
		return nil, err
	}
	p := &prelu{pair: operands, got: op, above: make([]int32, entries(operands.a))}
	m, err := l.profile.PrepareProduct(p.a, p.b, p.y)
	if err != nil {
		return nil, err
	}
	p.product, p.gotMul = &m, &op.Below
	r, err := l.profile.PrepareRescale(p.a, p.y)
	if err != nil {
		return nil, err
	}
	p.bound = max(m.Deviation(), r.Deviation())
	for raw := range p.above {
		p.above[raw] = r.At(codeAt(p.a, raw))
	}
	if entries(p.a) > 1<<8 || entries(p.y) > 1<<8 {
		return p, nil
	}
	bytes, err := l.profile.LeakyRelu(p.a, p.y, 1) // codes of 8 bits have one definition of their own
	for raw, b := range bytes {
		if p.above[raw] = int32(b); p.y.QMin < 0 {
			p.above[raw] = int32(int8(b))
		}
	}
	return p, err
}

func (p *prelu) compare(f *faults) {
	p.pair.compare(f)
	numbers(f, "table entry", p.above, p.got.Above.Integers())
}

func (p *prelu) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	x, slopes := in[0].Integers(), in[1].Integers()
	values := make([]float64, len(x))
	for i, at := range source(in[0].Shape, in[1].Shape) {
		values[i] = float64(x[i]-p.a.ZeroPoint) * float64(p.a.Scale)
		if values[i] < 0 {
			values[i] *= float64(slopes[at]-p.b.ZeroPoint) * float64(p.b.Scale)
		}
	}
	y := p.y
	if p.product.Float {
		y = p.product.Quantizer.Grid
	}
	return []*exact{p.steps(values, y, p.bound)}, nil
}
