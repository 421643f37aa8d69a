package device

import (
	"math"
	"slices"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// gatherEmitters are the operators whose results say where in their source they come from.
var gatherEmitters = map[string]emitter{"Pad": emitPad, "Gather": emitGather, "Resize": emitResize, "Upsample": emitResize}

// outside marks in a table what does not come from the source.
const outside = math.MinInt32

// pick emits a copy by tables: element i of an axis is the one of src at at[axis][i] there, or fill.
func (e *emission) pick(dst, src *loc, size int, shape []int, layout tensor.Layout, at [][]int, fill uint64) {
	axes := (&tensor.Tensor{Shape: shape, Layout: layout}).MemoryAxes()
	var table []int32
	sizes := make([]int, len(axes))
	for i, a := range axes {
		sizes[i] = shape[a]
		for _, k := range at[a] {
			table = append(table, int32(k))
		}
	}
	if tensor.Count(shape) == 0 {
		return
	}
	list := e.p.table(asBytes(table))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.PickElements(s, m.ptr(dst), m.ptr(src), m.ptr(list), size, sizes, fill)
	}, dst, src, list)
}

// emitPad takes pads and value as attributes before opset 11, as inputs since. Negative pads crop.
func emitPad(e *emission) error {
	x, shape, layout, d := e.shape(0), e.out[0].shape, e.layout(0), e.dtype(0)
	pads := toInts(e.n.Pad().Pads)
	begin := make([]int, len(x))
	fill := make([]byte, 8)
	switch {
	case e.opset < 11:
		if d != tensor.Float32 {
			return onHost("element type " + d.String())
		}
		copy(fill, asBytes([]float32{e.n.Pad().Value}))
		copy(begin, pads)
	default:
		var err error
		if pads, err = e.ints(1); err != nil {
			return err
		}
		if e.has(2) {
			t := e.known(2)
			if t == nil {
				return onHost("a value that depends on data")
			}
			if t.DType == d && t.Len() == 1 {
				copy(fill, bytesOf(t.Data))
			}
		}
		if e.opset >= 18 && e.has(3) {
			axes, err := e.ints(3)
			if err != nil {
				return err
			}
			if len(pads) < len(axes) {
				return onHost("fewer pads than axes")
			}
			for i, a := range axes {
				if a, err = axisIn(a, len(x)); err != nil {
					return err
				}
				begin[a] = pads[i]
			}
		} else {
			copy(begin, pads)
		}
	}
	mode := e.n.Pad().Mode
	if mode != "constant" && tensor.Count(x) == 0 || len(x) == 0 {
		return onHost("no elements")
	}
	step := strides(x, layout)
	at := make([][]int, len(x))
	for a, n := range x {
		at[a] = make([]int, shape[a])
		for i := range at[a] {
			j := i - begin[a]
			if j < 0 || j >= n {
				if mode == "constant" {
					at[a][i] = outside
					continue
				}
				j = exec.PadIndex[mode](j, n)
			}
			at[a][i] = j * step[a]
		}
	}
	var word uint64
	for i := range fill {
		word |= uint64(fill[i]) << (8 * i)
	}
	src := e.raw(0)
	e.pick(e.make(0, layout), src, sizeOf(d), shape, layout, at, word)
	return nil
}

// emitGather reads rows along an axis; the indices may be known or come from the device.
func emitGather(e *emission) error {
	x := e.shape(0)
	axis, err := axisIn(e.n.Axis(), len(x))
	if err != nil {
		return err
	}
	wide := e.dtype(1) == tensor.Int64
	if !wide && e.dtype(1) != tensor.Int32 {
		return onHost("indices of type " + e.dtype(1).String())
	}
	outer, n, inner := tensor.Count(x[:axis]), x[axis], tensor.Count(x[axis+1:])
	if n == 0 {
		return onHost("an empty axis")
	}
	if e.known(1) != nil {
		list, err := e.ints(1)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(i int) bool { return i < -n || i >= n }) {
			return onHost("an index outside of its axis") // the host reports it
		}
	}
	src, index, fault := e.in(0, tensor.RowMajor), e.in(1, tensor.RowMajor), e.p.fault()
	dst := e.make(0, tensor.RowMajor)
	size, indices := sizeOf(e.dtype(0)), tensor.Count(e.shape(1))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.GatherRows(s, m.ptr(dst), m.ptr(src), m.ptr(index), m.ptr(fault), size, outer, n, inner, indices, wide)
	}, dst, src, index, fault)
	return nil
}

// fault returns the word that says that an index was outside of its axis. It lives from begin to end.
func (p *Plan) fault() *loc {
	if p.faults == nil {
		p.faults = p.temp(4)
		p.faults.birth, p.faults.death = 0, math.MaxInt
	}
	return p.faults
}

// emitResize copies the nearest elements by tables, or resamples axis after axis.
func emitResize(e *emission) error {
	x, shape, layout := e.shape(0), e.out[0].shape, e.layout(0)
	in := make([]*tensor.Tensor, len(e.n.Inputs))
	for i := range in {
		if i > 0 && e.has(i) {
			if in[i] = e.known(i); in[i] == nil {
				return onHost("sizes that depend on data")
			}
		}
	}
	r, err := exec.ResampleOf(e.n, e.opset, x, shape, in)
	if err != nil {
		return onHost(err.Error())
	}
	if tensor.Count(x) == 0 || tensor.Count(shape) == 0 || e.dtype(0) != tensor.Float32 {
		return onHost("no elements, or not float32")
	}
	src := e.raw(0)
	if r.Nearest {
		step, at := strides(x, layout), make([][]int, len(shape))
		for a := range at {
			at[a] = make([]int, shape[a])
			for i := range at[a] {
				switch axis := r.Axes[a]; {
				case axis == nil:
					at[a][i] = i * step[a]
				case len(axis.Index[i]) == 0:
					at[a][i] = outside
				default:
					at[a][i] = axis.Index[i][0] * step[a]
				}
			}
		}
		e.pick(e.make(0, layout), src, 4, shape, layout, at, uint64(math.Float32bits(r.Blank)))
		return nil
	}
	now := slices.Clone(x)
	for a, axis := range r.Axes {
		if axis != nil {
			src, now = e.blend(src, now, layout, a, axis, r.Blank)
		}
	}
	e.p.vals[e.n.Outputs[0]] = held{dtype: tensor.Float32, shape: shape, layout: layout, loc: src, ready: true}
	return nil
}

// blend emits the resampling of one axis of a tensor, and returns the result and its shape.
func (e *emission) blend(src *loc, shape []int, layout tensor.Layout, a int, axis *exec.ResampledAxis, blank float32) (*loc, []int) {
	taps := 1
	for _, list := range axis.Index {
		taps = max(taps, len(list))
	}
	size := len(axis.Index)
	index, weight := make([]int32, size*taps), make([]float32, size*taps)
	for i := range axis.Index {
		for t := range taps {
			if index[i*taps+t] = -1; t < len(axis.Index[i]) {
				index[i*taps+t], weight[i*taps+t] = int32(axis.Index[i][t]), float32(axis.Weight[i][t])
			}
		}
	}
	outer, n, inner := (&tensor.Tensor{Shape: shape, Layout: layout}).Blocks(a)
	to := slices.Clone(shape)
	to[a] = size
	dst, indices, weights := e.p.temp(4*tensor.Count(to)), e.p.table(asBytes(index)), e.p.table(asBytes(weight))
	e.launch(func(s *cuda.Stream, m *ports) error {
		return cuda.FloatBlend(s, m.ptr(dst), m.ptr(src), m.ptr(indices), m.ptr(weights), outer, n, inner, size, taps, blank)
	}, dst, src, indices, weights)
	return dst, to
}
