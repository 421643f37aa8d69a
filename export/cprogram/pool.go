package cprogram

import (
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

func (w *writer) maxPool(s *lower.Step, op *lower.MaxPool) error {
	x, y := s.Inputs[0], s.Outputs[0]
	window, err := w.poolWindow(w.p.Graph.Node(s.Node), w.shape(x), op.Global)
	if err != nil {
		return err
	}
	planes := tensor.Count(w.shape(x)[:2])
	w.line("static const struct window window = %s;", window)
	w.call("max_pool_%s(&window, %d, %s, %d, %s)", w.typ(x), planes, w.use(w.read(x)), op.Lowest, w.use(w.write(y)))
	return w.kernels.need("max_pool", w.typ(x))
}

// poolWindow is the initializer of the window of a pool, of the whole plane for a global one.
func (w *writer) poolWindow(n *graph.Node, shape []int, global bool) (string, error) {
	if len(shape) < 3 {
		return "", fmt.Errorf("%v has no spatial axes", shape)
	}
	if global {
		one, none := make([]int, len(shape)-2), make([]int, len(shape)-2)
		for i := range one {
			one[i] = 1
		}
		return windowText(&graph.Geometry{In: shape[2:], Out: one, Kernel: shape[2:], Stride: one, Dilation: one, PadBegin: none, PadEnd: none})
	}
	geo, err := graph.PoolGeometry(n, graph.Static(shape...))
	if err != nil {
		return "", err
	}
	return windowText(geo)
}

func (w *writer) average(s *lower.Step, op *lower.Average) error {
	if op.Axes != nil {
		return w.mean(s, op)
	}
	x, y := s.Inputs[0], s.Outputs[0]
	node := w.p.Graph.Node(s.Node)
	window, err := w.poolWindow(node, w.shape(x), false)
	if err != nil {
		return err
	}
	first, most := 1, 1
	for _, k := range node.Pool().Kernel {
		most *= int(k)
	}
	if len(op.ByCount) == 1 {
		first = most
	}
	var name string
	var ways []string
	for n := first; n <= most; n++ {
		a, err := op.For(w.p.Profile, n)
		if err != nil {
			return err
		}
		var init string
		if name, init, err = w.averageCore(a); err != nil {
			return err
		}
		ways = append(ways, init)
	}
	padded := bit(node.Pool().CountPadding)
	planes := tensor.Count(w.shape(x)[:2])
	w.line("static const struct window window = %s;", window)
	w.line("static const struct %s ways[] = {%s};", name, strings.Join(ways, ", "))
	w.call("%s_pool_%s_%s(&window, ways, %d, %d, %d, %d, %s, %s)", name, w.typ(x), w.typ(y), first, padded, op.Empty(), planes,
		w.use(w.read(x)), w.use(w.write(y)))
	return w.kernels.need("average_pool", name, w.typ(x), w.typ(y))
}

// mean writes the mean over whole axes.
func (w *writer) mean(s *lower.Step, op *lower.Average) error {
	x, y := s.Inputs[0], s.Outputs[0]
	of, over, err := reductionLayouts(w.shape(x), op.Axes)
	if err != nil {
		return err
	}
	count := 1
	for _, a := range op.Axes {
		count *= w.shape(x)[a]
	}
	a, err := op.For(w.p.Profile, count)
	if err != nil {
		return err
	}
	name, init, err := w.averageCore(a)
	if err != nil {
		return err
	}
	w.line("static const struct layout of = %s, over = %s;", of, over)
	w.line("static const struct %s way = %s;", name, init)
	w.call("%s_%s_%s(&way, &of, &over, %s, %s)", name, w.typ(x), w.typ(y), w.use(w.read(x)), w.use(w.write(y)))
	return w.kernels.need("average", name, w.typ(x), w.typ(y))
}

// averageCore is the mean of a number of codes in the form that the profile has.
func (w *writer) averageCore(a *qmath.Average) (name, init string, err error) {
	zero := a.X.ZeroPoint
	y := fmt.Sprintf("%d, %d, %d", a.Y.ZeroPoint, a.Y.QMin, a.Y.QMax)
	switch a.Form {
	case qmath.AverageFloat:
		q, grid, err := w.quantizer(a.Quantizer)
		if err == nil {
			err = w.kernels.need("average_float", q)
		}
		return "average_" + q, fmt.Sprintf("{%d, %d, %s, %s}", zero, a.N, w.real(a.X.Scale), grid), err
	case qmath.AverageSame:
		return "average_same", fmt.Sprintf("{%d, %d, %d, %d}", zero, a.N, a.Y.QMin, a.Y.QMax), w.kernels.need("average_same")
	case qmath.AverageEach:
		f, err := w.form(a.Each.Scaling, narrow)
		if err == nil {
			err = w.kernels.need("average_each", f)
		}
		return "average_each_" + f, fmt.Sprintf("{%d, %d, %s, %s}", zero, a.N, w.multiplier(a.Each.Scaling, a.Each.M), y), err
	case qmath.AverageExact:
		r := roundingName(a.Rounding)
		return "average_exact_" + r, fmt.Sprintf("{%d, %d, %d, %s}", zero, a.N, a.Shift, y), w.kernels.need("average_exact", r)
	case qmath.AverageTerms:
		return "average_terms", fmt.Sprintf("{%d, %d, %s, %s}", zero, a.N, w.grid(a.X), w.grid(a.Y)), w.kernels.need("average_terms")
	}
	f, err := w.form(a.Scaling, narrow)
	if err == nil {
		err = w.kernels.need("average_scaled", f, structOf(a.Scaling))
	}
	return "average_" + f, fmt.Sprintf("{%d, %s, %s}", zero, w.multiplier(a.Scaling, a.M), y), err
}

func (w *writer) softmax(s *lower.Step, op *lower.Softmax) error {
	x, y := s.Inputs[0], s.Outputs[0]
	shape := w.shape(x)
	if op.Axis >= len(shape) {
		return fmt.Errorf("axis %d of %v", op.Axis, shape)
	}
	n := shape[op.Axis]
	if w.count(x) == 0 {
		w.write(y)
		return nil
	}
	m, err := op.For(w.p.Profile, n)
	if err != nil {
		return err
	}
	limits := fmt.Sprintf("%d, %d, %d", m.Y.ZeroPoint, m.Y.QMin, m.Y.QMax)
	var name, init string
	args := []string{w.typ(x), w.typ(y)}
	switch m.Form {
	case qmath.SoftmaxGemmlowp:
		f, err := w.scale(m.Scaling, narrow)
		if err != nil {
			return err
		}
		name, init = "softmax_"+f, fmt.Sprintf("{%s, %d, %s}", w.multiplier(m.Scaling, m.M), m.Radius, limits)
		err = w.kernels.need("softmax_fixed", append([]string{f}, args...)...)
		if err != nil {
			return err
		}
	case qmath.SoftmaxMLAS:
		name, init = "softmax_float", fmt.Sprintf("{%s, %s, %s}", w.floats("exp by distance from the largest code", m.Terms),
			w.real(m.PerOutput), limits)
		err = w.kernels.need("softmax_float", args...)
	default:
		r := roundingName(m.Rounding)
		name, init = "softmax_"+r, fmt.Sprintf("{%s, INT64_C(%d), %s}", integers(w, "int32_t", "exp by distance from the largest code", 4, m.E),
			m.Inverse, limits)
		err = w.kernels.need("softmax_integer", append([]string{r}, args...)...)
	}
	if err != nil {
		return err
	}
	w.line("static const struct %s how = %s;", name, init)
	w.call("%s_%s_%s(&how, %s, %d, %d, %d, %s)", name, w.typ(x), w.typ(y), w.use(w.read(x)), tensor.Count(shape[:op.Axis]), n,
		tensor.Count(shape[op.Axis+1:]), w.use(w.write(y)))
	return nil
}

func (w *writer) layerNorm(s *lower.Step, op *lower.LayerNorm) error {
	x, y, m := s.Inputs[0], s.Outputs[0], &op.Norm
	r := roundingName(m.Rounding)
	if err := w.kernels.need("norm_codes", r, w.typ(x), w.typ(y)); err != nil {
		return err
	}
	gain := integers(w, "int32_t", string(gains), 4, m.Gain)
	w.line("static const struct norm_codes_%s how = {%s, %s, INT64_C(%d), %d, %d, %d, %d, %d, %d};", r, gain,
		integers(w, "int64_t", string(offsets), 8, m.Offset), m.Epsilon, m.X.QMin, m.Fraction, m.Shift, m.Y.ZeroPoint, m.Y.QMin, m.Y.QMax)
	w.call("norm_codes_%s_%s_%s(&how, %s, %d, %d, %s)", r, w.typ(x), w.typ(y), w.use(w.read(x)), w.count(x)/m.N, m.N, w.use(w.write(y)))
	return nil
}

// bit is a flag in C.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
