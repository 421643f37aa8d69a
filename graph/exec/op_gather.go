package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// gatherEvals read elements at computed positions.
var gatherEvals = []evaluator{
	{"Gather", buildGather},
	{"GatherElements", buildGatherElements},
	{"GatherND", buildGatherND},
	{"Compress", buildCompress},
	{"NonZero", simple(evalNonZero)},
}

// positions returns integer input i with negative positions counted from the end of an axis of n elements.
func positions(c *call, i, n int) ([]int, error) {
	list, err := ints(c.in(i))
	if err != nil {
		return nil, err
	}
	for k, p := range list {
		if p < -n || p >= n {
			return nil, fmt.Errorf("index %d is outside of an axis of %d", p, n)
		}
		if p < 0 {
			list[k] += n
		}
	}
	return list, nil
}

func buildGather(n *graph.Node, _ int64) (evalFunc, error) {
	axis := n.Axis()
	return func(c *call) error {
		x := c.in(0)
		a, err := axisIn(axis, len(x.Shape))
		if err != nil {
			return err
		}
		outer, count, inner := blocks(x.Shape, a)
		list, err := positions(c, 1, count)
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		index := make([]int, 0, outer*len(list))
		for o := range outer {
			for _, p := range list {
				index = append(index, o*count+p)
			}
		}
		storageOf(out.Data).gather(x.Data, index, inner)
		return nil
	}, nil
}

// alongIndices returns, for each element of the index tensor (input 1), the offset in a row-major tensor of the given shape of
// the element that differs from it in position only along axis, where the index says.
func alongIndices(c *call, shape []int, axis int) ([]int, error) {
	a, err := axisIn(axis, len(shape))
	if err != nil {
		return nil, err
	}
	list, err := positions(c, 1, shape[a])
	if err != nil {
		return nil, err
	}
	indexShape := c.in(1).Shape
	if len(indexShape) != len(shape) {
		return nil, fmt.Errorf("indices of rank %d for data of rank %d", len(indexShape), len(shape))
	}
	for k, n := range indexShape {
		if k != a && n > shape[k] {
			return nil, fmt.Errorf("indices of shape %v for data of shape %v", indexShape, shape)
		}
	}
	step := rowStrides(shape)
	it := newCounter(indexShape, 0)
	for i, p := range list {
		list[i] = it.dot(step) + (p-it.index[a])*step[a]
		it.next()
	}
	return list, nil
}

func buildGatherElements(n *graph.Node, _ int64) (evalFunc, error) {
	axis := n.Axis()
	return func(c *call) error {
		x := c.in(0)
		index, err := alongIndices(c, x.Shape, axis)
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		storageOf(out.Data).gather(x.Data, index, 1)
		return nil
	}, nil
}

// tuples returns, for each index tuple (last axis of input 1), the number of the block of shape that it names. The first
// batch axes of both tensors correspond.
func tuples(c *call, shape []int, batch int) (index []int, size int, err error) {
	t := c.in(1)
	list, err := ints(t)
	if err != nil {
		return nil, 0, err
	}
	r := len(t.Shape)
	if r == 0 || batch < 0 || batch >= r {
		return nil, 0, fmt.Errorf("indices of rank %d with %d batch axes", r, batch)
	}
	width := t.Shape[r-1]
	if batch+width > len(shape) {
		return nil, 0, fmt.Errorf("index tuples of %d for shape %v with %d batch axes", width, shape, batch)
	}
	axes := shape[batch : batch+width]
	step := rowStrides(axes)
	perBatch := tensor.Count(t.Shape[batch : r-1])
	count := tensor.Count(axes)
	for i := range tensor.Count(t.Shape[:r-1]) {
		at := i / max(perBatch, 1) * count
		for k, n := range axes {
			p := list[i*width+k]
			if p < -n || p >= n {
				return nil, 0, fmt.Errorf("index %d is outside of an axis of %d", p, n)
			}
			if p < 0 {
				p += n
			}
			at += p * step[k]
		}
		index = append(index, at)
	}
	return index, tensor.Count(shape[batch+width:]), nil
}

func buildGatherND(n *graph.Node, _ int64) (evalFunc, error) {
	batch := int(n.AttrInt("batch_dims", 0))
	return func(c *call) error {
		x := c.in(0)
		index, size, err := tuples(c, x.Shape, batch)
		if err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		storageOf(out.Data).gather(x.Data, index, size)
		return nil
	}, nil
}

// buildCompress keeps the slices along an axis (without one: the elements) for which the condition holds.
func buildCompress(n *graph.Node, _ int64) (evalFunc, error) {
	return func(c *call) error {
		x := c.in(0)
		cond, ok := c.in(1).Data.([]bool)
		if !ok {
			return badType(1, c.in(1).DType)
		}
		shape, a := []int{x.Len()}, 0
		if n.Attr("axis") != nil {
			var err error
			if a, err = axisIn(n.Axis(), len(x.Shape)); err != nil {
				return err
			}
			shape = append([]int(nil), x.Shape...)
		}
		outer, count, inner := blocks(shape, a)
		var index []int
		for o := range outer {
			for i := range min(count, len(cond)) {
				if cond[i] {
					index = append(index, o*count+i)
				}
			}
		}
		shape[a] = len(index) / max(outer, 1)
		out, err := c.outAs(0, x.DType, shape, tensor.RowMajor)
		if err != nil {
			return err
		}
		storageOf(out.Data).gather(x.Data, index, inner)
		return nil
	}, nil
}

// evalNonZero lists the indices of elements other than zero, one row per axis.
func evalNonZero(c *call) error {
	x := c.in(0)
	var hits []int
	if b, ok := x.Data.([]bool); ok {
		for i, v := range b {
			if v {
				hits = append(hits, i)
			}
		}
	} else {
		d, err := float64s(x)
		if err != nil {
			return err
		}
		for i, v := range d {
			if v != 0 {
				hits = append(hits, i)
			}
		}
	}
	r := len(x.Shape)
	out, err := c.outAs(0, tensor.Int64, []int{r, len(hits)}, tensor.RowMajor)
	if err != nil {
		return err
	}
	step := rowStrides(x.Shape)
	for k, at := range hits {
		for a := range r {
			out.I64()[a*len(hits)+k] = int64(at / step[a] % x.Shape[a])
		}
	}
	return nil
}
