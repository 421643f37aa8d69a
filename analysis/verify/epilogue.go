package verify

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// float32Error is the relative error of one float32 operation, with the hundredth that covers products of errors.
const float32Error = 0x1p-24 * 1.01

// finish makes the outputs of real numbers, which it may write over; size gives the magnitudes of what was added to each.
func (l *linear) finish(c *computer, s *sums, real []float64, size func(i int) float64, channel func(i int) int) ([]*exact, error) {
	// A float epilogue: accumulator, scale product, product, bias, residual, limits, dequantized residual.
	epilogue := func(i int) float64 { return 8 * float32Error * size(i) }
	var after, spread []float64
	if !l.clamped {
		var err error
		if after, spread, err = l.activate(c, s.shape, real, epilogue); err != nil {
			return nil, err
		}
	}
	var list []*exact
	for k := range l.outs {
		o, real := &l.outs[k], real
		if k+1 < len(l.outs) {
			real = append([]float64(nil), real...)
		}
		e := &exact{real: o.y == nil, round: l.rounding(), acc: func(i int) int64 { return int64(s.acc[i]) }}
		switch {
		case o.y == nil && l.clamped:
			e.value, e.bound = real, epilogue
			for i, v := range real {
				e.value[i] = min(max(v, float64(l.lo)), float64(l.hi))
			}
		case o.y == nil:
			e.value, e.bound = after, func(i int) float64 { return spread[i] }
		case l.clamped:
			l.inSteps(e, o, s, real, size, channel)
		default:
			e.zero, e.lo, e.hi = o.y.ZeroPoint, o.y.QMin, o.y.QMax
			y := float64(o.y.Scale)
			e.value = make([]float64, len(after))
			for i, v := range after {
				e.value[i] = v / y
			}
			e.bound = func(i int) float64 { return spread[i]/y + 2*float32Error*math.Abs(after[i]/y) }
		}
		list = append(list, e)
	}
	return list, nil
}

// inSteps fills e for an output of integers that are made by a multiplier.
func (l *linear) inSteps(e *exact, o *linearOutput, s *sums, real []float64, size func(i int) float64, channel func(i int) int) {
	e.zero, e.lo, e.hi = o.y.ZeroPoint, o.lo, o.hi
	if l.profile.Form == qmath.FloatTwice {
		e.lo = max(e.lo, -127) // its codes are symmetric
	}
	y := float64(o.y.Scale)
	e.value = real
	for i := range real {
		real[i] /= y
	}
	e.multiplier = func(i int) string { return describe(o.multipliers[channel(i)]) }
	deviation := l.profile.Deviation
	if l.op.Wide {
		deviation = l.profile.Deviation64
	}
	e.bound = func(i int) float64 {
		b := deviation(int64(math.Abs(s.acc[i])), o.multipliers[channel(i)], e.zero, e.lo, e.hi) + s.off*size(i)/y
		if l.skip != nil { // one more product and one more sum, and nothing that the clamp of the sum hides
			b += 8 * float32Error * size(i) / y
		}
		return b
	}
}

// activate applies the function behind the sum; spread is how far its result may be off, from how far its argument may be.
func (l *linear) activate(c *computer, shape []int, real []float64, off func(i int) float64) (values, spread []float64, err error) {
	g, err := l.function(l.before(), l.acts)
	if err != nil {
		return nil, nil, err
	}
	run, err := c.runner(g, false)
	if err != nil {
		return nil, nil, err
	}
	values, spread = make([]float64, len(real)), make([]float64, len(real))
	for i := range spread {
		spread[i] = off(i)
	}
	at := func(sign float64) ([]float32, error) {
		x := tensor.New(tensor.Float32, shape...)
		to := x.F32()
		for i, v := range real {
			to[i] = float32(v + sign*spread[i])
		}
		out, err := run.Run(c.ctx, map[string]*tensor.Tensor{g.Value(g.Inputs[0]).Name: x}, nil)
		if err != nil {
			return nil, err
		}
		return out[0].F32(), nil
	}
	var y [3][]float32
	for k, sign := range []float64{0, -1, 1} {
		if y[k], err = at(sign); err != nil {
			return nil, nil, err
		}
	}
	for i := range real {
		v := float64(y[0][i])
		values[i] = v
		// A function that is written out takes numbers as large as its argument from each other: x (1 + erf x) / 2 is near 0 below -2.
		spread[i] = max(math.Abs(float64(y[1][i])-v), math.Abs(float64(y[2][i])-v)) + 8*float32Error*max(math.Abs(v), math.Abs(real[i]))
	}
	return values, spread, nil
}

// before is the value that the activations are applied to.
func (l *layer) before() graph.ValueID {
	n := l.node
	if l.residual != graph.NoNode {
		n = l.g.Node(l.residual)
	}
	return n.Outputs[0]
}
