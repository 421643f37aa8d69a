package exec

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
)

// imageEvals put elements of images in other places.
var imageEvals = []evaluator{
	{op: "Col2Im", build: simple(evalCol2Im)},
	{op: "CenterCropPad", build: buildCenterCropPad},
	{op: "MaxUnpool", build: simple(evalMaxUnpool)},
}

// evalCol2Im adds blocks of an image at the places where a window of their size stands, [N, C*block, windows] to [N, C, image...].
func evalCol2Im(c *call) error {
	x := c.in(0)
	image, err := ints(c.in(1))
	if err != nil {
		return err
	}
	block, err := ints(c.in(2))
	if err != nil {
		return err
	}
	geo, err := graph.Col2ImGeometry(c.node, image, block)
	if err != nil {
		return err
	}
	if n := tensor.Count(block); x.Shape[1]%n != 0 || x.Shape[2] != tensor.Count(geo.Out) {
		return fmt.Errorf("%s for windows %v of blocks %v", x.Type(), geo.Out, block)
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	switch d := x.Data.(type) {
	case []float32:
		addBlocks[float64](c, geo, tensor.Of[float32](out), d)
	case []float64:
		addBlocks[float64](c, geo, tensor.Of[float64](out), d)
	case []int8:
		addBlocks[int8](c, geo, tensor.Of[int8](out), d)
	case []int16:
		addBlocks[int16](c, geo, tensor.Of[int16](out), d)
	case []int32:
		addBlocks[int32](c, geo, tensor.Of[int32](out), d)
	case []int64:
		addBlocks[int64](c, geo, tensor.Of[int64](out), d)
	case []uint8:
		addBlocks[uint8](c, geo, tensor.Of[uint8](out), d)
	case []uint16:
		addBlocks[uint16](c, geo, tensor.Of[uint16](out), d)
	case []uint32:
		addBlocks[uint32](c, geo, tensor.Of[uint32](out), d)
	case []uint64:
		addBlocks[uint64](c, geo, tensor.Of[uint64](out), d)
	default:
		return badType(0, x.DType)
	}
	return nil
}

// addBlocks sums in A.
func addBlocks[A, T number](c *call, geo *graph.Geometry, dst, src []T) {
	size, block, windows := tensor.Count(geo.In), tensor.Count(geo.Kernel), tensor.Count(geo.Out)
	if size == 0 || windows == 0 {
		clear(dst)
		return
	}
	strides := rowStrides(geo.In)
	c.parallel(len(dst)/size, block*windows*4, func(lo, hi int) {
		sums := make([]A, size)
		for p := lo; p < hi; p++ {
			clear(sums)
			in := newCounter(geo.Kernel, 0)
			for k := range block {
				at := newCounter(geo.Out, 0)
				for _, v := range src[(p*block+k)*windows:][:windows] {
					if off, inside := placeOf(geo, strides, at.index, in.index); inside {
						sums[off] += A(v)
					}
					at.next()
				}
				in.next()
			}
			for i, v := range sums {
				dst[p*size+i] = T(v)
			}
		}
	})
}

// placeOf returns the offset of an element of the window at a position, false if it is in the padding.
func placeOf(geo *graph.Geometry, strides, at, in []int) (off int, inside bool) {
	for a, n := range geo.In {
		i := at[a]*geo.Stride[a] - geo.PadBegin[a] + in[a]*geo.Dilation[a]
		if i < 0 || i >= n {
			return 0, false
		}
		off += i * strides[a]
	}
	return off, true
}

// buildCenterCropPad crops axes, or surrounds them with 0, so that they have given sizes; the odd element is at the end.
func buildCenterCropPad(*graph.Node, int64) (evalFunc, error) {
	return func(c *call) error {
		x := c.in(0)
		out, err := c.out(0)
		if err != nil {
			return err
		}
		m := move{dst: rowStrides(out.Shape), src: rowStrides(x.Shape)}
		for a, n := range x.Shape {
			size := out.Shape[a]
			m.shape = append(m.shape, min(n, size))
			m.dstOff += max(0, size-n) / 2 * m.dst[a]
			m.srcOff += max(0, n-size) / 2 * m.src[a]
		}
		storageOf(out.Data).fill(tensor.MakeData(out.DType, 1))
		m.run(c.parallel, out.Data, x.Data)
		return nil
	}, nil
}

// evalMaxUnpool puts elements where MaxPool found them, 0 elsewhere. Places are those in the smallest input that the MaxPool can
// have had; a larger output_shape surrounds it at the ends of the axes.
func evalMaxUnpool(c *call) error {
	x, places := c.in(0), c.in(1)
	inner, err := graph.UnpooledShape(c.node, x.Shape)
	if err != nil {
		return err
	}
	if places.DType != tensor.Int64 || places.Len() != x.Len() {
		return fmt.Errorf("indices %s for %s", places.Type(), x.Type())
	}
	out, err := c.out(0)
	if err != nil {
		return err
	}
	fits := len(out.Shape) == len(inner)
	for a := 0; fits && a < len(inner); a++ {
		fits = out.Shape[a] >= inner[a]
	}
	size, err := checkedLen(inner)
	if err != nil {
		return err
	}
	if !fits {
		return fmt.Errorf("output_shape %v is smaller than %v", out.Shape, inner)
	}
	index, strides := make([]int, x.Len()), rowStrides(out.Shape)
	for i, p := range places.I64() {
		if p < 0 || p >= int64(size) {
			return fmt.Errorf("index %d is outside of %v", p, inner)
		}
		for a, at := len(inner)-1, int(p); a >= 0; a-- {
			index[i] += at % inner[a] * strides[a]
			at /= inner[a]
		}
	}
	dst := storageOf(out.Data)
	dst.fill(tensor.MakeData(out.DType, 1))
	dst.scatter(x.Data, index, 1)
	return nil
}
