package lower

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
)

// Linear is a sum of products: Conv, ConvTranspose, Gemm or MatMul, with the geometry that the node's attributes say. For every
// output channel c
//
//	acc = sum (x - zx)*(w - zw[c]) + Bias[c]                           in 32 bits, in 64 if Wide
//
// and every output of the step is made of acc, after the residual, where there is one, has been added. Inputs of the step: x; the
// right factor where Weights is nil; the residual. Channels are counted modulo the length of a table, so that one entry serves all.
type Linear struct {
	Kind    string   // of the operator
	Weights *Weights // nil: both factors are tensors
	// Wide says that accumulators and biases have 64 bits and Requantize64 scales them: a factor has 16 bits.
	Wide bool
	// Bias is part of the accumulator, and has as many bits; nil under profiles that add a float bias after scaling, and where there
	// is none.
	Bias     []int64
	Residual bool
	// Real says how the accumulator becomes a real number, for outputs that are float32 and in front of Func:
	// Channel.Accumulated, plus the dequantized residual, limited to Lo and Hi. Nil where it is not needed.
	Real   []qmath.Channel
	Lo, Hi float32
	// Func is a function of one float32 number that is applied to the real number; what it gives is quantized by the grid of the
	// output. It is there for activations that no clamp can do, under profiles with a float epilogue. Constants of several elements are
	// slopes by channel, broadcast to the step's output.
	Func *graph.Graph
	// Scales has an entry for every output of the step; those of float32 outputs and behind Func have no Multipliers.
	Scales []Requantization
}

// Requantization makes codes of accumulators, as Profile.Requantize and RequantizeAdd do.
type Requantization struct {
	Multipliers []qmath.Multiplier // by channel
	Skip        qmath.Skip         // of the residual
	ZeroPoint   int32
	Lo, Hi      int32 // the type's limits and those of the activation
}

// Name implements Op.
func (o *Linear) Name() string { return o.Kind }

func (o *Linear) describe() string {
	s := "dynamic"
	if o.Weights != nil {
		s = "w=" + o.Weights.Codes.Type()
		if o.Weights.PerChannel() {
			s += " per-channel"
		}
	}
	switch {
	case o.Bias != nil && o.Wide:
		s += " bias=i64"
	case o.Bias != nil:
		s += " bias=i32"
	}
	if o.Wide {
		s += " acc=i64"
	}
	if o.Residual {
		s += " +residual"
	}
	if o.Func != nil {
		s += " func=" + operators(o.Func)
	}
	for _, q := range o.Scales {
		if q.Multipliers != nil {
			s += fmt.Sprintf(" [%s..]", describeMultiplier(q.Multipliers[0])) + fmt.Sprintf("+%d in %d..%d", q.ZeroPoint, q.Lo, q.Hi)
		}
	}
	return s
}

func describeMultiplier(m qmath.Multiplier) string {
	if m.Double != 0 {
		return fmt.Sprintf("*%g in float64", m.Double)
	}
	if m.Scale == 0 {
		return fmt.Sprintf("*%d>>%d", m.M, 31-m.Shift)
	}
	s := fmt.Sprintf("*%g", m.Scale)
	if m.Bias != 0 {
		s += fmt.Sprintf("%+g", m.Bias)
	}
	if m.Out != 0 {
		s += fmt.Sprintf(" out %g", m.Out)
	}
	return s
}

var linearFamily = family{name: "linear", residual: true, emit: emitLinear, ops: []string{"Conv", "ConvTranspose", "Gemm", "MatMul"}}

// linear is a Linear in the making.
// Depthwise reports whether each output channel of the step of node n reads one input channel of several.
func (o *Linear) Depthwise(n *graph.Node) bool {
	l, ok := graph.LinearOf(n, graph.WeightInput, o.Weights.Codes.Shape)
	return ok && l.Depthwise()
}

type linear struct {
	*compiler
	u    *unit
	n    *graph.Node
	op   *Linear
	x, w Encoding  // w of a right factor that is a tensor
	bias []float32 // by channel, nil for none
	skip Encoding
	in   []TensorID
}

func emitLinear(c *compiler, u *unit) error {
	n := c.g.Node(u.head())
	l := &linear{compiler: c, u: u, n: n, op: &Linear{Kind: n.Op}}
	for _, f := range []func() error{l.factors, l.width, l.addBias, l.addResidual, l.activation, l.outputs} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// factors reads the two factors.
func (l *linear) factors() (err error) {
	id := l.u.head()
	if l.x, err = l.operand(id, 0); err != nil {
		return err
	}
	x, err := l.read(l.n.Inputs[0], integer(l.x))
	if err != nil {
		return l.fail(id, "%w", err)
	}
	l.in = append(l.in, x)
	right := l.g.Const(l.n.Inputs[1])
	axis, ok := target.OutputAxis(l.g, l.n, 1)
	if right != nil && ok {
		slot, p, err := l.constSlot(id, 1)
		if err != nil {
			return err
		}
		group := 1
		if l.n.Conv().Transposed {
			group = l.n.Conv().Group
		}
		if l.op.Weights, err = newWeights(right, l.Codes[l.n.Inputs[1]], &slot.Config, p, axis, group, l.x.DType().Bits()); err != nil {
			return l.g.ErrorAt(stage, id, err)
		}
		l.op.Weights.Codes = l.g.Stored(l.op.Weights.Codes)
		l.g.Forget(l.op.Weights.Codes)
		l.g.Forget(right)
		return nil
	}
	if graph.Slides(l.n.Op) {
		return l.fail(id, "the weights are not a constant of known rank")
	}
	if l.w, err = l.operand(id, 1); err != nil {
		return err
	}
	w, err := l.read(l.n.Inputs[1], integer(l.w))
	if err != nil {
		return l.fail(id, "%w", err)
	}
	l.in = append(l.in, w)
	return nil
}

// width decides how many bits accumulators have: 64 where a factor has 16, as TFLite's kernels with int64 biases have it.
func (l *linear) width() error {
	l.op.Wide = l.x.DType().Bits() == 16 || l.op.Weights == nil && l.w.DType().Bits() == 16
	return nil
}

// channels is how many entries the tables by channel have.
func (l *linear) channels() int {
	switch {
	case l.op.Weights != nil:
		return l.op.Weights.Channels
	case l.bias != nil:
		return len(l.bias)
	}
	return 1
}

// weightScale is the scale of the right factor, alpha of a Gemm included.
func (l *linear) weightScale(c int) float32 {
	s := l.w.Scale
	if l.op.Weights != nil {
		s = l.op.Weights.Scale[c]
	}
	return s * l.n.Gemm().Alpha
}

// addBias brings the bias to one number per channel: into the accumulator as an integer, or kept as float, as the profile says.
func (l *linear) addBias() error {
	id, v := l.u.head(), l.n.Input(2)
	if v == graph.NoValue || l.n.Op == "MatMul" {
		return nil
	}
	b := l.g.Const(v)
	if b == nil || b.DType != tensor.Float32 || len(b.Shape) == 0 || b.Shape[len(b.Shape)-1] != b.Len() {
		return l.fail(id, "the bias is not one constant per output channel")
	}
	if n := l.channels(); l.op.Weights != nil && b.Len() != n {
		return l.fail(id, "%d biases for %d output channels", b.Len(), n)
	}
	if beta := l.n.Gemm().Beta; beta != 1 {
		return l.fail(id, "beta is %g", beta)
	}
	l.bias = append([]float32(nil), b.F32()...)
	codes, quantized, err := l.biasCodes()
	if err != nil {
		return err
	}
	switch {
	case !l.profile.FloatBias():
		l.op.Bias, l.bias = codes, make([]float32, len(l.bias))
	case quantized: // the model's bias is the integers; a float epilogue reads their values
		slot := l.set.Input(id, 2)
		for c := range l.bias {
			l.bias[c] = l.set.Grid(slot, c).Dequantize(int32(codes[c])) // 32 bits in the model
		}
	}
	return nil
}

// biasCodes returns the bias as integers of scale input scale * weight scale, and whether the model has them.
func (l *linear) biasCodes() (codes []int64, quantized bool, err error) {
	id := l.u.head()
	slot := l.set.Input(id, 2)
	quantized = l.set.Slot(slot).State().Quantizes()
	if !quantized && l.profile.FloatBias() {
		return nil, false, nil
	}
	codes, bits := make([]int64, len(l.bias)), 32
	for c, b := range l.bias {
		scale := qmath.BiasScale(l.x.Scale, l.weightScale(c))
		if quantized {
			if own := l.set.Grid(slot, c).Scale; own != scale && !l.profile.FloatBias() {
				return nil, false, l.fail(id, "the bias of channel %d has scale %g, the accumulator %g", c, own, scale)
			} else {
				scale = own
			}
		}
		q, fits := l.set.Params(slot).BiasCode(c, b, scale)
		if codes[c] = int64(q); l.op.Wide {
			codes[c], fits = l.set.Params(slot).BiasCode64(c, b, scale)
			bits = 64
		}
		if own := l.profile.Bias; own != 0 && own < bits {
			bits, fits = own, fits && codes[c] >= -1<<(own-1) && codes[c] < 1<<(own-1)
		}
		if !fits {
			return nil, false, l.fail(id, "bias %g of channel %d does not fit into %d bits at scale %g", b, c, bits, scale)
		}
	}
	return codes, quantized, nil
}

// addResidual reads the tensor that is added before rounding.
func (l *linear) addResidual() (err error) {
	if l.u.residual == graph.NoNode {
		return nil
	}
	if !l.profile.FusesAdd() {
		return l.fail(l.u.residual, "profile %s does not add before it rounds, which %s does", l.profile.Name, l.program.Target)
	}
	if l.skip, err = l.operand(l.u.residual, l.u.skip); err != nil {
		return err
	}
	t, err := l.read(l.g.Node(l.u.residual).Inputs[l.u.skip], integer(l.skip))
	if err != nil {
		return l.fail(l.u.residual, "%w", err)
	}
	l.op.Residual, l.in = true, append(l.in, t)
	return nil
}

// activation turns what is fused behind the sum into limits or a function.
func (l *linear) activation() error {
	lo, hi, ok, err := l.limits(l.u.acts)
	if err != nil {
		return err
	}
	if ok {
		l.op.Lo, l.op.Hi = lo, hi
		return nil
	}
	l.op.Lo, l.op.Hi, _, _ = l.limits(nil)
	if !l.profile.FloatBias() {
		return l.fail(l.u.acts[0], "profile %s has no float epilogue to compute it in", l.profile.Name)
	}
	before := l.u.nodes[len(l.u.nodes)-len(l.u.acts)-1]
	l.op.Func, err = l.function(l.g.Node(before).Outputs[0], l.u.acts, true)
	return err
}

// outputs writes the step with a tensor for every form in which the result is read.
func (l *linear) outputs() error {
	v := l.g.Node(l.u.last()).Outputs[0]
	var out []TensorID
	for _, f := range l.forms(v) {
		if f.real || l.op.Func != nil {
			l.makeReal()
		}
		scales, err := l.scales(f)
		if err != nil {
			return err
		}
		l.op.Scales = append(l.op.Scales, scales)
		out = append(out, l.define(v, f))
	}
	if len(out) == 0 {
		return nil // nobody reads it
	}
	at := l.unitStep(l.u, l.in, out, l.op)
	for _, id := range out {
		if t := &l.program.Tensors[id]; !t.Quantized() {
			l.cross(at, id, tensor.Undefined, true)
		}
	}
	return l.prove(at)
}

func (l *linear) channel(c int) qmath.Channel {
	ch := qmath.Channel{X: l.x.Scale, W: l.weightScale(c), Y: 1}
	if l.bias != nil {
		ch.Bias = l.bias[c]
	}
	ch.Dense = (l.n.Op == "Gemm" || l.n.Op == "MatMul") && (l.op.Weights == nil || !l.op.Weights.PerChannel())
	ch.Connected = (l.n.Op == "Gemm" || l.n.Op == "MatMul") && l.op.Weights != nil
	return ch
}

func (l *linear) makeReal() {
	if l.op.Real != nil {
		return
	}
	l.op.Real = make([]qmath.Channel, l.channels())
	for c := range l.op.Real {
		l.op.Real[c] = l.channel(c)
	}
}

// scales prepares the multipliers of one output.
func (l *linear) scales(f form) (Requantization, error) {
	if f.real {
		return Requantization{}, nil
	}
	q := Requantization{ZeroPoint: f.enc.ZeroPoint, Lo: f.enc.QMin, Hi: f.enc.QMax}
	if l.op.Func != nil {
		return q, nil
	}
	q.Lo, q.Hi = codeLimits(f.enc, l.op.Lo, l.op.Hi)
	if f.enc.Rounding != qmath.HalfEven && l.profile.Float() && l.profile.Rounding != f.enc.Rounding {
		return q, l.fail(l.u.last(), "the plan rounds %s, profile %s %s", f.enc.Rounding, l.profile.Name, l.profile.Rounding)
	}
	q.Multipliers = make([]qmath.Multiplier, l.channels())
	for c := range q.Multipliers {
		ch := l.channel(c)
		ch.Y = f.enc.Scale
		m, err := l.profile.Prepare(ch)
		if err != nil {
			return q, l.fail(l.u.head(), "output channel %d: %w", c, err)
		}
		q.Multipliers[c] = m
	}
	if l.op.Residual {
		q.Skip = l.profile.PrepareSkip(l.skip.Grid(), f.enc.Scale)
	}
	return q, nil
}
