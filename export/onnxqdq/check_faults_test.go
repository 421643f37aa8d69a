package onnxqdq_test

import (
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// fault is a violation of one rule, planted in an export for one target.
type fault struct {
	rule, platform, what string
	plant                func(s surgeon)
	// unplanned: the fault is seen without the plan as well.
	unplanned bool
}

var faults = []fault{
	{"structure", "onnxruntime", "a computed scale", func(s surgeon) {
		one := s.AddConst("one", tensor.FromF32([]float32{1}))
		v, err := s.AddValue(graph.Value{Name: "computed", DType: tensor.Float32, Shape: graph.Shape{}})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "Identity", Inputs: []graph.ValueID{one}, Outputs: []graph.ValueID{v}})
		require.NoError(s, err)
		s.SetInput(s.node(xQ).ID, 1, v)
	}, true},
	{"structure", "onnxruntime", "a scale that is made of another tensor", func(s surgeon) {
		v, err := s.AddValue(graph.Value{Name: "computed", DType: tensor.Float32, Shape: graph.Shape{}})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "ReduceMax", Attrs: []graph.Attr{graph.Int("keepdims", 0)}, Inputs: []graph.ValueID{s.value("r")},
			Outputs: []graph.ValueID{v}})
		require.NoError(s, err)
		s.SetInput(s.node(xQ).ID, 1, v)
		s.SetInput(s.node(xDQ).ID, 1, v)
	}, true},
	{"opset", "trt_int8", "opset 12", func(s surgeon) { s.Opsets = []graph.Opset{{Version: 12}} }, true},
	{"operators", "trt_int8", "ConvInteger", func(s surgeon) {
		v, err := s.AddValue(graph.Value{Name: "acc", DType: tensor.Int32})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "ConvInteger", Inputs: []graph.ValueID{s.value("x_QuantizeLinear"), s.value("x_QuantizeLinear")},
			Outputs: []graph.ValueID{v}})
		require.NoError(s, err)
	}, true},
	{"operators", "onnxruntime", "DynamicQuantizeLinear whose codes are read by another operator", func(s surgeon) {
		outs := make([]graph.ValueID, 4)
		for i, name := range []string{"q", "s", "z", "back"} {
			var err error
			outs[i], err = s.AddValue(graph.Value{Name: "planted_" + name})
			require.NoError(s, err)
		}
		_, err := s.AddNode(graph.Node{Op: "DynamicQuantizeLinear", Inputs: []graph.ValueID{s.value("r")}, Outputs: outs[:3]})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "Transpose", Inputs: outs[:1], Outputs: outs[3:]})
		require.NoError(s, err)
	}, true},
	{"scale", "onnxruntime", "a scale of NV blocks that is NaN", func(s surgeon) {
		in := []graph.ValueID{s.AddConst("planted", scalar(tensor.Float8E4M3FN, uint8(0x7f), 4)),
			s.AddConst("planted", tensor.FromF32([]float32{1}))}
		v, err := s.AddValue(graph.Value{Name: "planted_scale", DType: tensor.Float32, Shape: graph.Static(4)})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "DequantizeLinear", Inputs: in, Outputs: []graph.ValueID{v}})
		require.NoError(s, err)
		s.SetInput(s.node(w1DQ).ID, 1, v)
	}, true},
	{"scale", "onnxruntime", "a subnormal scale", func(s surgeon) { s.params(tensor.FromF32([]float32{1e-42}), nil, xQ, xDQ) }, true},
	{"scale", "trt_int8", "codes that are infinite", func(s surgeon) { s.params(f32(1, 1, 1e38, 1), nil, w1Q, w1DQ) }, true},
	{"pool-scale", "onnxruntime", "a mean that is a millionth of a step", func(s surgeon) {
		s.node("pool").Op, s.node("pool").Attrs = "GlobalAveragePool", nil
		s.params(tensor.FromF32([]float32{1e12}), nil, pQ, pDQ)
	}, true},
	{"scale", "trt_int8", "the zero scale of a dead channel", func(s surgeon) { s.params(f32(1, 0, 1, 1), nil, w1Q, w1DQ) }, true},
	{"numbers", "onnxruntime", "NaN in a bias in float", func(s surgeon) { s.set("add", 1, f32(1, float32(math.NaN()))) }, true},
	{"numbers", "trt_int8", "a code that is NaN", func(s surgeon) {
		zero := tensor.New(tensor.Float8E4M3FN)
		codes := tensor.New(tensor.Float8E4M3FN, 1, 4, 6, 6)
		tensor.Of[uint8](codes)[7] = 0x7f
		s.set(xDQ, 0, codes)
		s.set(xDQ, 2, zero)
	}, true},
	{"opset", "onnxruntime", "one that ONNX has not", func(s surgeon) { s.Opsets[0].Version = 99 }, true},
	{"scale", "onnxruntime", "an infinite scale", func(s surgeon) {
		s.params(tensor.FromF32([]float32{float32(math.Inf(1))}), nil, xQ, xDQ)
	}, true},
	{"zero-point", "trt_int8", "none", func(s surgeon) { s.SetInput(s.node(xQ).ID, 2, graph.NoValue) }, true},
	{"zero-point", "onnxruntime", "another shape than the scale", func(s surgeon) {
		s.params(nil, scalar(tensor.Uint8, uint8(3), 1), xQ, xDQ)
	}, true},
	{"zero-point", "onnxruntime", "an int32 bias with one", func(s surgeon) { s.params(nil, scalar(tensor.Int32, int32(1), 4), b1DQ) }, true},
	{"zero-point", "onnxruntime", "another type than the integers", func(s surgeon) {
		s.params(nil, scalar(tensor.Int8, int8(0)), xDQ)
	}, true},
	{"pair", "onnxruntime", "Q and DQ disagree on the scale", func(s surgeon) { s.params(tensor.FromF32([]float32{9}), nil, rDQ) }, true},
	{"pair", "trt_int8", "Q and DQ disagree on the axis", func(s surgeon) { s.node(w1DQ).SetAttr(graph.Int("axis", 1)) }, true},
	{"zero-point-zero", "trt_int8", "an asymmetric activation", func(s surgeon) {
		s.params(nil, scalar(tensor.Int8, int8(3)), xQ, xDQ)
	}, true},
	{"signed", "trt_int8", "uint8", func(s surgeon) {
		s.params(nil, scalar(tensor.Uint8, uint8(0)), xQ, xDQ)
		s.Value(s.value("x_QuantizeLinear")).DType = tensor.Uint8
	}, true},
	{"rank-zero", "onnxruntime", "a scale of shape [1]", func(s surgeon) {
		s.params(f32(0.5), scalar(tensor.Uint8, uint8(3), 1), xQ, xDQ)
	}, true},
	{"rank-zero", "trt_int8", "a scale of shape [1] with an axis", func(s surgeon) {
		s.params(f32(0.5), scalar(tensor.Int8, int8(0), 1), xQ, xDQ)
		s.node(xQ).SetAttr(graph.Int("axis", 1))
		s.node(xDQ).SetAttr(graph.Int("axis", 1))
	}, true},
	{"per-tensor", "trt_int8", "an activation with a scale per channel", func(s surgeon) {
		s.params(f32(1, 2, 3, 4), scalar(tensor.Int8, int8(0), 4), xQ, xDQ)
		s.node(xQ).SetAttr(graph.Int("axis", 1))
		s.node(xDQ).SetAttr(graph.Int("axis", 1))
	}, true},
	{"axis", "trt_int8", "the axis of the input channels", func(s surgeon) {
		s.node(w1Q).SetAttr(graph.Int("axis", 1))
		s.node(w1DQ).SetAttr(graph.Int("axis", 1))
	}, true},
	{"axis", "onnxruntime", "fewer scales than channels", func(s surgeon) {
		s.params(f32(1, 2, 3), scalar(tensor.Int8, int8(0), 3), w1DQ)
	}, true},
	{"axis", "trt_int8", "an axis that does not exist", func(s surgeon) {
		s.node(w1Q).SetAttr(graph.Int("axis", 4))
		s.node(w1DQ).SetAttr(graph.Int("axis", 4))
	}, true},
	{"axis", "trt_int8", "none stated", func(s surgeon) {
		s.node(w1Q).DropAttr("axis")
		s.node(w1DQ).DropAttr("axis")
	}, true},
	{"inputs", "trt_int8", "a float weight at a quantized convolution", func(s surgeon) {
		s.set("conv1", 1, graphtest.Normal(1, 4, 4, 3, 3))
	}, true},
	{"inputs", "trt_int8", "a convolution without any pair", func(s surgeon) {
		s.set("conv1", 1, graphtest.Normal(1, 4, 4, 3, 3))
		s.read("conv1", 0, "x")
	}, false},
	{"inputs", "trt_int8", "a skip branch without pair", func(s surgeon) { s.read("add", 1, "r") }, false},
	{"inputs", "onnxruntime", "a float operand of an integer Add", func(s surgeon) { s.read("add", 1, "r") }, true},
	// without the plan: weights alone
	{"inputs", "onnxruntime", "a float activation at a quantized weight", func(s surgeon) { s.read("conv3", 0, "p") }, false},
	{"weight-form", "trt_int8", "an integer weight", func(s surgeon) {
		s.set(w1DQ, 0, tensor.New(tensor.Int8, 4, 4, 3, 3))
	}, true},
	{"weight-form", "onnxruntime", "a float weight with a Q", func(s surgeon) {
		w := s.AddConst("planted", graphtest.Normal(1, 4, 4, 3, 3))
		q, err := s.AddValue(graph.Value{Name: "planted_q", DType: tensor.Int8, Shape: graph.Static(4, 4, 3, 3)})
		require.NoError(s, err)
		dq := s.node(w1DQ)
		_, err = s.AddNode(graph.Node{Op: "QuantizeLinear", Attrs: slices.Clone(dq.Attrs), Inputs: []graph.ValueID{w, dq.Inputs[1], dq.Inputs[2]},
			Outputs: []graph.ValueID{q}})
		require.NoError(s, err)
		s.SetInput(dq.ID, 0, q)
	}, true},
	{"weight-form", "onnxruntime", "a uint8 weight of an int8 activation", func(s surgeon) {
		s.set(w1DQ, 0, tensor.New(tensor.Uint8, 4, 4, 3, 3))
		s.Value(s.value("x_QuantizeLinear")).DType = tensor.Int8
		s.params(nil, scalar(tensor.Int8, int8(3)), xQ, xDQ)
		s.params(nil, scalar(tensor.Uint8, uint8(128), 4), w1DQ)
	}, true},
	{"subsample", "openvino_int8", "a convolution of one element that skips elements which nobody else reads", func(s surgeon) {
		s.node("conv3").SetAttr(graph.Ints("strides", 2, 2))
	}, true},
	{"guard", "openvino_int8", "an average of integers that counts padding", func(s surgeon) {
		s.planted("AveragePool", []graph.Attr{graph.Ints("kernel_shape", 3, 3), graph.Ints("pads", 1, 1, 1, 1),
			graph.Int("count_include_pad", 1)}, "x_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "padding that is reshaped", func(s surgeon) {
		s.planted("Pad", []graph.Attr{graph.Ints("pads", 0, 0, 0, 1, 0, 0, 0, 0)}, "x_DequantizeLinear")
		s.planted("Flatten", nil, "planted")
	}, true},
	{"guard", "openvino_int8", "padding along one axis between pairs", func(s surgeon) {
		s.planted("Pad", []graph.Attr{graph.Ints("pads", 0, 0, 0, 1, 0, 0, 0, 0)}, "x_DequantizeLinear")
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a constant taken from what was joined", func(s surgeon) {
		s.planted("Concat", []graph.Attr{graph.Int("axis", 1)}, "x_DequantizeLinear", "x_DequantizeLinear")
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
		s.planted("Sub", nil, "planted_3", "scales")
	}, true},
	{"guard", "openvino_int8", "what was joined, rounded twice", func(s surgeon) {
		s.planted("Concat", []graph.Attr{graph.Int("axis", 1)}, "x_DequantizeLinear", "x_DequantizeLinear")
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
		s.planted("Identity", nil, "planted_3")
		s.planted("QuantizeLinear", nil, "planted_5", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "channels that were joined and rounded, spread", func(s surgeon) {
		s.planted("Concat", []graph.Attr{graph.Int("axis", 1)}, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 8, 16, 16)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
		s.planted("DepthToSpace", []graph.Attr{graph.Int("blocksize", 2)}, "planted_3")
	}, true},
	{"guard", "openvino_int8", "one row gathered of channels that were joined and rounded", func(s surgeon) {
		s.planted("Concat", []graph.Attr{graph.Int("axis", 1)}, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 8, 16, 16)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
		s.Value(s.value("planted_3")).Shape = graph.Static(2, 8, 16, 16)
		s.planted("Gather", []graph.Attr{graph.Int("axis", 2)}, "planted_3", "k")
		s.Value(s.value("planted_5")).Shape = graph.Static(2, 8, 16)
	}, true},
	{"guard", "openvino_int8", "nothing that is expanded for an output", func(s surgeon) {
		s.planted("Identity", nil, "x")
		s.Value(s.value("planted")).Shape = graph.Static(0, 4, 16, 16)
		s.planted("Expand", nil, "planted", s.Value(s.AddConst("four", tensor.FromI64([]int64{0, 4, 16, 16}, 4))).Name)
		s.Outputs = append(s.Outputs, s.value("planted_1"))
	}, true},
	{"guard", "openvino_int8", "a product of an open size that is computed twice", func(s surgeon) {
		s.planted("MatMul", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Shape{{N: -1}, {N: 1}, {N: 16}, {N: 16}}
		s.planted("Abs", nil, "planted")
		s.planted("MatMul", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "the same where one factor has a limit in front of its pair", func(s surgeon) {
		s.planted("MatMul", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Shape{{N: -1}, {N: 1}, {N: 16}, {N: 16}}
		s.planted("Abs", nil, "planted")
		s.planted("Relu", nil, "x")
		s.planted("QuantizeLinear", nil, "planted_3", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_5", "x_scale", "x_zero_point")
		s.planted("MatMul", nil, "planted_7", "w1_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "a sum of integers along several axes", func(s surgeon) {
		s.planted("ReduceSumSquare", []graph.Attr{graph.Ints("axes", 2, 3)}, "x_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "a mean of integers along the middle of three axes", func(s surgeon) {
		s.planted("Identity", nil, "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 4, 16)
		s.planted("ReduceMean", []graph.Attr{graph.Ints("axes", 1)}, "planted")
	}, true},
	{"guard", "openvino_int8", "the largest of channels that a constant multiplied", func(s surgeon) {
		factors := s.AddConst("factors", tensor.FromF32([]float32{1, 2, 3, 4}, 1, 4, 1))
		s.planted("Mul", nil, "x", s.Value(factors).Name)
		s.Value(s.value("planted")).Shape = graph.Static(2, 4, 16)
		s.planted("ReduceMax", []graph.Attr{graph.Ints("axes", 2)}, "planted")
	}, true},
	{"guard", "openvino_int8", "an average that counts padding of what was multiplied and added to", func(s surgeon) {
		half := s.Value(s.AddConst("half", tensor.FromF32([]float32{0.5}))).Name
		s.planted("Mul", nil, "x", half)
		s.planted("Add", nil, "planted", half)
		counts := []graph.Attr{graph.Ints("kernel_shape", 3, 3), graph.Ints("pads", 1, 1, 1, 1), graph.Int("count_include_pad", 1)}
		s.planted("AveragePool", counts, "planted_1")
	}, true},
	{"guard", "openvino_int8", "an activation of a ConvTranspose that is rounded", func(s surgeon) {
		s.planted("ConvTranspose", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.planted("Relu", nil, "planted")
		s.planted("QuantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "rows of a product that are joined", func(s surgeon) {
		s.planted("Concat", []graph.Attr{graph.Int("axis", 2)}, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 4, 16, 8)
		s.planted("MatMul", nil, "planted", "x_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "rows that are joined and then rounded, in front of a product", func(s surgeon) {
		middle := s.AddConst("middle", &tensor.Tensor{DType: tensor.Int8, Data: []int8{5}})
		s.planted("Concat", []graph.Attr{graph.Int("axis", 2)}, "x", "x")
		s.Value(s.value("planted")).Shape = graph.Static(2, 4, 16, 8)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", s.Value(middle).Name)
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "middle")
		s.planted("MatMul", nil, "planted_3", "x_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "a Pad of the only channel", func(s surgeon) {
		pads := s.AddConst("pads", tensor.FromI64([]int64{0, 0, 0, 0, 0, 2, 0, 0}, 8))
		s.planted("Identity", nil, "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 1, 16, 8)
		s.planted("Pad", nil, "planted", s.Value(pads).Name)
		s.Value(s.value("planted_1")).Shape = graph.Static(2, 3, 16, 8)
	}, true},
	{"guard", "openvino_int8", "a Celu of sums without a bias where a size is open", func(s surgeon) {
		s.planted("Conv", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Shape{{N: -1}, {N: 4}, {N: 16}, {N: 16}}
		s.planted("Celu", []graph.Attr{graph.Float("alpha", 2)}, "planted")
	}, true},
	{"guard", "openvino_int8", "what is joined to int8", func(s surgeon) {
		s.planted("Concat", []graph.Attr{graph.Int("axis", 1)}, "x", "x")
		s.planted("QuantizeLinear", nil, "planted", "x_scale", s.Value(s.AddConst("signed", tensor.New(tensor.Int8))).Name)
		s.Value(s.value("planted_1")).DType = tensor.Int8
	}, true},
	{"guard", "openvino_int8", "a largest number that is rounded at once", func(s surgeon) {
		s.planted("GlobalMaxPool", nil, "x")
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a limit of Clip between two integers", func(s surgeon) {
		lo := s.AddConst("lo", tensor.FromF32([]float32{-0.31234}))
		s.planted("Clip", nil, "x_DequantizeLinear", s.Value(lo).Name)
	}, true},
	{"guard", "openvino_int8", "one of what was turned around", func(s surgeon) {
		hi := s.AddConst("hi", tensor.FromF32([]float32{0.31234}))
		s.planted("Transpose", []graph.Attr{graph.Ints("perm", 0, 1, 3, 2)}, "x_DequantizeLinear")
		s.planted("Clip", nil, "planted", "", s.Value(hi).Name)
	}, true},
	{"guard", "openvino_int8", "channels that a constant multiplied where a size is open", func(s surgeon) {
		k := s.AddConst("factors", tensor.FromF32([]float32{1, 2, 3, 4}, 4, 1, 1))
		s.planted("Mul", nil, "x_DequantizeLinear", s.Value(k).Name)
		s.Value(s.value("planted")).Shape = graph.Shape{{N: -1}, {N: 4}, {N: 16}, {N: 16}}
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a constant and a rounded product of one column", func(s surgeon) {
		s.planted("MatMul", nil, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(1, 4, 16, 1)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
		s.planted("Sub", nil, "planted_3", "scales")
	}, true},
	{"guard", "openvino_int8", "a constant for each channel and a rounded product", func(s surgeon) {
		k := s.AddConst("factors", tensor.FromF32([]float32{1, 2, 3, 4}, 4, 1, 1))
		s.planted("MatMul", nil, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(1, 4, 16, 16)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
		s.planted("DequantizeLinear", nil, "planted_1", "x_scale", "x_zero_point")
		s.planted("Mul", nil, "planted_3", s.Value(k).Name)
	}, true},
	{"guard", "openvino_int8", "a convolution beside sizes that are an output", func(s surgeon) {
		s.planted("Shape", nil, "x_DequantizeLinear")
		s.planted("Gather", nil, "planted", "k")
		s.Outputs = append(s.Outputs, s.value("planted_1"))
		s.planted("Conv", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted_3")).Shape = graph.Shape{{N: -1}, {N: 4}, {N: 16}, {N: 16}}
		s.planted("Relu", nil, "planted_3")
		s.Value(s.value("planted_5")).Shape = s.Value(s.value("planted_3")).Shape
		s.planted("QuantizeLinear", nil, "planted_5", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a product of few rows without a bias", func(s surgeon) {
		s.planted("MatMul", nil, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(4, 16)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a bias and factors behind a product of few rows", func(s surgeon) {
		s.AddConst("k1", tensor.FromF32([]float32{1, -2, 3, 4}, 4))
		s.planted("MatMul", nil, "x_DequantizeLinear", "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(4, 4)
		s.planted("Add", nil, "planted", "k1")
		s.planted("Mul", nil, "k1", "planted_1")
		s.planted("QuantizeLinear", nil, "planted_3", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "the last of three axes of more samples than channels", func(s surgeon) {
		s.planted("Identity", nil, "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(9, 4, 16)
		s.planted("GlobalAveragePool", nil, "planted")
	}, true},
	{"guard", "openvino_int8", "a product of an open size that is repeated", func(s surgeon) {
		s.planted("MatMul", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Shape{{N: -1}, {N: 1}, {N: 16}, {N: 16}}
		s.planted("Expand", nil, "planted", s.Value(s.AddConst("four", tensor.FromI64([]int64{1, 4, 1, 1}, 4))).Name)
	}, true},
	{"guard", "openvino_int8", "a product of an open size, its sign turned for several", func(s surgeon) {
		s.planted("MatMul", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Shape{{N: -1}, {N: 1}, {N: 16}, {N: 16}}
		s.planted("Neg", nil, "planted")
		s.planted("Abs", nil, "planted_1")
		s.planted("Exp", nil, "planted_1")
	}, true},
	{"guard", "openvino_int8", "a second factor that is cut to whole numbers", func(s surgeon) {
		s.planted("Transpose", nil, "x_DequantizeLinear")
		s.planted("MatMul", nil, "x_DequantizeLinear", "planted")
		s.planted("Ceil", nil, "x_DequantizeLinear")
	}, true},
	{"guard", "openvino_int8", "an average that counts padding behind a normalization", func(s surgeon) {
		s.planted("InstanceNormalization", nil, "x_DequantizeLinear", "scales", "scales")
		s.planted("AveragePool", []graph.Attr{graph.Ints("kernel_shape", 3, 3), graph.Ints("pads", 1, 1, 1, 1),
			graph.Int("count_include_pad", 1)}, "planted")
	}, true},
	{"guard", "openvino_int8", "a normalization with negative factors", func(s surgeon) {
		s.AddConst("k1", tensor.FromF32([]float32{1, -2, 3, 4}, 4))
		s.planted("LayerNormalization", nil, "x", "k1")
		s.Value(s.value("planted")).Shape = graph.Static(9, 4)
		s.planted("QuantizeLinear", nil, "planted", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a pool of the columns of several samples", func(s surgeon) {
		s.planted("Conv", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 4, 16)
		s.planted("GlobalAveragePool", nil, "planted")
	}, true},
	{"guard", "openvino_int8", "a Pad behind a zero point that others read", func(s surgeon) {
		s.planted("Pad", []graph.Attr{graph.Ints("pads", 0, 0, 0, 1, 0, 0, 0, 0)}, "x_DequantizeLinear")
		s.planted("DequantizeLinear", nil, "x_QuantizeLinear", "x_scale", "x_zero_point")
	}, true},
	{"guard", "openvino_int8", "a Clip of a product in front of a Cast", func(s surgeon) {
		s.planted("Conv", nil, "x_DequantizeLinear", "w1_DequantizeLinear")
		s.planted("Clip", []graph.Attr{graph.Float("min", 0), graph.Float("max", 1)}, "planted")
		s.planted("Cast", []graph.Attr{graph.Int("to", 7)}, "planted_1")
	}, true},
	{"guard", "openvino_int8", "axes of one that are moved behind a reduction", func(s surgeon) {
		s.planted("ReduceMax", []graph.Attr{graph.Ints("axes", 2), graph.Int("keepdims", 0)}, "x_DequantizeLinear")
		s.Value(s.value("planted")).Shape = graph.Static(2, 1, 16)
		s.planted("Transpose", []graph.Attr{graph.Ints("perm", 0, 2, 1)}, "planted")
	}, true},
	{"weight-zero-point", "onnxruntime", "zero points that differ between channels", func(s surgeon) {
		s.params(nil, &tensor.Tensor{DType: tensor.Int8, Shape: []int{4}, Data: []int8{0, 0, 1, 0}}, w1DQ)
	}, true},
	{"float-bias", "trt_int8", "an int32 bias", func(s surgeon) {
		q := s.AddConst("bias", tensor.New(tensor.Int32, 4))
		v, err := s.AddValue(graph.Value{Name: "bias_dq", DType: tensor.Float32, Shape: graph.Static(4)})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "DequantizeLinear", Attrs: []graph.Attr{graph.Int("axis", 0)}, Inputs: []graph.ValueID{q,
			s.AddConst("planted", f32(1, 1, 1, 1)), s.AddConst("planted", tensor.New(tensor.Int32, 4))}, Outputs: []graph.ValueID{v}})
		require.NoError(s, err)
		s.SetInput(s.node("conv1").ID, 2, v)
	}, true},
	{"integer-bias", "onnxruntime", "a float bias", func(s surgeon) { s.set("conv1", 2, graphtest.Normal(1, 4)) }, true},
	{"integer-bias", "onnxruntime", "another scale than input * weight", func(s surgeon) { s.params(f32(1, 2, 3, 4), nil, b1DQ) }, true},
	{"integer-bias", "onnxruntime", "a saturated bias", func(s surgeon) {
		s.set(b1DQ, 0, scalar(tensor.Int32, int32(math.MaxInt32), 4))
	}, true},
	{"integer-bias", "onnxruntime", "an int8 bias", func(s surgeon) {
		s.set(b1DQ, 0, tensor.New(tensor.Int8, 4))
		s.params(nil, scalar(tensor.Int8, int8(0), 4), b1DQ)
	}, true},
	{"split-fusion", "onnxruntime", "a pair between convolution and Relu", func(s surgeon) {
		s.around("relu1", 0, 0.1, scalar(tensor.Uint8, uint8(128)))
	}, true},
	{"split-fusion", "trt_int8", "a pair between convolution and Relu", func(s surgeon) {
		s.around("relu1", 0, 0.1, scalar(tensor.Int8, int8(0)))
	}, true},
	{"placement", "trt_int8", "a pair in front of a pool", func(s surgeon) { s.around("pool", 0, 0.1, scalar(tensor.Int8, int8(0))) }, true},
	{"placement", "trt_int8", "a pair on the main branch", func(s surgeon) { s.around("add", 0, 0.1, scalar(tensor.Int8, int8(0))) }, true},
	{"placement", "trt_int8", "a dequantized graph output", func(s surgeon) {
		s.Outputs = append(s.Outputs, s.value("r_DequantizeLinear"))
	}, true},
	{"integer-output", "onnxruntime", "an output read as float too", func(s surgeon) {
		v, err := s.AddValue(graph.Value{Name: "planted", DType: tensor.Float32})
		require.NoError(s, err)
		_, err = s.AddNode(graph.Node{Op: "Exp", Inputs: []graph.ValueID{s.value("r")}, Outputs: []graph.ValueID{v}})
		require.NoError(s, err)
	}, true},
	{"integer-output", "onnxruntime", "an Add without a pair behind it", func(s surgeon) {
		s.read("pool", 0, "q")
		s.RemoveNode(s.node("q_DequantizeLinear_node").ID)
		s.RemoveNode(s.node("q_QuantizeLinear_node").ID)
	}, false},
	{"integer-output", "onnxruntime", "a float graph output", func(s surgeon) { s.Outputs = append(s.Outputs, s.value("r")) }, true},
	{"one-type", "onnxruntime", "uint8 in, int8 out", func(s surgeon) {
		s.params(nil, scalar(tensor.Int8, int8(-125)), rQ, rDQ)
		s.Value(s.value("r_QuantizeLinear")).DType = tensor.Int8
	}, true},
	{"passive", "onnxruntime", "a pool with another scale behind it", func(s surgeon) {
		s.params(tensor.FromF32([]float32{7}), nil, pQ, pDQ)
	}, true},
	{"fixed-scale", "qnn", "a Sigmoid with a measured scale", func(s surgeon) {
		s.params(tensor.FromF32([]float32{0.0039}), nil, yQ, yDQ)
	}, true},
	{"fixed-scale", "qnn", "a Sigmoid with another zero point", func(s surgeon) {
		s.params(nil, scalar(tensor.Uint8, uint8(1)), yQ, yDQ)
	}, true},
	{"types", "onnxruntime", "4-bit codes in opset 13", func(s surgeon) { s.set(w1DQ, 0, tensor.New(tensor.Int4, 4, 4, 3, 3)) }, true},
	{"types", "onnxruntime", "blocks in opset 13", func(s surgeon) { s.node(w1DQ).SetAttr(graph.Int("block_size", 2)) }, true},
	{"types", "onnxruntime", "powers of two as scales in opset 13", func(s surgeon) {
		s.params(tensor.New(tensor.Float8E8M0, 4), nil, w1DQ)
	}, true},
	{"types", "onnxruntime", "codes that are no codes", func(s surgeon) { s.set(w1DQ, 0, tensor.New(tensor.Float16, 4, 4, 3, 3)) }, true},
	{"scale-type", "onnxruntime", "powers of two without a type of the result", func(s surgeon) {
		s.params(tensor.New(tensor.Float8E8M0, 4), nil, w1DQ)
	}, true},
	{"scale-type", "onnxruntime", "float16", func(s surgeon) { s.params(tensor.New(tensor.Float16, 4), nil, w1DQ) }, true},
	{"blocks", "onnxruntime", "scales of blocks without block_size", func(s surgeon) {
		s.params(tensor.New(tensor.Float32, 4, 2, 3, 3), nil, w1DQ)
	}, true},
	{"blocks", "onnxruntime", "one scale too few", func(s surgeon) {
		s.params(tensor.New(tensor.Float32, 4, 1, 3, 3), nil, w1DQ)
		s.node(w1DQ).SetAttr(graph.Int("block_size", 2))
		s.node(w1DQ).SetAttr(graph.Int("axis", 1))
	}, true},
	{"blocks", "onnxruntime", "another rank", func(s surgeon) {
		s.params(tensor.New(tensor.Float32, 4, 2), nil, w1DQ)
		s.node(w1DQ).SetAttr(graph.Int("block_size", 2))
	}, true},
	{"packed", "onnxruntime", "a byte for each element of 4 bits", func(s surgeon) {
		s.set(w1DQ, 0, &tensor.Tensor{DType: tensor.Int4, Shape: []int{4, 4, 3, 3}, Data: make([]uint8, 144)})
	}, true},
	{"packed", "onnxruntime", "bits behind the last element", func(s surgeon) {
		s.params(nil, &tensor.Tensor{DType: tensor.Uint4, Shape: []int{3}, Data: []uint8{0x11, 0x21}}, w1DQ)
	}, true},
	{"parser-operators", "trt_int8", "an operator without importer", func(s surgeon) { s.planted("Det", nil, "x") }, true},
	{"parser-types", "trt_int8", "int16", func(s surgeon) {
		s.planted("Cast", []graph.Attr{graph.Int("to", int64(tensor.Int16))}, "x")
	}, true},
	{"parser-types", "trt_int8", "uint8 inside the model", func(s surgeon) {
		s.planted("Cast", []graph.Attr{graph.Int("to", int64(tensor.Uint8))}, "x")
	}, true},
	{"parser-attributes", "trt_int8", "a dilated pool", func(s surgeon) { s.node("pool").SetAttr(graph.Ints("dilations", 2, 2)) }, true},
	{"parser-attributes", "trt_int8", "indices of a pool", func(s surgeon) {
		v, err := s.AddValue(graph.Value{Name: "indices", DType: tensor.Int64})
		require.NoError(s, err)
		s.RemoveNode(s.node("pool").ID)
		_, err = s.AddNode(graph.Node{Name: "again", Op: "MaxPool", Attrs: []graph.Attr{graph.Ints("kernel_shape", 2, 2),
			graph.Ints("strides", 2, 2)}, Inputs: []graph.ValueID{s.value("q")}, Outputs: []graph.ValueID{s.value("p"), v}})
		require.NoError(s, err)
	}, true},
	{"parser-attributes", "trt_int8", "an antialiased Resize", func(s surgeon) {
		s.planted("Resize", []graph.Attr{graph.Int("antialias", 1)}, "x", "", "scales")
	}, true},
	{"parser-attributes", "trt_int8", "a cropping Resize", func(s surgeon) {
		s.planted("Resize", []graph.Attr{graph.Str("coordinate_transformation_mode", "tf_crop_and_resize")}, "x", "", "scales")
	}, true},
	{"parser-attributes", "trt_int8", "computed axes", func(s surgeon) { s.planted("ReduceSum", nil, "x", "r") }, true},
	{"parser-attributes", "trt_int8", "an unsorted TopK", func(s surgeon) {
		s.planted("TopK", []graph.Attr{graph.Int("sorted", 0)}, "x", "k")
	}, true},
	{"parser-blocks", "trt_int8", "blocks along two axes", func(s surgeon) {
		s.params(scalar(tensor.Float32, float32(1), 2, 2, 3, 3), scalar(tensor.Int8, int8(0), 2, 2, 3, 3), w1Q, w1DQ)
	}, true},
	{"parser-blocks", "trt_int8", "int4 with an odd last dimension", func(s surgeon) {
		s.Value(s.value("w1_QuantizeLinear")).DType = tensor.Int4
	}, true},
	{"strong-types", "trt11_int8", "fp16 added to float32", func(s surgeon) {
		s.planted("Add", nil, "x", "half")
	}, true},
	{"bf16", "onnxruntime", "a product in bfloat16", func(s surgeon) { s.planted("Mul", nil, "brain", "brain") }, true},
	{"float-zero", "onnxruntime", "a zero point of fp8", func(s surgeon) {
		s.params(nil, scalar(tensor.Float8E4M3FN, uint8(0x38), 4), w1DQ)
	}, true},
}
