package cpu

import (
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program/steps"
)

// sink makes one output of sums: by an output kernel where it computes what the profile says, else by Go.
type sink struct {
	l     *linear
	dtype tensor.DType // of codes; Float32 for real numbers
	cols  int
	v     *value
	// residual are the codes of the other operand of a fused addition.
	residual *value
	skipZero int32

	scaled  *kernels.StoreScaled
	f32     *kernels.StoreF32
	shifted *kernels.StoreShifted
	scale   *lower.Requantization // of Go
}

func (k *sink) real() bool { return k.dtype == tensor.Float32 }

// makeSinks prepares the outputs of n channels: the real one first, where there is one or a function reads it, then the others.
func (l *linear) makeSinks(n int) {
	l.sinks = nil
	if l.op.Real != nil {
		l.sinks = append(l.sinks, l.newSink(n, tensor.Float32, nil))
	}
	for i, id := range l.s.Outputs {
		if t := &l.p.Tensors[id]; t.Quantized() && l.op.Func == nil {
			l.sinks = append(l.sinks, l.newSink(n, t.DType, &l.op.Scales[i]))
		}
	}
	outs := make(kernels.StoreAll, len(l.sinks))
	for i, k := range l.sinks {
		outs[i] = k.output(0)
	}
	if l.out = outs; len(outs) == 1 {
		l.out = outs[0]
	}
}

// outputAt returns all outputs with row 0 at element first.
func (l *linear) outputAt(first int) kernels.Output {
	if first == 0 {
		return l.out
	}
	outs := make(kernels.StoreAll, len(l.sinks))
	for i, k := range l.sinks {
		outs[i] = k.output(first)
	}
	if len(outs) == 1 {
		return outs[0]
	}
	return outs
}

func (l *linear) newSink(n int, d tensor.DType, r *lower.Requantization) *sink {
	k := &sink{l: l, dtype: d, cols: n, scale: r}
	if l.op.Residual {
		k.skipZero = steps.Raised(l.p.Tensors[l.s.Inputs[len(l.s.Inputs)-1]].DType)
	}
	switch form := l.p.Profile.Form; {
	case k.real():
		k.tryReal()
	case form == qmath.FloatAfter || form == qmath.FloatDivide || form == qmath.FloatInside:
		k.tryScaled(form)
	case !l.p.Profile.Float() && !l.op.Residual:
		k.tryShifted(form)
	}
	return k
}

// output returns the sink with row 0 at element first: the sink's own where that is 0.
func (k *sink) output(first int) kernels.Output {
	switch {
	case k.real() && k.f32 == nil:
		return kernels.StoreFunc(func(s *kernels.Sums) { k.storeReal(s, first) })
	case k.scaled == nil && k.f32 == nil && k.shifted == nil:
		return kernels.StoreFunc(func(s *kernels.Sums) { k.storeCodes(s, first) })
	case k.scaled != nil && first == 0:
		return k.scaled
	case k.scaled != nil:
		o := *k.scaled
		if o.Dst = o.Dst[first:]; o.Residual != nil {
			o.Residual = o.Residual[first:]
		}
		return &o
	case k.f32 != nil && first == 0:
		return k.f32
	case k.f32 != nil:
		o := *k.f32
		o.Dst = o.Dst[first:]
		return &o
	case first == 0:
		return k.shifted
	}
	o := *k.shifted
	o.Dst = o.Dst[first:]
	return &o
}

// bind points the sink at this run's memory.
func (k *sink) bind(residual *value) {
	k.residual = residual
	switch {
	case k.scaled != nil:
		k.scaled.Dst, k.scaled.Ldd = k.v.codes, k.cols
		if residual != nil {
			k.scaled.Residual, k.scaled.Ldr = residual.codes, k.cols
		}
	case k.f32 != nil:
		k.f32.Dst, k.f32.Ldd = k.v.t.F32(), k.cols
	case k.shifted != nil:
		k.shifted.Dst, k.shifted.Ldd = k.v.codes, k.cols
	}
}

// asByte moves a code to bytes; false where it does not fit.
func (k *sink) asByte(q int32) (uint8, bool) {
	q += steps.Raised(k.dtype)
	return uint8(q), q >= 0 && q <= 255
}

// limits returns zero point and limits as bytes; false where they cannot be told to the kernels.
func (k *sink) limits() (zero, lo, hi uint8, ok bool) {
	zero, ok0 := k.asByte(k.scale.ZeroPoint)
	lo, ok1 := k.asByte(k.scale.Lo)
	hi, ok2 := k.asByte(k.scale.Hi)
	return zero, lo, hi, ok0 && ok1 && ok2 && hi > 0 && lo <= hi
}

func (k *sink) tryReal() {
	l := k.l
	if l.op.Residual || l.op.Lo == 0 && l.op.Hi == 0 {
		return
	}
	s := kernels.Scale{Factor: make([]float32, k.cols), Bias: make([]float32, k.cols), Lo: l.op.Lo, Hi: l.op.Hi}
	for j := range k.cols {
		c := l.op.Real[j%len(l.op.Real)]
		s.Factor[j], s.Bias[j] = float32(c.X*c.W), c.Bias
	}
	if s.Check() == nil {
		k.f32 = &kernels.StoreF32{Scale: s}
	}
}

func (k *sink) tryScaled(form qmath.Form) {
	zero, lo, hi, ok := k.limits()
	if p := k.l.p.Profile; !ok || form != qmath.FloatInside && p.Rounding != qmath.HalfEven {
		return
	}
	s := kernels.Scale{Factor: make([]float32, k.cols), Zero: zero, QMin: lo, QMax: hi}
	biases := make([]float32, k.cols)
	any := false
	for j := range k.cols {
		m := k.scale.Multipliers[j%len(k.scale.Multipliers)]
		s.Factor[j], biases[j] = m.Scale, m.Bias
		if form == qmath.FloatDivide {
			s.Divisor = m.Out
		}
		if form == qmath.FloatInside { // the zero point is added before rounding
			biases[j] = float32(k.scale.ZeroPoint)
		}
		any = any || biases[j] != 0
	}
	if form == qmath.FloatInside {
		s.Zero = uint8(steps.Raised(k.dtype))
	}
	if any {
		s.Bias = biases
	}
	if k.l.op.Residual {
		z := k.scale.Skip.ZeroPoint + k.skipZero
		if z < 0 || z > 255 || form == qmath.FloatInside {
			return
		}
		s.ResidualScale, s.ResidualZero = k.scale.Skip.Scale, uint8(z)
	}
	if s.Check() == nil {
		k.scaled = &kernels.StoreScaled{Scale: s}
	}
}

// tryShifted takes the integer kernel where it rounds as the profile does and nothing can wrap: see Scaling.Fits.
func (k *sink) tryShifted(form qmath.Form) {
	zero, lo, hi, ok := k.limits()
	rounding, known := k.rounding(form)
	if !ok || !known {
		return
	}
	s := kernels.Shift{Mul: make([]int32, k.cols), Exp: make([]int8, k.cols), Rounding: rounding, Zero: zero, QMin: lo, QMax: hi}
	most := k.l.largest(k.cols)
	for j := range k.cols {
		m := k.scale.Multipliers[j%len(k.scale.Multipliers)]
		if m.Double != 0 || m.Shift < -31 || m.Shift > 30 || !k.l.p.Profile.Fits(most[j], m) {
			return
		}
		s.Mul[j], s.Exp[j] = m.M, int8(m.Shift)
	}
	if s.Check() == nil {
		k.shifted = &kernels.StoreShifted{Shift: s}
	}
}

func (k *sink) rounding(form qmath.Form) (kernels.ShiftRounding, bool) {
	switch form {
	case qmath.DoubleUpAway:
		return kernels.TwiceAway, true
	case qmath.DoubleUpUp:
		return kernels.TwiceUp, true
	case qmath.SingleUp, qmath.SingleUpShift:
		return kernels.OnceUp, true
	case qmath.SingleAway:
		return kernels.OnceAway, true
	}
	switch k.l.p.Profile.Rounding {
	case qmath.HalfUp:
		return kernels.OnceUp, true
	case qmath.Down:
		return kernels.OnceFloor, true
	case qmath.HalfAwayFromZero:
		return kernels.OnceAway, true
	case qmath.HalfEven:
		return kernels.OnceEven, true
	}
	return 0, false
}

// largest returns a bound of the magnitude of the sums of each of n columns.
func (l *linear) largest(n int) []int64 {
	most := make([]int64, n)
	for i := range l.p.Safety {
		if s := &l.p.Safety[i]; s.Step == l.s.ID {
			for j := range most {
				most[j] = max(s.Max[j%len(s.Max)], -s.Min[j%len(s.Min)])
				if s.Min[j%len(s.Min)] == -1<<63 {
					most[j] = 1<<63 - 1
				}
			}
			return most
		}
	}
	for j := range most {
		most[j] = 1<<63 - 1 // nothing is known
	}
	return most
}

// storeCodes stores by the profile's own arithmetic, row 0 at element first.
func (k *sink) storeCodes(s *kernels.Sums, first int) {
	p, r := k.l.p.Profile, k.scale
	for i := range s.Rows {
		at := first + (s.Row+i)*k.cols + s.Col
		for j, acc := range s.Acc[i*s.Stride:][:s.Cols] {
			m := r.Multipliers[(s.Col+j)%len(r.Multipliers)]
			q := int32(0)
			if k.residual != nil {
				q = p.RequantizeAdd(acc, m, int32(k.residual.codes[at+j])-k.skipZero, r.Skip, r.ZeroPoint, r.Lo, r.Hi)
			} else {
				q = p.Requantize(acc, m, r.ZeroPoint, r.Lo, r.Hi)
			}
			k.v.codes[at+j] = uint8(q + steps.Raised(k.dtype))
		}
	}
}

// storeReal stores real numbers with a residual, row 0 at element first.
func (k *sink) storeReal(s *kernels.Sums, first int) {
	l := k.l
	var grid qmath.Grid
	if l.op.Residual {
		grid = l.p.Tensors[l.s.Inputs[len(l.s.Inputs)-1]].Encoding.Grid()
	}
	dst := k.v.t.F32()
	for i := range s.Rows {
		at := first + (s.Row+i)*k.cols + s.Col
		for j, acc := range s.Acc[i*s.Stride:][:s.Cols] {
			v := l.op.Real[(s.Col+j)%len(l.op.Real)].Accumulated(acc)
			if k.residual != nil {
				v += float32(grid.Dequantize(int32(k.residual.codes[at+j]) - k.skipZero)) // rounded before it is added
			}
			dst[at+j] = min(max(v, l.op.Lo), l.op.Hi)
		}
	}
}
