package device

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

var moveEmitters = map[string]emitter{
	"Reshape": emitReshape, "Flatten": emitReshape, "Squeeze": emitReshape, "Unsqueeze": emitReshape,
	"Identity": emitIdentity, "Dropout": emitIdentity,
	"Transpose": emitTranspose, "Concat": emitConcat, "Split": emitSplit, "Slice": emitSlice, "Expand": emitExpand, "Tile": emitTile,
	"DepthToSpace": emitDepthToSpace, "SpaceToDepth": emitSpaceToDepth, "Pad": emitPad, "Gather": emitGather, "Resize": emitResize, "Upsample": emitResize,
}

func emitReshape(e *emission) error {
	if tensor.Count(e.out[0].shape) != tensor.Count(e.shape(0)) {
		return onHost("a shape of another size")
	}
	e.alias(0, 0)
	return nil
}

// emitIdentity serves Dropout too, whose mask is computed only if somebody wants it.
func emitIdentity(e *emission) error {
	g := e.p.s.g
	if mask := e.n.Output(1); mask != graph.NoValue && (e.p.watched[mask] || len(g.Uses(mask)) > 0 || g.IsOutput(mask) || g.Captured(mask)) {
		return onHost("a mask that is read")
	}
	if e.has(2) {
		return onHost("training")
	}
	e.pass(0, 0)
	return nil
}

func emitTranspose(e *emission) error {
	step := strides(e.shape(0), e.layout(0))
	perm := toInts(e.n.AttrInts("perm"))
	src := make([]int, len(step))
	for i := range src {
		if len(perm) > 0 {
			src[i] = step[perm[i]]
		} else {
			src[i] = step[len(step)-1-i]
		}
	}
	shape := e.out[0].shape
	from := e.raw(0)
	if sameSteps(shape, src, strides(shape, tensor.RowMajor)) { // a layout is undone, or only axes of one element move
		e.p.vals[e.n.Outputs[0]] = held{dtype: e.dtype(0), shape: shape, loc: from, ready: true}
		return nil
	}
	dst := e.make(0, tensor.RowMajor)
	e.move(dst, from, sizeOf(e.dtype(0)), shape, strides(shape, tensor.RowMajor), src, 0, 0)
	return nil
}

func sameSteps(shape, a, b []int) bool {
	for i, n := range shape {
		if n > 1 && a[i] != b[i] {
			return false
		}
	}
	return true
}

func emitConcat(e *emission) error {
	shape := e.out[0].shape
	axis, err := axisIn(e.n.AttrInt("axis", 1), len(shape))
	if err != nil {
		return err
	}
	for i := range e.n.Inputs {
		if e.has(i) && e.dtype(i) != e.out[0].dtype {
			return onHost("operands of different types")
		}
	}
	layout := e.layoutOf(shape)
	var from []*loc
	for i := range e.n.Inputs {
		from = append(from, e.raw(i))
	}
	dst := e.make(0, layout)
	step, at := strides(shape, layout), 0
	for i := range e.n.Inputs {
		if !e.has(i) {
			continue
		}
		e.move(dst, from[i], sizeOf(e.dtype(i)), e.shape(i), step, strides(e.shape(i), e.layout(i)), at*step[axis], 0)
		at += e.shape(i)[axis]
	}
	return nil
}

func emitSplit(e *emission) error {
	axis, err := axisIn(e.n.AttrInt("axis", 0), len(e.shape(0)))
	if err != nil {
		return err
	}
	if slices.Contains(e.n.Outputs, graph.NoValue) {
		return onHost("a part that nobody reads")
	}
	layout, src, size := e.layout(0), e.raw(0), sizeOf(e.dtype(0))
	step, at := strides(e.shape(0), layout), 0
	for i := range e.n.Outputs {
		shape := e.out[i].shape
		dst := e.make(i, layout)
		e.move(dst, src, size, shape, strides(shape, layout), step, 0, at*step[axis])
		at += shape[axis]
	}
	return nil
}

func emitSlice(e *emission) error {
	x, shape := e.shape(0), e.out[0].shape
	starts, axes, steps := toInts(e.n.AttrInts("starts")), toInts(e.n.AttrInts("axes")), []int(nil)
	if e.opset >= 10 {
		axes = nil
		for i, list := range []*[]int{1: &starts, 3: &axes, 4: &steps} {
			if list == nil || !e.has(i) {
				continue
			}
			v, err := e.ints(i)
			if err != nil {
				return err
			}
			*list = v
		}
	}
	layout, size := e.layout(0), sizeOf(e.dtype(0))
	own := strides(x, layout)
	from, off := slices.Clone(own), 0
	for i, start := range starts {
		a, step := i, 1
		if len(axes) > 0 {
			var err error
			if a, err = axisIn(int64(axes[i]), len(x)); err != nil {
				return err
			}
		}
		if len(steps) > 0 {
			step = steps[i]
		}
		if shape[a] == 0 {
			break
		}
		if start < 0 {
			start += x[a]
		}
		if step < 0 {
			start = min(max(start, 0), x[a]-1)
		} else {
			start = min(max(start, 0), x[a])
		}
		off += start * own[a]
		from[a] = own[a] * step
	}
	src := e.raw(0)
	dst := e.make(0, layout)
	e.move(dst, src, size, shape, strides(shape, layout), from, 0, off)
	return nil
}

func emitExpand(e *emission) error {
	shape, layout := e.out[0].shape, e.layout(0)
	if len(shape) != len(e.shape(0)) {
		layout = tensor.RowMajor
	}
	src := e.in(0, layout)
	dst := e.make(0, layout)
	e.move(dst, src, sizeOf(e.dtype(0)), shape, strides(shape, layout), aligned(e.shape(0), layout, len(shape), -1), 0, 0)
	return nil
}

// emitTile repeats each axis: a move over (repeat, size) per axis, the source standing still along repeat.
func emitTile(e *emission) error {
	x, shape, layout := e.shape(0), e.out[0].shape, e.layout(0)
	if tensor.Count(x) == 0 || len(x) > 4 {
		return onHost("more than 4 axes, or no elements")
	}
	so, sx := strides(shape, layout), strides(x, layout)
	var sizes, to, from []int
	for a, n := range x {
		sizes, to, from = append(sizes, shape[a]/n, n), append(to, n*so[a], so[a]), append(from, 0, sx[a])
	}
	src := e.raw(0)
	e.move(e.make(0, layout), src, sizeOf(e.dtype(0)), sizes, to, from, 0, 0)
	return nil
}

// emitDepthToSpace moves blocks of channels to positions: input channel is (by, bx, c) in mode DCR, (c, by, bx) in CRD.
func emitDepthToSpace(e *emission) error {
	x, shape, layout := e.shape(0), e.out[0].shape, e.layout(0)
	b, ch := int(e.n.AttrInt("blocksize", 0)), shape[1]
	si, so := strides(x, layout), strides(shape, layout)
	cs, ys, xs := si[1], b*ch*si[1], ch*si[1] // steps of c, by, bx in the input
	if e.n.AttrStr("mode", "DCR") == "CRD" {
		cs, ys, xs = b*b*si[1], b*si[1], si[1]
	}
	src := e.raw(0)
	e.move(e.make(0, layout), src, sizeOf(e.dtype(0)), []int{x[0], ch, x[2], b, x[3], b},
		[]int{so[0], so[1], b * so[2], so[2], b * so[3], so[3]}, []int{si[0], cs, si[2], ys, si[3], xs}, 0, 0)
	return nil
}

func emitSpaceToDepth(e *emission) error {
	x, shape, layout := e.shape(0), e.out[0].shape, e.layout(0)
	b, ch := int(e.n.AttrInt("blocksize", 0)), x[1]
	si, so := strides(x, layout), strides(shape, layout)
	src := e.raw(0)
	e.move(e.make(0, layout), src, sizeOf(e.dtype(0)), []int{x[0], ch, shape[2], b, shape[3], b},
		[]int{so[0], so[1], so[2], b * ch * so[1], so[3], ch * so[1]}, []int{si[0], si[1], b * si[2], si[2], b * si[3], si[3]}, 0, 0)
	return nil
}

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
	pads := toInts(e.n.AttrInts("pads"))
	if len(pads) == 0 {
		pads = toInts(e.n.AttrInts("paddings"))
	}
	begin := make([]int, len(x))
	fill := make([]byte, 8)
	switch {
	case e.opset < 11:
		if d != tensor.Float32 {
			return onHost("element type " + d.String())
		}
		copy(fill, asBytes([]float32{e.n.AttrFloat("value", 0)}))
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
				if a, err = axisIn(int64(a), len(x)); err != nil {
					return err
				}
				begin[a] = pads[i]
			}
		} else {
			copy(begin, pads)
		}
	}
	mode := e.n.AttrStr("mode", "constant")
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
	axis, err := axisIn(e.n.AttrInt("axis", 0), len(x))
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
