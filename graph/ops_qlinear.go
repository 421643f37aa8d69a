package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

// Operators over integers that carry scale and zero point of each tensor as inputs.
var qlinearOps = []OpSpec{
	{Name: "QLinearConv", Doc: "Conv of integers, requantized", Since: 10, Kind: KindComputing, MinIn: 8,
		In:    []Socket{SocketData, SocketFloat, SocketFloat, SocketData, SocketFloat, SocketFloat, SocketFloat, SocketFloat, SocketData},
		Infer: func(c *InferCtx) error { return conv(c, 0, 3, 8, c.DType(7)) },
		MACs:  func(c *InferCtx) Shape { return convMACsOf(c, 3) }},
	{Name: "ConvInteger", Doc: "Conv of 8-bit integers in int32", Since: 10, Kind: KindComputing, MinIn: 2,
		In:    []Socket{SocketData, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return conv(c, 0, 1, -1, tensor.Int32) }, MACs: convMACs},
	{Name: "QLinearMatMul", Doc: "MatMul of integers, requantized", Since: 10, Kind: KindComputing, MinIn: 8,
		In:    []Socket{SocketData, SocketFloat, SocketFloat, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error { return matmul(c, 0, 3, c.DType(7)) },
		MACs:  func(c *InferCtx) Shape { return matmulMACs(c, 0, 3) }},
	qlinearBinary("QLinearAdd", "Add of integers, requantized"),
	qlinearBinary("QLinearMul", "Mul of integers, requantized"),
	qlinearUnary(KindActivation, "QLinearSigmoid", "Sigmoid of integers, requantized", inferSame),
	qlinearUnary(KindActivation, "QLinearLeakyRelu", "LeakyRelu of integers, requantized", inferSame),
	qlinearUnary(KindSoftmax, "QLinearSoftmax", "Softmax of integers, requantized", inferSame),
	qlinearUnary(KindPool, "QLinearAveragePool", "AveragePool of integers, requantized", channelsLastToo(inferPool)),
	qlinearUnary(KindPool, "QLinearGlobalAveragePool", "GlobalAveragePool of integers, requantized", channelsLastToo(inferGlobalPool)),
	microsoft(OpSpec{Name: "QLinearConcat", Doc: "Concat of integers, requantized", Since: 1, Kind: KindMover,
		MinIn: 5, In: []Socket{SocketFloat}, Infer: inferQLinearConcat}),
	microsoft(OpSpec{Name: "QLinearWhere", Doc: "Where of integers, requantized", Since: 1, Kind: KindOther, MinIn: 9,
		In: []Socket{SocketFloat, SocketData, SocketFloat, SocketFloat, SocketData, SocketFloat}, Infer: inferQLinearWhere}),
	microsoft(OpSpec{Name: "QGemm", Doc: "Gemm of integers, requantized if the output has a scale", Since: 1,
		Kind: KindComputing, MinIn: 6,
		In:    []Socket{SocketData, SocketFloat, SocketFloat, SocketData, SocketFloat, SocketFloat, SocketData, SocketFloat},
		Infer: inferQGemm, MACs: func(c *InferCtx) Shape { return gemmMACs(qgemmCtx(c)) }}),
}

func qlinearBinary(name, doc string) OpSpec {
	return OpSpec{Name: name, Domain: "com.microsoft", Doc: doc, Since: 1, Kind: KindElementwise, MinIn: 7,
		In: []Socket{SocketData, SocketFloat, SocketFloat, SocketData, SocketFloat},
		Infer: func(c *InferCtx) error {
			s, err := Broadcast(c.Shape(0), c.Shape(3))
			c.SetOut(0, c.DType(0), s)
			return err
		}}
}

func qlinearUnary(kind Kind, name, doc string, infer func(*InferCtx) error) OpSpec {
	return OpSpec{Name: name, Domain: "com.microsoft", Doc: doc, Since: 1, Kind: kind, MinIn: 4,
		In: []Socket{SocketData, SocketFloat}, Infer: infer}
}

// channelsLastToo makes infer serve attribute channels_last, with which x is [N, spatial..., C].
func channelsLastToo(infer func(*InferCtx) error) func(*InferCtx) error {
	return func(c *InferCtx) error {
		x := c.Shape(0)
		if c.Node.AttrInt("channels_last", 0) == 0 || len(x) < 3 {
			return infer(c)
		}
		inner := *c
		inner.in = append([]InferInput(nil), c.in...)
		inner.in[0].Shape = append(Shape{x[0], x[len(x)-1]}, x[1:len(x)-1]...)
		if err := infer(&inner); err != nil {
			return err
		}
		out := c.Out(0)
		c.SetOut(0, c.DType(0), append(append(Shape{out[0]}, out[2:]...), out[1]))
		return nil
	}
}

// inferQLinearConcat: inputs are y's scale and zero point, then tensor, scale and zero point of each part.
func inferQLinearConcat(c *InferCtx) error {
	if c.NumIn()%3 != 2 {
		return fmt.Errorf("%d inputs, not 2 and 3 per part", c.NumIn())
	}
	inner := *c
	inner.in = nil
	for i := 2; i < len(c.in); i += 3 {
		inner.in = append(inner.in, c.in[i])
	}
	return inferConcat(&inner)
}

// inferQLinearWhere: inputs are condition, then tensor, scale and zero point of x and y.
func inferQLinearWhere(c *InferCtx) error {
	s, err := Broadcast(c.Shape(0), c.Shape(1), c.Shape(4))
	c.SetOut(0, c.DType(1), s)
	return err
}

// qgemmCtx shows inputs A, B and C as those of a Gemm.
func qgemmCtx(c *InferCtx) *InferCtx {
	inner := *c
	inner.in = []InferInput{c.in[0], c.in[3], {}}
	if c.Has(6) {
		inner.in[2] = c.in[6]
	}
	return &inner
}

func inferQGemm(c *InferCtx) error {
	inner := qgemmCtx(c)
	if err := inferGemm(inner); err != nil {
		return err
	}
	d := tensor.Float32
	if c.Has(8) {
		d = c.DType(8)
	}
	c.SetOut(0, d, c.Out(0))
	return nil
}
