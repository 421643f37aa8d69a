package exec

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// moveEvals put elements into other places.
var moveEvals = []evaluator{
	{"Transpose", buildTranspose},
	{"Concat", buildConcat},
	{"Split", buildSplit},
	{"Slice", buildSlice},
	{"Expand", simple(evalExpand)},
	{"Tile", simple(evalTile)},
	{"DepthToSpace", buildDepthToSpace},
	{"SpaceToDepth", buildSpaceToDepth},
	{"ReverseSequence", buildReverseSequence},
}

// buildTranspose reads its input in any layout. Where the elements stay in their places, as when only axes of one element move
// or a channels-last layout is undone, its output is a view.
func buildTranspose(n *graph.Node, _ int64) (evalFunc, error) {
	perm := attrInts(n, "perm")
	return func(c *call) error {
		x := c.raw(0)
		step := strides(x)
		src := make([]int, len(step))
		for i := range src {
			if perm != nil {
				src[i] = step[perm[i]]
			} else {
				src[i] = step[len(step)-1-i]
			}
		}
		if c.view(0, 0, 0, src, tensor.RowMajor) {
			return nil
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		move{shape: out.Shape, dst: strides(out), src: src}.run(c.parallel, out.Data, x.Data)
		return nil
	}, nil
}

// buildConcat joins along an axis; channels-last if one of the inputs is.
func buildConcat(n *graph.Node, _ int64) (evalFunc, error) {
	axis := n.Axis()
	return func(c *call) error {
		if done, err := c.finishJoin(); done || err != nil {
			return err
		}
		_, layout := c.operands(c.outShape(0))
		out, err := c.outIn(0, layout)
		if err != nil {
			return err
		}
		a, err := axisIn(axis, len(out.Shape))
		if err != nil {
			return err
		}
		step, at := strides(out), 0
		for i := range c.ins {
			t := c.raw(i)
			if t == nil {
				continue
			}
			if t.DType != out.DType {
				return fmt.Errorf("operands of different types: %s and %s", out.Type(), t.Type())
			}
			move{shape: t.Shape, dst: step, src: strides(t), dstOff: at * step[a]}.run(c.parallel, out.Data, t.Data)
			at += t.Shape[a]
		}
		return nil
	}, nil
}

// buildSplit cuts along an axis. Parts whose elements are neighbours, as along the outermost axis, are views.
func buildSplit(n *graph.Node, _ int64) (evalFunc, error) {
	axis := n.Axis()
	return func(c *call) error {
		x := c.raw(0)
		a, err := axisIn(axis, len(x.Shape))
		if err != nil {
			return err
		}
		step, at := strides(x), 0
		for i := range c.outs {
			shape := c.outShape(i)
			if len(shape) != len(x.Shape) {
				return fmt.Errorf("the size of output %d is not known", i)
			}
			width := shape[a]
			if c.wants(i) {
				if at+width > x.Shape[a] {
					return fmt.Errorf("parts of axis %d are larger than %s", a, x.Type())
				}
				if c.view(i, 0, at*step[a], step, x.Layout) {
					at += width
					continue
				}
				out, err := c.outIn(i, x.Layout)
				if err != nil {
					return err
				}
				move{shape: out.Shape, dst: strides(out), src: step, srcOff: at * step[a]}.run(c.parallel, out.Data, x.Data)
			}
			at += width
		}
		return nil
	}, nil
}

// buildSlice takes starts, ends, axes and steps as attributes before opset 10, as inputs since. Elements that are neighbours are
// a view.
func buildSlice(n *graph.Node, version int64) (evalFunc, error) {
	return func(c *call) error {
		x := c.raw(0)
		r := len(x.Shape)
		starts, axes, steps := attrInts(n, "starts"), attrInts(n, "axes"), []int(nil)
		if version >= 10 {
			for i, list := range []*[]int{1: &starts, 3: &axes, 4: &steps} {
				if list == nil || !c.has(i) {
					continue
				}
				v, err := ints(c.in(i))
				if err != nil {
					return err
				}
				*list = v
			}
		}
		shape := c.outShape(0)
		if axes != nil && len(axes) != len(starts) || steps != nil && len(steps) != len(starts) || axes == nil && len(starts) > r ||
			len(shape) != r {
			return fmt.Errorf("starts %v, axes %v and steps %v for rank %d", starts, axes, steps, r)
		}
		own := strides(x)
		src := slices.Clone(own)
		off := 0
		for i, start := range starts {
			a, step := i, 1
			if axes != nil {
				var err error
				if a, err = axisIn(axes[i], r); err != nil {
					return err
				}
			}
			if steps != nil {
				step = steps[i]
			}
			if shape[a] == 0 {
				break
			}
			dim := x.Shape[a]
			if start < 0 {
				start += dim
			}
			if step < 0 {
				start = min(max(start, 0), dim-1)
			} else {
				start = min(max(start, 0), dim)
			}
			off += start * own[a]
			src[a] = own[a] * step
		}
		if c.view(0, 0, off, src, x.Layout) {
			return nil
		}
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		move{shape: out.Shape, dst: strides(out), src: src, srcOff: off}.run(c.parallel, out.Data, x.Data)
		return nil
	}, nil
}

func evalExpand(c *call) error {
	x := c.raw(0)
	layout := x.Layout
	if len(c.outShape(0)) != len(x.Shape) {
		layout = tensor.RowMajor
	}
	out, err := c.outIn(0, layout)
	if err != nil {
		return err
	}
	move{shape: out.Shape, dst: strides(out), src: alignedStrides(x, len(out.Shape), -1)}.run(c.parallel, out.Data, x.Data)
	return nil
}

// evalTile repeats each axis: a move over (repeat, size) per axis, the source standing still along repeat.
func evalTile(c *call) error {
	x := c.raw(0)
	out, err := c.outIn(0, x.Layout)
	if err != nil {
		return err
	}
	var m move
	so, sx := strides(out), strides(x)
	for a, n := range x.Shape {
		if n == 0 {
			return nil
		}
		m.shape = append(m.shape, out.Shape[a]/n, n)
		m.dst = append(m.dst, n*so[a], so[a])
		m.src = append(m.src, 0, sx[a])
	}
	m.run(c.parallel, out.Data, x.Data)
	return nil
}

// buildDepthToSpace moves blocks of channels to positions: input channel is (by, bx, c) in mode DCR, (c, by, bx) in CRD.
func buildDepthToSpace(n *graph.Node, _ int64) (evalFunc, error) {
	b := int(n.AttrInt("blocksize", 0))
	crd := n.AttrStr("mode", "DCR") == "CRD"
	if b < 1 {
		return nil, fmt.Errorf("blocksize %d", b)
	}
	return func(c *call) error {
		x := c.raw(0)
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		si, so := strides(x), strides(out)
		ch := out.Shape[1]
		cs, ys, xs := si[1], b*ch*si[1], ch*si[1] // steps of c, by, bx in the input
		if crd {
			cs, ys, xs = b*b*si[1], b*si[1], si[1]
		}
		move{shape: []int{x.Shape[0], ch, x.Shape[2], b, x.Shape[3], b},
			src: []int{si[0], cs, si[2], ys, si[3], xs},
			dst: []int{so[0], so[1], b * so[2], so[2], b * so[3], so[3]}}.run(c.parallel, out.Data, x.Data)
		return nil
	}, nil
}

// buildSpaceToDepth is the inverse of DepthToSpace in mode DCR.
func buildSpaceToDepth(n *graph.Node, _ int64) (evalFunc, error) {
	b := int(n.AttrInt("blocksize", 0))
	if b < 1 {
		return nil, fmt.Errorf("blocksize %d", b)
	}
	return func(c *call) error {
		x := c.raw(0)
		out, err := c.outIn(0, x.Layout)
		if err != nil {
			return err
		}
		si, so := strides(x), strides(out)
		ch := x.Shape[1]
		move{shape: []int{x.Shape[0], ch, out.Shape[2], b, out.Shape[3], b},
			dst: []int{so[0], so[1], so[2], b * ch * so[1], so[3], ch * so[1]},
			src: []int{si[0], si[1], b * si[2], si[2], b * si[3], si[3]}}.run(c.parallel, out.Data, x.Data)
		return nil
	}, nil
}

// buildReverseSequence reverses the first elements of each sequence of a batch.
func buildReverseSequence(n *graph.Node, _ int64) (evalFunc, error) {
	time, batch := int(n.AttrInt("time_axis", 0)), int(n.AttrInt("batch_axis", 1))
	if time == batch || time < 0 || time > 1 || batch < 0 || batch > 1 {
		return nil, errors.New("time_axis and batch_axis must be 0 and 1")
	}
	return func(c *call) error {
		x := c.in(0)
		lens, err := ints(c.in(1))
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		inner := tensor.Count(x.Shape[2:])
		index := make([]int, 0, x.Shape[0]*x.Shape[1])
		for i := range x.Shape[0] {
			for j := range x.Shape[1] {
				at := [2]int{i, j}
				n := lens[at[batch]]
				if n < 0 || n > x.Shape[time] {
					return fmt.Errorf("sequence of %d in %s", n, x.Type())
				}
				if at[time] < n {
					at[time] = n - 1 - at[time]
				}
				index = append(index, at[0]*x.Shape[1]+at[1])
			}
		}
		storageOf(out.Data).gather(x.Data, index, inner)
		return nil
	}, nil
}
