package device

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

var moveEmitters = map[string]emitter{
	"Reshape": emitReshape, "Flatten": emitReshape, "Squeeze": emitReshape, "Unsqueeze": emitReshape,
	"Identity": emitIdentity, "Dropout": emitIdentity,
	"Transpose": emitTranspose, "Concat": emitConcat, "Split": emitSplit, "Slice": emitSlice, "Expand": emitExpand, "Tile": emitTile,
	"DepthToSpace": emitDepthToSpace, "SpaceToDepth": emitSpaceToDepth,
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
	axis, err := axisIn(e.n.Axis(), len(shape))
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
	axis, err := axisIn(e.n.Axis(), len(e.shape(0)))
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
			if a, err = axisIn(axes[i], len(x)); err != nil {
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
