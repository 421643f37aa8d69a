package verify

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// layerNorm is LayerNormalization of the last axes.
type layerNorm struct {
	*layer
	got         *lower.LayerNorm
	want        qmath.LayerNorm
	scale, bias []float32
}

func (l *layer) deriveLayerNorm(op *lower.LayerNorm) (operation, error) {
	if err := l.wants("LayerNormalization"); err != nil {
		return nil, err
	}
	x, y, err := l.single()
	if err != nil {
		return nil, err
	}
	if y, err = l.limited(y); err != nil {
		return nil, err
	}
	shape := l.g.Value(l.node.Inputs[0]).Shape
	axis, ok := graph.Axis(l.node.Axis(), len(shape))
	if !ok {
		return nil, fmt.Errorf("axis %d of %s", l.node.Axis(), shape)
	}
	n := 1
	for _, d := range shape[axis:] {
		n *= int(d.N)
	}
	o := &layerNorm{layer: l, got: op, scale: make([]float32, n), bias: make([]float32, n)}
	for k, list := range [][]float32{o.scale, o.bias} {
		from := []float32{float32(1 - k)} // where there is none
		if t := l.g.Const(l.node.Input(k + 1)); t != nil {
			from = t.ToRowMajor().F32()
		}
		for i := range list {
			list[i] = from[i%len(from)]
		}
	}
	o.want, err = l.profile.PrepareLayerNorm(x, y, o.scale, o.bias, l.node.Epsilon())
	return o, err
}

func (o *layerNorm) compare(f *faults) {
	want, got := &o.want, &o.got.Norm
	f.grid("input ", want.X, got.X)
	f.grid("", want.Y, got.Y)
	number(f, "row", 0, want.N, got.N)
	number(f, "fraction", 0, want.Fraction, got.Fraction)
	number(f, "epsilon", 0, want.Epsilon, got.Epsilon)
	number(f, "shift", 0, want.Shift, got.Shift)
	number(f, "rounding", 0, want.Rounding, got.Rounding)
	numbers(f, "gain", want.Gain, got.Gain)
	numbers(f, "offset", want.Offset, got.Offset)
}

func (o *layerNorm) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	codes, n := in[0].Integers(), o.want.N
	values, s := make([]float64, len(codes)), float64(o.want.X.Scale)
	for at := 0; at < len(codes); at += n {
		mean, variance := 0.0, 0.0
		for _, q := range codes[at : at+n] {
			mean += float64(q) / float64(n)
		}
		for _, q := range codes[at : at+n] {
			variance += (float64(q) - mean) * (float64(q) - mean) / float64(n)
		}
		for i, q := range codes[at : at+n] {
			u := (float64(q) - mean) * s / math.Sqrt(variance*s*s+o.node.Epsilon())
			if variance < 1e-9 { // all codes are one
				u = 0
			}
			values[at+i] = u*float64(o.scale[i]) + float64(o.bias[i])
		}
	}
	return []*exact{o.steps(values, o.want.Y, o.want.Deviation()+0x1p-30)}, nil
}
