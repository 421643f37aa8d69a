package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

// ONNX Runtime's optimizer puts LayerNormalization, which ONNX has since opset 17, into models of every opset.
var normOps = []OpSpec{
	{Name: "BatchNormalization", Doc: "(x - mean) / sqrt(var + epsilon) * scale + B per channel", Since: 1, Kind: KindNormalization,
		MinIn: 5, In: []Socket{SocketData, SocketFloat}, Out: []Socket{SocketData, SocketFloat}, Infer: inferBatchNorm},
	{Name: "LayerNormalization", Doc: "normalization over the axes from axis on, scaled", Since: 1, Kind: KindNormalization,
		MinIn: 2, In: []Socket{SocketData, SocketFloat}, Out: []Socket{SocketData, SocketFloat}, Infer: inferLayerNorm},
	normalization("RMSNormalization", 23, "division by the root mean square over the axes from axis on, scaled", 2),
	normalization("GroupNormalization", 18, "normalization over groups of channels, scaled", 3),
	normalization("InstanceNormalization", 1, "normalization over the spatial axes, scaled", 3),
	normalization("MeanVarianceNormalization", 9, "(x - mean) / standard deviation over axes", 1),
	normalization("LpNormalization", 1, "x / p-norm along an axis", 1),
	normalization("LRN", 1, "x / (bias + alpha/size * sum of squares of neighbouring channels)^beta", 1),
	skip(normalization("SkipLayerNormalization", 1, "LayerNormalization of x + skip + bias", 3)),
	normalization("SimplifiedLayerNormalization", 1, "RMSNormalization under the name ONNX Runtime gives it", 2),
	skip(normalization("SkipSimplifiedLayerNormalization", 1, "RMSNormalization of x + skip + bias", 3)),
}

func normalization(name string, since int64, doc string, minIn int) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindNormalization, MinIn: minIn, In: []Socket{SocketData, SocketFloat},
		Infer: inferSame}
}

// skip is a normalization of ONNX Runtime whose second input is a tensor to add.
func skip(s OpSpec) OpSpec {
	s.In = []Socket{SocketData, SocketData, SocketFloat}
	s.Infer = func(c *InferCtx) error {
		c.SetOut(3, c.DType(0), c.Shape(0)) // the sum
		return inferSame(c)
	}
	return microsoft(s)
}

// inferBatchNorm: outputs beside the first are training statistics, shaped like input 3.
func inferBatchNorm(c *InferCtx) error {
	x := c.Shape(0)
	if x != nil && len(x) < 1 {
		return fmt.Errorf("input %s has no channels", x)
	}
	c.SetOut(0, c.DType(0), x)
	channels := unknownDim
	if len(x) > 1 {
		channels = x[1]
	}
	for i := 1; i < 5; i++ {
		s := c.Shape(i)
		if s == nil {
			continue
		}
		if len(s) != 1 && c.Node.AttrInt("spatial", 1) != 0 {
			return fmt.Errorf("input %d has shape %s, not one element per channel", i, s)
		}
		if len(s) == 1 && len(x) > 1 {
			if _, ok := mergeDim(channels, s[0]); !ok {
				return fmt.Errorf("input %d has shape %s for %s channels", i, s, Shape{channels})
			}
		}
	}
	for i := 1; i < c.NumOut(); i++ {
		c.SetOut(i, c.DType(3), c.Shape(3))
	}
	return nil
}

// inferLayerNorm: the statistics have 1 in place of the normalised axes.
func inferLayerNorm(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), x)
	if x == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	stats := append(Shape{}, x[:axis]...)
	for range x[axis:] {
		stats = append(stats, Dim{N: 1})
	}
	d, err := dtypeAttr(c.Node, "stash_type", tensor.Float32)
	if err != nil {
		return err
	}
	c.SetOut(1, d, stats)
	c.SetOut(2, d, stats)
	return nil
}
