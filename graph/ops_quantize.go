package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var quantizeSockets = []Socket{SocketData, SocketFloat}

var quantizeOps = []OpSpec{
	{Name: "QuantizeLinear", Doc: "saturate(round(x / scale) + zero point)", Since: 10, Kind: KindQuantize, MinIn: 2,
		In: quantizeSockets, Infer: inferQuantize},
	{Name: "DequantizeLinear", Doc: "(x - zero point) * scale", Since: 10, Kind: KindQuantize, MinIn: 2, In: quantizeSockets,
		Infer: inferDequantize},
	{Name: "DynamicQuantizeLinear", Doc: "uint8 with scale and zero point from the range of x", Since: 11, Kind: KindQuantize,
		MinIn: 1, Out: quantizeSockets, Infer: inferDynamicQuantize},
	microsoft(OpSpec{Name: "QuantizeLinear", Doc: "QuantizeLinear with more types", Since: 1, Kind: KindQuantize,
		MinIn: 2, In: quantizeSockets, Infer: inferQuantize}),
	microsoft(OpSpec{Name: "DequantizeLinear", Doc: "DequantizeLinear with more types", Since: 1,
		Kind: KindQuantize, MinIn: 2, In: quantizeSockets, Infer: inferDequantize}),
}

// dtypeAttr reads an attribute that holds the number of an element type; def where it is absent or 0.
func dtypeAttr(n *Node, name string, def tensor.DType) (tensor.DType, error) {
	v := n.AttrInt(name, 0)
	if v < 0 || v > int64(tensor.Int2) {
		return def, fmt.Errorf("attribute %s is %d, no element type", name, v)
	}
	if v == 0 {
		return def, nil
	}
	return tensor.DType(v), nil
}

// inferQuantize: the output's type is that of the zero point, else attribute output_dtype, else uint8.
func inferQuantize(c *InferCtx) error {
	d, err := dtypeAttr(c.Node, "output_dtype", tensor.Uint8)
	if err != nil {
		return err
	}
	if c.Has(2) {
		d = c.DType(2)
	}
	c.SetOut(0, d, c.Shape(0))
	return checkGranularity(c)
}

// inferDequantize: the output's type is that of the scale unless attribute output_dtype is set.
func inferDequantize(c *InferCtx) error {
	d, err := dtypeAttr(c.Node, "output_dtype", c.DType(1))
	if err != nil {
		return err
	}
	c.SetOut(0, d, c.Shape(0))
	if a, b := c.DType(0), c.DType(2); c.Has(2) && a != b && a != tensor.Undefined && b != tensor.Undefined {
		return fmt.Errorf("x has type %s, the zero point %s", a, b)
	}
	return checkGranularity(c)
}

// checkGranularity holds the scale against x: one number, or one per index of axis (1 by default), or, with block_size, one
// per block along axis.
func checkGranularity(c *InferCtx) error {
	x, scale := c.Shape(0), c.Shape(1)
	if x == nil || scale == nil {
		return nil
	}
	if zp := c.Shape(2); zp != nil {
		n, _ := scale.Elements()
		m, _ := zp.Elements()
		if n != m && n >= 0 && m >= 0 {
			return fmt.Errorf("scale %s and zero point %s differ", scale, zp)
		}
	}
	if len(scale) == 0 || len(scale) == 1 && scale[0].N == 1 {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	block := int64(c.Node.Quantize().Block)
	if block <= 0 {
		if len(scale) != 1 {
			return fmt.Errorf("scale has shape %s", scale)
		}
		if _, ok := mergeDim(scale[0], x[axis]); !ok {
			return fmt.Errorf("scale %s for axis %d of %s", scale, axis, x)
		}
		return nil
	}
	if len(scale) != len(x) {
		return fmt.Errorf("scale %s with block_size for %s", scale, x)
	}
	for i, d := range x {
		want := d
		if i == axis && d.Known() {
			want.N = (d.N-1)/block + 1
		}
		if _, ok := mergeDim(scale[i], want); !ok {
			return fmt.Errorf("scale %s with block_size %d on axis %d of %s", scale, block, axis, x)
		}
	}
	return nil
}

func inferDynamicQuantize(c *InferCtx) error {
	c.SetOut(0, tensor.Uint8, c.Shape(0))
	c.SetOut(1, tensor.Float32, Shape{})
	c.SetOut(2, tensor.Uint8, Shape{})
	return nil
}
