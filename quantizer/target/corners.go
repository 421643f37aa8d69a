package target

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// brokenCorners is what engines do otherwise of a Resize with align_corners: ONNX maps places by the length that scales give, engines (and
// PyTorch) by the whole number of elements that there are.
var brokenCorners = struct {
	pattern, effect, cure string
	met                   func(o *Rounded) bool
}{
	"a Resize with align_corners by scales that do not give whole lengths (in float too)",
	"it maps places by the rounded length, ONNX by the broken one (NSR up to 0.2)",
	"give sizes instead of scales: that is what PyTorch computes",
	func(o *Rounded) bool {
		n, opset := o.Node, o.Graph.Opset("")
		if n.Op != "Resize" || !n.IsONNX() || n.AttrStr("coordinate_transformation_mode", "") != "align_corners" {
			return false
		}
		_, at, _ := graph.ResizeInputs(opset)
		c, x := o.Graph.Const(n.Input(at)), o.Graph.Value(n.Inputs[0]).Shape
		if c == nil || c.DType != tensor.Float32 || c.Len() == 0 {
			return false
		}
		lengths := make([]int, len(x))
		for i, d := range x {
			lengths[i] = int(d.AtLeast()) // a batch that is not known is not scaled
		}
		_, scales, err := graph.ResizeGeometry(n, lengths, nil, c.F32(), nil)
		for i := 0; err == nil && i < len(scales); i++ {
			if l := float64(float32(lengths[i]) * scales[i]); l != math.Trunc(l) {
				return true
			}
		}
		return false
	},
}
