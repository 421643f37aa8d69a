package graph

import (
	"fmt"
	"math"
)

var sliceOps = []OpSpec{
	{Name: "Slice", Doc: "x[start:end:step] along axes", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferSlice},
	{Name: "Split", Doc: "x cut along an axis", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferSplit},
	{Name: "Concat", Doc: "inputs joined along an axis", Since: 1, Kind: KindMover, MinIn: 1, Infer: inferConcat},
	{Name: "Tile", Doc: "x repeated along each axis", Since: 1, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferTile},
	{Name: "Pad", Doc: "x with elements added (or, negative, removed) at the ends of each axis", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex, SocketFloat, SocketIndex}, Passive: passivePad, Infer: inferPad},
	{Name: "Trilu", Doc: "upper or lower triangle, 0 elsewhere", Since: 14, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferSame},
	{Name: "ReverseSequence", Doc: "the first elements of each batch reversed", Since: 10, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferSame},
	{Name: "DepthToSpace", Doc: "blocks of channels moved into space", Since: 1, Kind: KindMover, MinIn: 1, Passive: always,
		Infer: inferDepthToSpace},
	{Name: "SpaceToDepth", Doc: "blocks of space moved into channels", Since: 1, Kind: KindMover, MinIn: 1, Passive: always,
		Infer: inferSpaceToDepth},
	{Name: "CenterCropPad", Doc: "x cropped or padded around its centre", Since: 18, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferCenterCropPad},
}

func sliceAxes(rank int, starts, ends, axes, steps []int64) ([]int, error) {
	if axes == nil {
		axes = make([]int64, len(starts))
		for i := range axes {
			axes[i] = int64(i)
		}
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		return nil, fmt.Errorf("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	for _, s := range steps {
		if s == 0 || s == math.MinInt64 {
			return nil, fmt.Errorf("step %d", s)
		}
	}
	return normAxes(axes, rank)
}

// ClampSlice is what a Slice takes of an axis of n elements: count elements from first on, each step further. start and end count from the
// end where they are below 0; step is not 0.
func ClampSlice(n, start, end, step int64) (first, count int64) {
	if start < 0 {
		start += n
	}
	if end < 0 {
		end += n
	}
	if step > 0 {
		start, end = min(max(start, 0), n), min(max(end, 0), n)
		if end <= start {
			return start, 0
		}
		return start, (end-start-1)/step + 1
	}
	start, end = min(max(start, 0), n-1), min(max(end, -1), n-1)
	if end >= start {
		return max(start, 0), 0
	}
	return start, (start-end-1)/-step + 1
}

func inferSlice(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	starts, okS := c.axesInput(1, "starts", 10)
	ends, okE := c.axesInput(2, "ends", 10)
	axes, okA := c.axesInput(3, "axes", 10)
	steps, okT := c.axesInput(4, "steps", 10)
	s, all1 := knownInts(starts)
	e, all2 := knownInts(ends)
	a, all3 := knownInts(axes)
	t, all4 := knownInts(steps)
	if !okA {
		a = nil
	}
	if !okT {
		t = nil
	}
	if !okS || !okE || c.Has(3) && !okA || !all3 || c.Has(4) && !okT {
		c.SetOut(0, c.DType(0), unknownShape(len(x)))
		return nil
	}
	if !all1 || !all2 || !all4 {
		return inferOpenSlice(c, x, starts, ends, a, steps)
	}
	list, err := sliceAxes(len(x), s, e, a, t)
	if err != nil {
		return err
	}
	out := append(Shape{}, x...)
	offset, stride := 0, x.strides()
	for i, axis := range list {
		step := int64(1)
		if t != nil {
			step = t[i]
		}
		if d := x[axis]; !d.Known() {
			out[axis] = openCount(d, s[i], e[i], step)
			continue
		}
		first, count := ClampSlice(x[axis].N, s[i], e[i], step)
		out[axis] = Dim{N: count}
		if stride != nil {
			offset += int(first) * stride[axis]
			stride[axis] *= int(step)
		}
	}
	c.SetOut(0, c.DType(0), out)
	if elems, ok := c.Elems(0); ok {
		c.setInts(0, viewElems(elems, out, stride, offset))
	}
	return nil
}

// openEnd is what exporters write for "to the end" at the least (TensorFlow); no axis is longer.
const openEnd = 1_000_000_000

// openCount is the size of a slice of an unknown dimension, if one expression gives it for every size that the slice is meant
// for: x[1:] of a dimension T has T-1 elements, although an empty x would leave none.
func openCount(d Dim, start, end, step int64) Dim {
	switch {
	case start == 0 && end >= openEnd && step == 1, step == -1 && (start == -1 || start >= openEnd) && end <= -openEnd:
		return d
	case step > 0 && start >= 0 && end >= 0 && end <= start:
		return Dim{N: 0}
	case step < 1 || start <= -openEnd || start >= openEnd:
		return unknownDim
	}
	size := d.elem()
	p, ok := size.poly()
	if !ok {
		return unknownDim
	}
	least := int64(0) // the size is no less
	if p.nonNegative() {
		least = p.c
	}
	var count Elem
	switch {
	case start >= 0 && (end < 0 || end >= openEnd): // to the end, or to so many before it
		count = addElems(size, known(min(end, 0)-start))
		if missing := start - min(end, 0) - least; missing > int64(len(p.terms)) || !p.nonNegative() {
			return unknownDim // names are 1 at the least, or the slice is empty
		}
	case start >= 0 && end <= least:
		count = known(end - start)
	case start < 0 && (end < 0 || end >= openEnd) && -start <= least:
		count = known(max(0, min(end, 0)-start))
	}
	return floorDiv(count, step-1, step).dim()
}

// inferOpenSlice handles bounds that are not numbers. A slice from 0 or a symbol to a symbol has as many elements as lie
// between the two, provided that the dimension is not smaller. For a dimension of fixed size, that of a table of positions for
// example, this is assumed.
func inferOpenSlice(c *InferCtx, x Shape, starts, ends []Elem, axes []int64, steps []Elem) error {
	if axes == nil {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	list, err := normAxes(axes, len(x))
	if err != nil {
		return err
	}
	if len(starts) != len(list) || len(ends) != len(list) || len(steps) > 0 && len(steps) != len(list) {
		return fmt.Errorf("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(list), len(steps))
	}
	out := append(Shape{}, x...)
	for i, a := range list {
		out[a] = unknownDim
		if len(steps) > 0 && steps[i] != known(1) {
			continue
		}
		between := subElems(ends[i], starts[i])
		fits := x[a].Known() || subElems(x[a].elem(), ends[i]).nonNegative()
		if fits && starts[i].nonNegative() && ends[i].nonNegative() && between.nonNegative() {
			out[a] = between.dim()
		}
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// inferSplit: the sizes are given, or equal, the last one smaller where num_outputs does not divide (from opset 18 on).
func inferSplit(c *InferCtx) error {
	x := c.Shape(0)
	for i := range c.NumOut() {
		c.SetOut(i, c.DType(0), nil)
	}
	if x == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	from := int64(13) // and opset 1
	if c.Opset == 1 {
		from = 1
	}
	sizes, given := c.axesInput(1, "split", from)
	if c.Has(1) && !given && (c.Opset >= from || c.Opset == 0) {
		sizes = make([]Elem, c.NumOut())
	} else if !given {
		if sizes, err = equalParts(c, x[axis]); err != nil {
			return err
		}
	}
	if len(sizes) != c.NumOut() {
		return fmt.Errorf("%d sizes for %d outputs", len(sizes), c.NumOut())
	}
	elems, hasElems := c.Elems(0)
	at, exact := int64(0), true
	for i, e := range sizes {
		if e.Known && (e.N < 0 || e.N > MaxElements) {
			return fmt.Errorf("split sizes %s", elemsString(sizes))
		}
		out := append(Shape{}, x...)
		out[axis] = e.dim()
		c.SetOut(i, c.DType(0), out)
		exact = exact && e.Known
		if hasElems && len(x) == 1 && exact && at+e.N <= int64(len(elems)) {
			c.setInts(i, elems[at:at+e.N])
		}
		at += e.N
	}
	if exact && x[axis].Known() && at != x[axis].N {
		return fmt.Errorf("split sizes %s add up to %d, axis %d of %s has %d", elemsString(sizes), at, axis, x, x[axis].N)
	}
	return nil
}

func equalParts(c *InferCtx, d Dim) ([]Elem, error) {
	n := int64(c.NumOut())
	if n == 0 {
		return nil, nil
	}
	if given := c.Node.AttrInt("num_outputs", n); given != n {
		return nil, fmt.Errorf("num_outputs %d with %d outputs", given, n)
	}
	sizes := make([]Elem, n)
	if !d.Known() {
		part := divElems(d.elem(), known(n))
		for i := range sizes {
			sizes[i] = part
		}
		return sizes, nil
	}
	if d.N%n != 0 && c.Opset > 0 && c.Opset < 18 {
		return nil, fmt.Errorf("%d does not split into %d equal parts", d.N, n)
	}
	part := (d.N + n - 1) / n
	for i := range sizes {
		sizes[i] = known(min(part, max(0, d.N-part*int64(i))))
	}
	return sizes, nil
}

func inferConcat(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	var elems []Elem
	hasElems := true
	rank := -1
	for i := range c.NumIn() {
		if c.Shape(i) == nil {
			return nil
		}
		if rank >= 0 && rank != len(c.Shape(i)) {
			return fmt.Errorf("shapes %s and %s differ in rank", c.Shape(0), c.Shape(i))
		}
		rank = len(c.Shape(i))
		e, ok := c.Elems(i)
		elems, hasElems = append(elems, e...), hasElems && ok
	}
	axis, err := normAxis(c.Node.Axis(), rank)
	if err != nil {
		return err
	}
	out := append(Shape{}, c.Shape(0)...)
	sum := out[axis].elem()
	for i := 1; i < c.NumIn(); i++ {
		s := c.Shape(i)
		for k, d := range s {
			if k == axis {
				sum = addElems(sum, d.elem())
				continue
			}
			m, ok := mergeDim(out[k], d)
			if !ok {
				return fmt.Errorf("shapes %s and %s differ outside of axis %d", c.Shape(0), s, axis)
			}
			out[k] = m
		}
	}
	out[axis] = sum.dim()
	c.SetOut(0, c.DType(0), out)
	if hasElems && rank == 1 {
		c.setInts(0, elems)
	}
	return nil
}
