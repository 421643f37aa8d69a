package cprogram

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// core is a function of single codes: its name, which is that of its struct, and the struct's initializer.
type core struct {
	name, init string
}

// rescale provides the way from one grid to another; nil is the way to the same grid, limited to [lo, hi].
func (w *writer) rescale(r *qmath.Rescale, lo, hi int32) (core, error) {
	switch {
	case r == nil:
		return core{"clamp", fmt.Sprintf("{%d, %d}", lo, hi)}, w.kernels.need("clamp")
	case r.Float:
		q, grid, err := w.quantizer(r.Quantizer)
		if err == nil {
			err = w.kernels.need("rescale_float", q)
		}
		return core{"rescale_" + q, fmt.Sprintf("{%s, %s}", w.grid(r.X), grid)}, err
	case r.Eighth != 0:
		return core{"rescale_eighth", fmt.Sprintf("{%d, %d, %d, %d, %d}", r.X.ZeroPoint, r.Eighth, r.Y.ZeroPoint, r.Y.QMin, r.Y.QMax)},
			w.kernels.need("rescale_eighth")
	}
	f, err := w.form(r.Scaling, narrow)
	if err == nil {
		err = w.kernels.need("rescale_integer", f)
	}
	return core{"rescale_" + f, fmt.Sprintf("{%d, %s, %d, %d, %d}", r.X.ZeroPoint, w.multiplier(r.Scaling, r.M), r.Y.ZeroPoint, r.Y.QMin,
		r.Y.QMax)}, err
}

// mapped writes a step that computes every code from one.
func (w *writer) mapped(s *lower.Step, c core, err error) error {
	if err != nil {
		return err
	}
	x, y := s.Inputs[0], s.Outputs[0]
	w.line("static const struct %s how = %s;", c.name, c.init)
	w.call("%s_%s_%s(&how, %s, %d, %s)", c.name, w.typ(x), w.typ(y), w.use(w.read(x)), w.count(x), w.use(w.write(y)))
	return w.kernels.need("map", c.name, w.typ(x), w.typ(y))
}

func (w *writer) requantize(s *lower.Step, op *lower.Requantize) error {
	core, err := w.rescale(&op.Rescale, 0, 0)
	return w.mapped(s, core, err)
}

func (w *writer) clamp(s *lower.Step, op *lower.Clamp) error {
	core, err := w.rescale(nil, op.Lo, op.Hi)
	return w.mapped(s, core, err)
}

func (w *writer) table(s *lower.Step, op *lower.Table) error {
	x, y := s.Inputs[0], s.Outputs[0]
	if op.Lines != nil {
		e := w.p.Tensors[y].Encoding
		table := integers(w, "int16_t", op.Function+" by lines", 2, op.Lines[:])
		w.call("lines(%s, %d, %d, %s, %d, %s)", table, e.QMin, e.QMax, w.use(w.read(x)), w.count(x), w.use(w.write(y)))
		return w.kernels.need("lines")
	}
	codes := w.constant(op.Codes, op.Function)
	w.call("table_%s_%s(%s, %s, %d, %s)", w.typ(x), w.typ(y), codes, w.use(w.read(x)), w.count(x), w.use(w.write(y)))
	return w.kernels.need("table", w.typ(x), w.typ(y))
}

func (w *writer) quantize(s *lower.Step, op *lower.Quantize) error {
	return w.quantizeAll(op.Quantizer, w.read(s.Inputs[0]), s.Outputs[0])
}

// quantizeAll writes the quantization of real numbers to a tensor.
func (w *writer) quantizeAll(q qmath.Quantizer, x *value, y lower.TensorID) error {
	if x.dtype != tensor.Float32 {
		return fmt.Errorf("%s cannot be quantized", x.dtype)
	}
	name, grid, err := w.quantizer(q)
	if err != nil {
		return err
	}
	w.line("static const struct grid grid_%d = %s;", y, grid)
	w.call("%s_%s(&grid_%d, %s, %d, %s)", name, w.typ(y), y, w.use(x), x.count(), w.use(w.write(y)))
	return w.kernels.need("quantize_all", name, w.typ(y))
}

func (w *writer) dequantize(s *lower.Step, _ *lower.Dequantize) error {
	x, y := s.Inputs[0], s.Outputs[0]
	w.line("static const struct grid grid = %s;", w.grid(w.p.Tensors[x].Encoding.Grid()))
	w.call("dequantize_%s(&grid, %s, %d, %s)", w.typ(x), w.use(w.read(x)), w.count(x), w.use(w.write(y)))
	return w.kernels.need("dequantize_all", w.typ(x))
}

// pairwise writes a step that computes every code from two.
func (w *writer) pairwise(s *lower.Step, c core, err error) error {
	if err != nil {
		return err
	}
	a, b, y := s.Inputs[0], s.Inputs[1], s.Outputs[0]
	layout, err := broadcastLayout(w.shape(a), w.shape(b))
	if err != nil {
		return err
	}
	w.line("static const struct layout walk = %s;", layout)
	w.line("static const struct %s how = %s;", c.name, c.init)
	w.call("%s_%s_%s_%s(&how, &walk, %s, %s, %s)", c.name, w.typ(a), w.typ(b), w.typ(y), w.use(w.read(a)), w.use(w.read(b)), w.use(w.write(y)))
	return w.kernels.need("pairwise", c.name, w.typ(a), w.typ(b), w.typ(y))
}

func (w *writer) sum(s *lower.Step, op *lower.Sum) error {
	c, err := w.sumCore(&op.Sum)
	return w.pairwise(s, c, err)
}

// sumCore is the sum of two codes in the form that the profile has.
func (w *writer) sumCore(o *qmath.Sum) (core, error) {
	subtract := 0
	if o.Subtract {
		subtract = 1
	}
	y := fmt.Sprintf("%d, %d, %d", o.Y.ZeroPoint, o.Y.QMin, o.Y.QMax)
	switch o.Form {
	case qmath.SumFloat:
		q, grid, err := w.quantizer(o.Quantizer)
		if err == nil {
			err = w.kernels.need("add_float", q)
		}
		return core{"add_" + q, fmt.Sprintf("{%d, %s, %s, %s}", subtract, w.grid(o.A), w.grid(o.B), grid)}, err
	case qmath.SumFused:
		return core{"add_fused", fmt.Sprintf("{%s, %s, %s, %d, %d}", w.real(o.RA), w.real(o.RB), w.real(o.K), o.Y.QMin, o.Y.QMax)},
			w.kernels.need("add_fused")
	case qmath.SumAligned:
		r := roundingName(o.Rounding)
		return core{"add_aligned_" + r, fmt.Sprintf("{%d, %d, %d, %d, %d, %d, %s}", subtract, o.Right, o.A.ZeroPoint, o.B.ZeroPoint,
				o.MA.M, o.MB.M, y)},
			w.kernels.need("add_aligned", r)
	}
	f, err := w.scale(o.Scaling, narrow)
	if err != nil {
		return core{}, err
	}
	ma, mb, my := w.multiplier(o.Scaling, o.MA), w.multiplier(o.Scaling, o.MB), w.multiplier(o.Scaling, o.MY)
	switch o.Form {
	case qmath.SumShifted:
		return core{"add_shifted_" + f, fmt.Sprintf("{%d, %d, %d, %d, %s, %s, %s, %s}", subtract, o.Left, o.A.ZeroPoint, o.B.ZeroPoint,
				ma, mb, my, y)},
			w.kernels.need("add_shifted", f)
	case qmath.SumEach:
		return core{"add_each_" + f, fmt.Sprintf("{%d, %d, %d, %s, %s, %s}", subtract, o.A.ZeroPoint, o.B.ZeroPoint, ma, mb, y)},
			w.kernels.need("add_each", f)
	}
	return core{}, fmt.Errorf("a sum of the form %s has no form in C", o.Form)
}

func (w *writer) product(s *lower.Step, op *lower.Product) error {
	o := &op.Product
	if o.Float {
		q, grid, err := w.quantizer(o.Quantizer)
		if err == nil {
			err = w.kernels.need("mul_float", q)
		}
		return w.pairwise(s, core{"mul_" + q, fmt.Sprintf("{%s, %s, %s}", w.grid(o.A), w.grid(o.B), grid)}, err)
	}
	f, err := w.form(o.Scaling, narrow)
	if err == nil {
		err = w.kernels.need("mul_scaled", f, structOf(o.Scaling))
	}
	return w.pairwise(s, core{"mul_" + f, fmt.Sprintf("{%d, %d, %s, %d, %d, %d}", o.A.ZeroPoint, o.B.ZeroPoint, w.multiplier(o.Scaling, o.M),
		o.Y.ZeroPoint, o.Y.QMin, o.Y.QMax)}, err)
}

// choose writes a Where.
func (w *writer) choose(s *lower.Step, op *lower.Select) error {
	c, a, b, y := s.Inputs[0], s.Inputs[1], s.Inputs[2], s.Outputs[0]
	layout, err := broadcastLayout(w.shape(c), w.shape(a), w.shape(b))
	if err != nil {
		return err
	}
	ca, err := w.rescale(op.Rescale[0], op.Lo, op.Hi)
	if err != nil {
		return err
	}
	cb, err := w.rescale(op.Rescale[1], op.Lo, op.Hi)
	if err != nil {
		return err
	}
	w.line("static const struct layout walk = %s;", layout)
	w.line("static const struct %s first = %s;", ca.name, ca.init)
	w.line("static const struct %s second = %s;", cb.name, cb.init)
	w.call("select_%s_%s_%s_%s_%s(&first, &second, &walk, %s, %s, %s, %s)", ca.name, cb.name, w.typ(a), w.typ(b), w.typ(y),
		w.use(w.read(c)), w.use(w.read(a)), w.use(w.read(b)), w.use(w.write(y)))
	return w.kernels.need("select", ca.name, cb.name, w.typ(a), w.typ(b), w.typ(y))
}

// concat writes a call for every operand.
func (w *writer) concat(s *lower.Step, op *lower.Concat) error {
	y := s.Outputs[0]
	shape := w.shape(y)
	if op.Axis >= len(shape) {
		return fmt.Errorf("axis %d of %v", op.Axis, shape)
	}
	blocks := tensor.Count(shape[:op.Axis])
	row := w.count(y) / max(blocks, 1)
	to := w.write(y)
	at := 0
	for i, x := range s.Inputs {
		c, err := w.rescale(op.Rescale[i], op.Lo, op.Hi)
		if err != nil {
			return err
		}
		n := w.count(x) / max(blocks, 1)
		w.line("static const struct %s how%d = %s;", c.name, i, c.init)
		w.call("join_%s_%s_%s(&how%d, %s, %d, %d, %s + %d, %d)", c.name, w.typ(x), w.typ(y), i, w.use(w.read(x)), blocks, n, w.use(to), at, row)
		if err := w.kernels.need("join", c.name, w.typ(x), w.typ(y)); err != nil {
			return err
		}
		at += n
	}
	return nil
}
