package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var poolOps = []OpSpec{
	{Name: "MaxPool", Doc: "largest element of each window", Since: 1, Kind: KindPool, MinIn: 1,
		Out: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferPool},
	{Name: "AveragePool", Doc: "mean of each window", Since: 1, Kind: KindPool, MinIn: 1, Infer: inferPool, Sums: spatialSums},
	{Name: "LpPool", Doc: "p-norm of each window", Since: 1, Kind: KindPool, MinIn: 1, Infer: inferPool},
	{Name: "GlobalMaxPool", Doc: "largest element of each channel", Since: 1, Kind: KindPool, MinIn: 1, Passive: always,
		Infer: inferGlobalPool},
	{Name: "GlobalAveragePool", Doc: "mean of each channel", Since: 1, Kind: KindPool, MinIn: 1, Infer: inferGlobalPool, Sums: spatialSums},
	{Name: "GlobalLpPool", Doc: "p-norm of each channel", Since: 1, Kind: KindPool, MinIn: 1, Infer: inferGlobalPool},
	{Name: "MaxUnpool", Doc: "inverse of MaxPool with its indices, 0 elsewhere", Since: 9, Kind: KindPool, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferMaxUnpool},
	{Name: "MaxRoiPool", Doc: "largest element of each cell of each region", Since: 1, Kind: KindPool, MinIn: 2,
		In: []Socket{SocketData, SocketFloat}, Infer: inferMaxRoiPool},
	{Name: "RoiAlign", Doc: "interpolated samples of each cell of each region", Since: 10, Kind: KindPool, MinIn: 3,
		In: []Socket{SocketData, SocketFloat, SocketIndex}, Infer: inferRoiAlign},
}

func inferPool(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	c.SetOut(1, tensor.Int64, nil)
	x := c.Shape(0)
	if x == nil {
		return nil
	}
	geo, err := PoolGeometry(c.Node, x)
	if err != nil {
		return err
	}
	out := Shape{x[0], x[1]}
	for i := range geo.Out {
		out = append(out, geo.dim(i, x[2+i]))
	}
	c.SetOut(0, c.DType(0), out)
	c.SetOut(1, tensor.Int64, out)
	return nil
}

func inferGlobalPool(c *InferCtx) error {
	x := c.Shape(0)
	if x == nil {
		c.SetOut(0, c.DType(0), nil)
		return nil
	}
	if len(x) < 2 {
		return fmt.Errorf("input %s has no channels", x)
	}
	out := Shape{x[0], x[1]}
	for range x[2:] {
		out = append(out, Dim{N: 1})
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// inferMaxUnpool: the output's shape is input 2, or that of the smallest input of the MaxPool.
func inferMaxUnpool(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if c.Has(2) {
		if elems, ok := c.Elems(2); ok {
			c.SetOut(0, c.DType(0), shapeOf(elems))
		}
		return nil
	}
	if x == nil {
		return nil
	}
	out, err := unpooled(c.Node, x)
	c.SetOut(0, c.DType(0), out)
	return err
}

// UnpooledShape returns the shape of the smallest input of the MaxPool that a MaxUnpool of x undoes; indices count in it.
func UnpooledShape(n *Node, x []int) ([]int, error) {
	out, err := unpooled(n, Static(x...))
	if err != nil {
		return nil, err
	}
	shape, _ := out.Ints()
	return shape, nil
}

func unpooled(n *Node, x Shape) (Shape, error) {
	if len(x) < 3 {
		return nil, fmt.Errorf("input %s has no spatial axes", x)
	}
	geo, err := window(n, x[2:], nil, n.Pool().Kernel)
	if err != nil {
		return nil, err
	}
	out := Shape{x[0], x[1]}
	for i, in := range geo.In {
		size := (in-1)*geo.Stride[i] + geo.Kernel[i] - geo.PadBegin[i] - geo.PadEnd[i]
		if geo.Kernel[i] < 0 || size < 0 && in >= 0 {
			return nil, fmt.Errorf("kernel_shape, strides and pads do not fit input %s", x)
		}
		if in < 0 {
			size = -1
		}
		out = append(out, dimOf(size))
	}
	return out, nil
}

func inferMaxRoiPool(c *InferCtx) error {
	size, err := windowAttr(c.Node, "pooled_shape", 2, -1, 1)
	if err != nil {
		return err
	}
	return inferRegions(c, dimOf(size[0]), dimOf(size[1]))
}

func inferRoiAlign(c *InferCtx) error {
	return inferRegions(c, Dim{N: c.Node.AttrInt("output_height", 1)}, Dim{N: c.Node.AttrInt("output_width", 1)})
}

// inferRegions gives [regions, channels, h, w].
func inferRegions(c *InferCtx, h, w Dim) error {
	x, rois := c.Shape(0), c.Shape(1)
	if x != nil && len(x) != 4 || rois != nil && len(rois) != 2 || h.N < 1 || w.N < 1 {
		return fmt.Errorf("input %s, regions %s and output size %d x %d do not fit", x, rois, h.N, w.N)
	}
	out := Shape{unknownDim, unknownDim, h, w}
	if rois != nil {
		out[0] = rois[0]
	}
	if x != nil {
		out[1] = x[1]
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}
