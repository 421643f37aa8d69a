package exec

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// dynamicLSTM is ONNX Runtime's LSTM with weights of 8 bits, bit for bit as its kernel for CPUs computes it on one thread:
//
//	gates = float32(sums of X and W) * (scale of X * scale of W) + float32(sums of H and R) * (scale of H * scale of R) + (Wb + Rb)
//
// The data are quantized as DynamicQuantizeLinear does: all steps and samples of X by one scale, and the state H of all samples at each
// step by another. What follows is float32, with the engine's own Sigmoid and Tanh. Where it has several threads the engine divides the
// samples among them, and the states of each part have a scale of their own.
type dynamicLSTM struct {
	*recurrence[float32]
	coupled bool
	float   [][]func(float32) float32 // by direction: the functions of gates, cell and state
	hybrid  bool                      // HybridLSTM
}

// What an LSTM has of each unit.
const (
	lstmGates, peepholesOfAnLSTM = 4, 3
)

func buildDynamicLSTM(n *graph.Node, _ int64) (evalFunc, error) {
	r, err := buildRecurrence[float32](n, lstmGates, []string{"Sigmoid", "Tanh", "Tanh"})
	if err != nil {
		return nil, err
	}
	l := &dynamicLSTM{recurrence: r, coupled: n.AttrInt("input_forget", 0) != 0}
	for k, acts := range r.acts {
		list := make([]func(float32) float32, len(acts))
		for i, f := range acts {
			switch r.names[k][i] {
			case "Sigmoid":
				list[i] = rationalSigmoid
			case "Tanh":
				list[i] = rationalTanh
			default:
				list[i] = func(x float32) float32 { return float32(f(float64(x))) }
			}
		}
		l.float = append(l.float, list)
	}
	return l.run, nil
}

// codedWeights are the weights of one direction: its matrix, scales of the columns, and the zero point, which is that of all.
type codedWeights struct {
	matrix *kernels.GemmU8S8
	scale  []float32
	zero   int32
}

// weights reads W or R by direction: codes [dirs, k, 4*hidden], scales and zero points [dirs] or [dirs, 4*hidden].
func (l *dynamicLSTM) weights(c *call, i, scale, k, hidden int) ([]codedWeights, error) {
	zero := scale + 1
	dirs, cols := len(l.reverse), lstmGates*hidden
	w, s := c.in(i), c.in(scale)
	if !slices.Equal(w.Shape, []int{dirs, k, cols}) || !isCode(w.DType) {
		return nil, fmt.Errorf("input %d is %s, wanted codes of 8 bits [%d,%d,%d]", i, w.Type(), dirs, k, cols)
	}
	per := 1
	switch {
	case s == nil || s.DType != tensor.Float32 || s.Len() != dirs && s.Len() != dirs*cols:
		return nil, fmt.Errorf("input %d is not one float32 scale, or %d, for each of %d directions", scale, cols, dirs)
	case s.Len() == dirs*cols:
		per = cols
	}
	packed, ok := derived[[]*kernels.GemmU8S8](c, i)
	if !ok {
		for d := range dirs {
			g := new(kernels.GemmU8S8)
			c.packCodes(g, w.Data, d*k*cols, k, cols, false)
			packed = append(packed, g)
		}
		derive(c, i, packed)
	}
	zeros := make([]int32, dirs)
	if c.has(zero) {
		list, err := unpackInts(c.in(zero))
		if err != nil {
			return nil, err
		}
		if len(list) == 0 || len(list)%dirs != 0 {
			return nil, fmt.Errorf("%d zero points in input %d for %d directions", len(list), zero, dirs)
		}
		for d := range dirs {
			own := list[d*len(list)/dirs:][:len(list)/dirs]
			if zeros[d] = own[0]; slices.ContainsFunc(own, func(z int32) bool { return z != own[0] }) {
				return nil, fmt.Errorf("zero points of input %d differ within a direction", zero)
			}
		}
	}
	out := make([]codedWeights, dirs)
	for d := range out {
		out[d] = codedWeights{packed[d], s.F32()[d*per:][:per], zeros[d] + c.rightMove(i)}
	}
	return out, nil
}

// multiply writes float32(sums) * (scale of a * scale of the weights) of rows of numbers a, which are quantized first.
func (w *codedWeights) multiply(c *call, dst, a []float32) error {
	g, err := c.dynamicGrid(a)
	if err != nil {
		return err
	}
	k, n := w.matrix.Size()
	mem := &c.run.codes
	mem.left = resize(mem.left, len(a))
	if !c.quantizeBytes(mem.left, a, g) {
		quantizeInto(c, mem.left, a, g)
	}
	factor := make([]float32, n)
	for j := range factor {
		factor[j] = g.Scale * w.scale[j%len(w.scale)]
	}
	scale := kernels.Scale{Factor: factor}
	if err := scale.Check(); err != nil {
		return err
	}
	p := codeProduct{za: []int32{g.ZeroPoint}, zb: []int32{w.zero}}
	c.multiplyPacked(&p, w.matrix, mem.left, len(a)/max(k, 1), &kernels.StoreF32{Dst: dst, Ldd: n, Scale: scale})
	return nil
}

func (l *dynamicLSTM) run(c *call) error {
	for i := range 9 {
		if t := c.raw(i); t != nil && i != graph.WeightInput && i != graph.RecurrenceInput && i != 4 && t.DType != tensor.Float32 {
			return badType(i, t.DType)
		}
	}
	x, r := c.in(0), c.in(graph.RecurrenceInput)
	if len(x.Shape) != 3 || len(r.Shape) != 3 || !l.batchLast {
		return fmt.Errorf("data %s and weights %s of three axes, and layout 0, are wanted", x.Type(), r.Type())
	}
	steps, batch, in, hidden := x.Shape[0], x.Shape[1], x.Shape[2], r.Shape[1]
	w, err := l.weights(c, graph.WeightInput, graph.WeightScaleInput, in, hidden)
	if err != nil {
		return err
	}
	u, err := l.weights(c, graph.RecurrenceInput, graph.RecurrenceScaleInput, hidden, hidden)
	if err != nil {
		return err
	}
	lens, err := sequenceLengths(c.in(4), steps, batch)
	if err != nil {
		return err
	}
	most := 0
	for _, n := range lens {
		most = max(most, n)
	}
	rows := lstmGates * hidden
	work, err := scratchOf[float32](c, most*batch*rows+batch*(rows+4*hidden))
	if err != nil {
		return err
	}
	y, err := l.outputs(c)
	if err != nil {
		return err
	}
	proj, work := work[:most*batch*rows], work[most*batch*rows:]
	for k := range l.reverse {
		d := &direction[float32]{c: c, clip: l.clip, batch: batch, hidden: hidden, live: make([]bool, batch), at: make([]int, batch),
			x: proj, r: work[:batch*rows], h: work[batch*rows:][:batch*hidden], state: work[batch*(rows+hidden):][:batch*hidden],
			tmp: work[batch*(rows+2*hidden):][:batch*hidden]}
		if err := l.pass(d, k, &w[k], &u[k], lens, most, y); err != nil {
			return err
		}
	}
	return nil
}

// pass runs direction k.
func (l *dynamicLSTM) pass(d *direction[float32], k int, w, u *codedWeights, lens []int, most int, y [3][]float32) error {
	c, dirs, rows := d.c, len(l.reverse), lstmGates*d.hidden
	bias := make([]float32, rows)
	if c.has(3) {
		b := c.in(3).F32()[k*2*rows:][:2*rows]
		for i := range bias {
			bias[i] = b[i] + b[rows+i]
		}
	}
	if c.has(7) {
		d.peephole = c.in(7).F32()[k*peepholesOfAnLSTM*d.hidden:][:peepholesOfAnLSTM*d.hidden]
	}
	if err := l.initial(c.in(5), d.h, k, d.batch, d.hidden); err != nil {
		return err
	}
	if err := l.initial(c.in(6), d.state, k, d.batch, d.hidden); err != nil {
		return err
	}
	steps := c.in(0).Shape[0]
	if err := l.data(d, k, w, bias, most); err != nil {
		return err
	}
	for t := range most {
		copy(d.tmp, d.h)
		for n := range d.batch {
			if t > lens[n] && y[0] != nil { // the engine multiplies what it wrote to Y
				clear(d.tmp[n*d.hidden:][:d.hidden])
			}
			pos := t
			if d.live[n] = t < lens[n]; d.live[n] && l.reverse[k] {
				pos = lens[n] - 1 - t
			}
			d.at[n] = l.row(pos, n, steps, d.batch)
		}
		if err := l.multiply(u, c, d.r, d.tmp[:d.batch*d.hidden], nil); err != nil {
			return err
		}
		l.step(d, bias, l.float[k])
		for n := range d.batch {
			if y[0] != nil && d.live[n] {
				copy(y[0][l.place(d.at[n], k, dirs, d.batch, d.hidden):], d.h[n*d.hidden:][:d.hidden])
			}
		}
	}
	for n := range d.batch {
		if lens[n] == 0 {
			clear(d.h[n*d.hidden:][:d.hidden])
			clear(d.state[n*d.hidden:][:d.hidden])
		}
	}
	l.last(d, k, dirs, y)
	return nil
}

// data writes the products of W. The bias of HybridLSTM comes first.
func (l *dynamicLSTM) data(d *direction[float32], k int, w *codedWeights, bias []float32, most int) error {
	x := d.c.in(0).F32()[:most*d.batch*d.c.in(0).Shape[2]]
	var codes []int8
	if l.hybrid && k == 0 && d.c.wants(3) {
		t, err := d.c.out(3)
		if err != nil {
			return err
		}
		codes = tensor.Of[int8](t)
	}
	if err := l.multiply(w, d.c, d.x, x, codes); err != nil || !l.hybrid {
		return err
	}
	for i := range d.x {
		d.x[i] = bias[i%len(bias)] + d.x[i]
	}
	clear(bias)
	return nil
}

func (l *dynamicLSTM) multiply(w *codedWeights, c *call, dst, a []float32, codes []int8) error {
	if l.hybrid {
		return w.multiplyRows(c, dst, a, codes)
	}
	return w.multiply(c, dst, a)
}

// step computes state and cell of all samples whose sequence goes on. Products are rounded before they are added.
func (l *dynamicLSTM) step(d *direction[float32], bias []float32, f []func(float32) float32) {
	lo, hi := float32(-d.clip), float32(d.clip)
	gate := func(n, g, j, peep int, state float32) float32 {
		i := g*d.hidden + j
		x := d.x[d.at[n]*lstmGates*d.hidden+i] + d.r[n*lstmGates*d.hidden+i]
		if d.peephole != nil && peep >= 0 {
			x += float32(state * d.peephole[peep*d.hidden+j])
		}
		return max(lo, min(hi, x+bias[i]))
	}
	d.each(func(n, j, k int) {
		c := d.state[k]
		in := f[0](gate(n, 0, j, 0, c))
		forget := 1 - in
		if !l.coupled {
			forget = f[0](gate(n, 2, j, 2, c))
		}
		c = float32(c*forget) + float32(in*f[1](gate(n, 3, j, -1, 0)))
		d.state[k] = c
		d.h[k] = f[2](c) * f[0](gate(n, 1, j, 1, c))
	})
}

// rational is p(x*x) * x / q(x*x) by Horner's rule; coefficients from the highest power on.
func rational(x float32, p, q []float32) float32 {
	v := x * x
	above, below := p[0], q[0]
	for _, a := range p[1:] {
		above = qmath.FMA(above, v, a)
	}
	for _, b := range q[1:] {
		below = qmath.FMA(below, v, b)
	}
	return float32(above*x) / below
}

// rationalTanh is Tanh as ONNX Runtime has it on x64 (the approximation of Eigen).
func rationalTanh(x float32) float32 {
	return rational(max(-9, min(9, x)), []float32{-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
		1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03},
		[]float32{1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03})
}

// rationalSigmoid is Sigmoid as ONNX Runtime has it on x64.
func rationalSigmoid(x float32) float32 {
	y := rational(max(-18, min(18, x)), []float32{4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
		2.48287947061529e-01}, []float32{6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
		1.16817656904453e-01, 9.93151921023180e-01})
	return max(0, min(1, y+0.5))
}
