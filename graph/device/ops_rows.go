package device

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
)

var rowEmitters = map[string]emitter{
	"Softmax":               softmaxLike(cuda.FloatSoftmax),
	"LogSoftmax":            softmaxLike(cuda.FloatLogSoftmax),
	"LayerNormalization":    emitLayerNorm,
	"RMSNormalization":      emitLayerNorm,
	"InstanceNormalization": emitInstanceNorm,
	"GroupNormalization":    emitInstanceNorm,
	"BatchNormalization":    emitBatchNorm,
	"ReduceSum":             reduced(cuda.FloatSum, 13),
	"ReduceMean":            reduced(cuda.FloatMean, 18),
	"ReduceMax":             reduced(cuda.FloatMax, 18),
	"ReduceMin":             reduced(cuda.FloatMin, 18),
	"ReduceL1":              reduced(cuda.FloatL1, 18),
	"ReduceL2":              reduced(cuda.FloatL2, 18),
	"ReduceSumSquare":       reduced(cuda.FloatSquares, 18),
}

// softmaxLike works on rows: lines of elements that are not neighbours are transposed into rows and back.
func softmaxLike(f func(s *cuda.Stream, y, x driver.Ptr, rows, n int) error) emitter {
	return func(e *emission) error {
		if err := e.floats(); err != nil {
			return err
		}
		shape := e.shape(0)
		if tensor.Count(shape) == 0 {
			return onHost("no elements")
		}
		rowsOf := func(dst, src *loc, n int) {
			e.launch(func(s *cuda.Stream, m *ports) error { return f(s, m.ptr(dst), m.ptr(src), dst.bytes/4/n, n) }, dst, src)
		}
		if e.opset < 13 {
			from, _, err := graph.SoftmaxAxes(e.n, e.opset, len(shape))
			if err != nil {
				return err
			}
			src := e.in(0, tensor.RowMajor)
			rowsOf(e.make(0, tensor.RowMajor), src, tensor.Count(shape[from:]))
			return nil
		}
		axis, err := axisIn(e.n.Axis(), len(shape))
		if err != nil {
			return err
		}
		src, layout := e.raw(0), e.layout(0)
		dst := e.make(0, layout)
		outer, n, inner := (&tensor.Tensor{Shape: shape, Layout: layout}).Blocks(axis)
		if inner == 1 {
			rowsOf(dst, src, n)
			return nil
		}
		rows := e.p.temp(src.bytes)
		sizes, across, along := []int{outer, inner, n}, []int{inner * n, n, 1}, []int{n * inner, 1, inner}
		e.move(rows, src, 4, sizes, across, along, 0, 0)
		rowsOf(rows, rows, n)
		e.move(dst, rows, 4, sizes, along, across, 0, 0)
		return nil
	}
}

// normalize emits a normalization of rows with scale and bias.
func (e *emission) normalize(f cuda.FloatNorm, dst, src, scale, bias, mean, inv *loc) {
	e.launch(func(s *cuda.Stream, m *ports) error {
		return f.Launch(s, m.ptr(dst), m.ptr(src), m.ptr(scale), m.ptr(bias), m.ptr(mean), m.ptr(inv))
	}, dst, src, scale, bias, mean, inv)
}

// emitLayerNorm normalizes the axes from axis on.
func emitLayerNorm(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	shape := e.shape(0)
	axis, err := axisIn(e.n.Axis(), len(shape))
	if err != nil {
		return err
	}
	n := tensor.Count(shape[axis:])
	for i := 1; i < 3; i++ {
		if e.has(i) && tensor.Count(e.shape(i)) != n {
			return onHost("a scale or bias that is not a row")
		}
	}
	if n == 0 {
		return onHost("no elements")
	}
	layer := e.n.Op == "LayerNormalization"
	f := cuda.FloatNorm{Rows: tensor.Count(shape[:axis]), N: n, Eps: e.n.Epsilon(), Center: layer}
	src, scale, bias := e.in(0, tensor.RowMajor), e.in(1, tensor.RowMajor), e.in(2, tensor.RowMajor)
	dst := e.make(0, tensor.RowMajor)
	var stats [3]*loc
	for i := 1; i < len(e.n.Outputs) && layer; i++ {
		if e.n.Outputs[i] != graph.NoValue {
			stats[i] = e.make(i, tensor.RowMajor)
		}
	}
	e.normalize(f, dst, src, scale, bias, stats[1], stats[2])
	return nil
}

// emitInstanceNorm normalizes the elements of every channel, or group of channels.
func emitInstanceNorm(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	shape := e.shape(0)
	if tensor.Count(shape) == 0 || len(shape) < 2 {
		return onHost("no elements")
	}
	ch, plane, groups, share := shape[1], tensor.Count(shape[2:]), shape[1], 1
	entries := tensor.Count(e.shape(1))
	if e.n.Op == "GroupNormalization" {
		groups = int(e.n.AttrInt("num_groups", 0))
		if groups < 1 || ch%groups != 0 {
			return onHost("channels that cannot be split into the groups")
		}
		if entries == groups && e.opset < 21 {
			share = ch / groups
		}
	}
	if entries*share != ch || tensor.Count(e.shape(2))*share != ch {
		return onHost("scale and bias that do not fit the channels")
	}
	f := cuda.FloatNorm{Rows: shape[0] * groups, N: ch / groups * plane, Eps: e.n.Epsilon(), Center: true,
		Groups: groups, Inner: plane, Share: share}
	src, scale, bias := e.in(0, tensor.RowMajor), e.in(1, tensor.RowMajor), e.in(2, tensor.RowMajor)
	e.normalize(f, e.make(0, tensor.RowMajor), src, scale, bias, nil, nil)
	return nil
}

// emitBatchNorm folds the statistics into a factor and a summand per channel.
func emitBatchNorm(e *emission) error {
	if err := e.floats(); err != nil {
		return err
	}
	shape := e.shape(0)
	ch := 1
	if len(shape) > 1 {
		ch = shape[1]
	}
	var stat [5][]float32
	for i := 1; i < 5; i++ {
		t := e.known(i)
		if t == nil {
			return onHost("statistics that depend on data")
		}
		if stat[i] = t.F32(); len(stat[i]) != ch {
			return onHost("statistics that do not fit the channels")
		}
	}
	for i, v := range e.n.Outputs {
		if i > 0 && v != graph.NoValue {
			return onHost("running statistics as outputs")
		}
	}
	eps := e.n.Epsilon()
	factors, summands := make([]float32, ch), make([]float32, ch)
	for i := range ch {
		s := float64(stat[1][i]) / math.Sqrt(float64(stat[4][i])+eps)
		factors[i], summands[i] = float32(s), float32(float64(stat[2][i])-float64(stat[3][i])*s)
	}
	factor, summand := e.p.table(asBytes(factors)), e.p.table(asBytes(summands))
	src, inner := e.raw(0), 1
	if len(shape) > 1 {
		_, _, inner = (&tensor.Tensor{Shape: shape, Layout: e.layout(0)}).Blocks(1)
	}
	dst := e.make(0, e.layout(0))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.FloatAffine(s, m.ptr(dst), m.ptr(src), m.ptr(factor), m.ptr(summand), dst.bytes/4, inner, ch)
	}, dst, src, factor, summand)
	return nil
}

// reduced emits a reduction whose axes are an input since the given opset, an attribute before.
func reduced(op cuda.FloatReduction, since int64) emitter {
	return func(e *emission) error {
		if e.dtype(0) != tensor.Float32 {
			return onHost("element type " + e.dtype(0).String())
		}
		shape := e.shape(0)
		axes := toInts(e.n.AttrInts("axes"))
		if e.opset >= since && e.has(1) {
			var err error
			if axes, err = e.ints(1); err != nil {
				return err
			}
		}
		reduced := make([]bool, len(shape))
		for _, a := range axes {
			a, err := axisIn(a, len(shape))
			if err != nil {
				return err
			}
			reduced[a] = true
		}
		if len(axes) == 0 && e.n.AttrInt("noop_with_empty_axes", 0) == 0 {
			for a := range reduced {
				reduced[a] = true
			}
		}
		if tensor.Count(shape) == 0 {
			return onHost("no elements")
		}
		src, layout := e.raw(0), e.layout(0)
		step := strides(shape, layout)
		var outside, outsideStep, inside, insideStep []int
		for a, n := range shape {
			if reduced[a] {
				inside, insideStep = append(inside, n), append(insideStep, step[a])
			} else {
				outside, outsideStep = append(outside, n), append(outsideStep, step[a])
			}
		}
		op := op
		if op == cuda.FloatMax && layout == tensor.RowMajor && !slices.Contains(reduced[:len(shape)-len(inside)], true) {
			op = cuda.FloatMaxima // as the CPU's rows find it
		}
		dst := e.make(0, tensor.RowMajor)
		e.launch(func(s *cuda.Stream, m *ports) error {
			return cuda.FloatReduce(s, op, m.ptr(dst), m.ptr(src), outside, outsideStep, inside, insideStep)
		}, dst, src)
		return nil
	}
}
