package verify

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/tqc"
)

// linear is a Conv, ConvTranspose, Gemm or MatMul.
type linear struct {
	*layer
	op *lower.Linear

	x       qmath.Grid
	w       *qmath.Grid // of a right factor that is a tensor
	weights *weights    // of one that is constant
	skip    *qmath.Grid
	bias    []int64   // part of the accumulator, nil for none
	float   []float32 // the float bias by channel, nil for none
	lo, hi  float32
	clamped bool // the activation is limits; else a function
	outs    []linearOutput
}

// linearOutput is what makes codes of accumulators.
type linearOutput struct {
	y           *qmath.Grid // nil: real
	multipliers []qmath.Multiplier
	lo, hi      int32
	skip        qmath.Skip
}

func (l *layer) deriveLinear(op *lower.Linear) (operation, error) {
	if err := l.wants("Conv", "ConvTranspose", "Gemm", "MatMul"); err != nil {
		return nil, err
	}
	r := &linear{layer: l, op: op}
	inputs := 1
	x := l.seen(l.node.ID, 0)
	if x == nil {
		return nil, fmt.Errorf("input 0 is not quantized")
	}
	r.x = *x
	var err error
	if r.weights, err = l.deriveWeights(); err != nil {
		return nil, err
	}
	if r.weights == nil {
		if r.w = l.seen(l.node.ID, 1); r.w == nil {
			return nil, fmt.Errorf("input 1 is not quantized")
		}
		inputs++
	}
	if l.residual != graph.NoNode {
		add := l.g.Node(l.residual)
		for i, v := range add.Inputs {
			if v != l.node.Outputs[0] {
				r.skip = l.seen(l.residual, i)
			}
		}
		if r.skip == nil {
			return nil, fmt.Errorf("the residual is not quantized")
		}
		inputs++
	}
	if len(l.step.Inputs) != inputs {
		return nil, fmt.Errorf("%d inputs where graph and plan give %d", len(l.step.Inputs), inputs)
	}
	if err := r.deriveBias(); err != nil {
		return nil, err
	}
	if r.lo, r.hi, r.clamped, err = l.limits(l.acts); err != nil {
		return nil, err
	}
	if !r.clamped {
		r.lo, r.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	for k := range l.step.Outputs {
		o, err := r.deriveOutput(l.out(k))
		if err != nil {
			return nil, err
		}
		r.outs = append(r.outs, o)
	}
	return r, nil
}

// channels is how many entries tables by channel have.
func (l *linear) channels() int {
	switch {
	case l.weights != nil:
		return len(l.weights.scale)
	case l.float != nil:
		return len(l.float)
	case l.bias != nil:
		return len(l.bias)
	}
	return 1
}

// factor is the scale of the right factor, alpha included.
func (l *linear) factor(c int) float32 {
	var s float32
	if l.weights != nil {
		s = l.weights.scale[c]
	} else {
		s = l.w.Scale
	}
	if l.node.Op == "Gemm" {
		s *= l.node.Alpha()
	}
	return s
}

// deriveBias reads the bias as the profile wants it: integers on the accumulator's scale, or float.
func (l *linear) deriveBias() error {
	v := l.node.Input(2)
	if v == graph.NoValue || l.node.Op == "MatMul" {
		return nil
	}
	t := l.g.Const(v)
	if t == nil || t.DType != tensor.Float32 {
		return fmt.Errorf("the bias is not a constant of float32")
	}
	slot := l.set.Input(l.node.ID, 2)
	quantized := slot != tqc.NoSlot && l.set.Slot(slot).State().Quantizes()
	if l.profile.FloatBias() {
		l.float = append([]float32(nil), t.F32()...)
		for c, b := range l.float {
			if quantized {
				g := l.set.Grid(slot, c)
				q, _ := l.set.Params(slot).BiasCode(c, b, g.Scale)
				l.float[c] = g.Dequantize(q)
			}
		}
		return nil
	}
	for c, b := range t.F32() {
		p, scale := l.set.Params(slot), qmath.BiasScale(l.x.Scale, l.factor(min(c, l.channels()-1)))
		q, fits := p.BiasCode64(c, b, scale)
		if !l.wide() {
			fits = fits && q == int64(int32(q))
		}
		if !fits {
			return fmt.Errorf("bias %g of channel %d does not fit into its accumulator", b, c)
		}
		l.bias = append(l.bias, q)
	}
	return nil
}

// channel is what the multiplier of channel c is made of.
func (l *linear) channel(c int, y float32) qmath.Channel {
	ch := qmath.Channel{X: l.x.Scale, W: l.factor(c), Y: y}
	if l.float != nil {
		ch.Bias = l.float[c]
	}
	ch.Dense = (l.node.Op == "Gemm" || l.node.Op == "MatMul") && (l.weights == nil || !l.weights.perChannel())
	ch.Connected = (l.node.Op == "Gemm" || l.node.Op == "MatMul") && l.weights != nil
	return ch
}

func (l *linear) deriveOutput(y *qmath.Grid) (o linearOutput, err error) {
	if o.y = y; y == nil {
		return o, nil
	}
	o.lo, o.hi = y.QMin, y.QMax
	if !l.clamped {
		return o, nil
	}
	o.lo, o.hi = y.Quantize(l.lo), y.Quantize(l.hi)
	for c := range l.channels() {
		m, err := l.profile.Prepare(l.channel(c, y.Scale))
		if err != nil {
			return o, err
		}
		o.multipliers = append(o.multipliers, m)
	}
	if l.skip != nil {
		o.skip = l.profile.PrepareSkip(*l.skip, y.Scale)
	}
	return o, nil
}

// needsReal reports whether accumulators become real numbers.
func (l *linear) needsReal() bool {
	for _, o := range l.outs {
		if o.y == nil {
			return true
		}
	}
	return !l.clamped
}

func (l *linear) compare(f *faults) {
	op := l.op
	flag(f, "operator", true, op.Kind == l.node.Op)
	flag(f, "constant weights", l.weights != nil, op.Weights != nil)
	if l.weights != nil && op.Weights != nil {
		l.weights.compare(f, op.Weights)
	}
	flag(f, "64-bit accumulator", l.wide(), op.Wide)
	numbers(f, "bias", l.bias, op.Bias)
	flag(f, "residual", l.skip != nil, op.Residual)
	number(f, "lower limit", 0, l.lo, op.Lo)
	number(f, "upper limit", 0, l.hi, op.Hi)
	flag(f, "function", !l.clamped, op.Func != nil)
	flag(f, "real result", l.needsReal(), op.Real != nil)
	if l.needsReal() && op.Real != nil {
		number(f, "number of channels", 0, l.channels(), len(op.Real))
		for c := range min(l.channels(), len(op.Real)) {
			want, got := l.channel(c, 1), op.Real[c]
			number(f, "input scale", c, want.X, got.X)
			number(f, "weight scale", c, want.W, got.W)
			number(f, "float bias", c, want.Bias, got.Bias)
		}
	}
	number(f, "number of outputs", 0, len(l.outs), len(op.Scales))
	for k := range min(len(l.outs), len(op.Scales)) {
		f.output = k
		l.compareOutput(f, &l.outs[k], &op.Scales[k])
	}
}

func (l *linear) compareOutput(f *faults, o *linearOutput, s *lower.Requantization) {
	number(f, "number of multipliers", 0, len(o.multipliers), len(s.Multipliers))
	for c := range min(len(o.multipliers), len(s.Multipliers)) {
		f.multiplier("", c, o.multipliers[c], s.Multipliers[c])
	}
	if o.y == nil {
		return
	}
	number(f, "zero point", 0, o.y.ZeroPoint, s.ZeroPoint)
	number(f, "lower clamp", 0, o.lo, s.Lo)
	number(f, "upper clamp", 0, o.hi, s.Hi)
	number(f, "residual scale", 0, o.skip.Scale, s.Skip.Scale)
	number(f, "residual zero point", 0, o.skip.ZeroPoint, s.Skip.ZeroPoint)
}
