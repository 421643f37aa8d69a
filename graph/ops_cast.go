package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var castOps = []OpSpec{
	{Name: "Cast", Doc: "x in another element type", Since: 1, Kind: KindOther, MinIn: 1, Infer: inferCast},
	{Name: "CastLike", Doc: "x in the element type of another tensor", Since: 15, Kind: KindOther, MinIn: 2,
		In: []Socket{SocketData, SocketFloat}, Infer: inferCastLike},
	{Name: "Bernoulli", Doc: "1 with probability x", Since: 15, Kind: KindOther, MinIn: 1, Out: []Socket{SocketFloat},
		Infer: inferDTypeAttr},
	{Name: "RandomNormalLike", Doc: "normally distributed, shaped like x", Since: 1, Kind: KindOther, MinIn: 1,
		Out: []Socket{SocketFloat}, Infer: inferDTypeAttr},
	{Name: "RandomUniformLike", Doc: "uniformly distributed, shaped like x", Since: 1, Kind: KindOther, MinIn: 1,
		Out: []Socket{SocketFloat}, Infer: inferDTypeAttr},
	{Name: "RandomNormal", Doc: "normally distributed", Since: 1, Kind: KindOther, Out: []Socket{SocketFloat}, Infer: inferRandom},
	{Name: "RandomUniform", Doc: "uniformly distributed", Since: 1, Kind: KindOther, Out: []Socket{SocketFloat}, Infer: inferRandom},
	{Name: "Constant", Doc: "a constant", Since: 1, Kind: KindOther, Infer: inferConstant},
}

func inferCast(c *InferCtx) error {
	if name := c.Node.AttrStr("to", ""); name != "" { // before opset 6 the name of the type
		d, err := castName(name)
		if err != nil {
			return err
		}
		return castTo(c, d)
	}
	d, err := dtypeAttr(c.Node, "to", tensor.Undefined)
	if err != nil || d == tensor.Undefined {
		return fmt.Errorf("attribute to is %d", c.Node.AttrInt("to", 0))
	}
	return castTo(c, d)
}

func castName(name string) (tensor.DType, error) {
	names := [...]string{"FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE",
		"UINT32", "UINT64"}
	for i, s := range names {
		if s == name {
			return tensor.DType(i + 1), nil
		}
	}
	return 0, fmt.Errorf("attribute to is %q", name)
}

func inferCastLike(c *InferCtx) error { return castTo(c, c.DType(1)) }

// castTo passes whole numbers on where the target holds them; symbols are dimensions.
func castTo(c *InferCtx, d tensor.DType) error {
	c.SetOut(0, d, c.Shape(0))
	elems, ok := c.Elems(0)
	if !ok || d != tensor.Int64 && d != tensor.Int32 && d != tensor.Float32 && d != tensor.Bool {
		return nil
	}
	out := append([]Elem(nil), elems...)
	for i, e := range out {
		if d == tensor.Bool {
			out[i] = notElem(notElem(e))
		} else if e.Known && (d == tensor.Int32 && e.N != int64(int32(e.N)) || d == tensor.Float32 && inexact(e)) {
			out[i] = Elem{}
		}
	}
	c.setInts(0, out)
	return nil
}

// inferDTypeAttr: the type of x, in the element type of attribute dtype if it is set.
func inferDTypeAttr(c *InferCtx) error {
	d, err := dtypeAttr(c.Node, "dtype", c.DType(0))
	c.SetOut(0, d, c.Shape(0))
	return err
}

func inferRandom(c *InferCtx) error {
	s := Shape{}
	for _, n := range c.Node.AttrInts("shape") {
		if n < 0 {
			return fmt.Errorf("shape %v has a negative dimension", c.Node.AttrInts("shape"))
		}
		s = append(s, Dim{N: n})
	}
	d, err := dtypeAttr(c.Node, "dtype", tensor.Float32)
	c.SetOut(0, d, s)
	return err
}

// ConstantValue returns the tensor of a Constant node. Sparse tensors are an error.
func ConstantValue(n *Node) (*tensor.Tensor, error) {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		switch {
		case a.Name == "value" && a.T != nil:
			return a.T, nil
		case a.Name == "value_int" && a.Kind == AttrInt:
			return tensor.FromI64([]int64{a.I}), nil
		case a.Name == "value_ints" && a.Kind == AttrInts:
			return tensor.FromI64(a.Ints, len(a.Ints)), nil
		case a.Name == "value_float" && a.Kind == AttrFloat:
			return tensor.FromF32([]float32{a.F}), nil
		case a.Name == "value_floats" && a.Kind == AttrFloats:
			return tensor.FromF32(a.Floats, len(a.Floats)), nil
		case a.Name == "value_string" && a.Kind == AttrString:
			return &tensor.Tensor{DType: tensor.String, Shape: []int{}, Data: []string{a.S}}, nil
		case a.Name == "value_strings" && a.Kind == AttrStrings:
			return &tensor.Tensor{DType: tensor.String, Shape: []int{len(a.Strings)}, Data: a.Strings}, nil
		}
	}
	return nil, fmt.Errorf("constant has no value that can be read")
}

func inferConstant(c *InferCtx) error {
	t, err := ConstantValue(c.Node)
	if err == nil {
		c.setTensor(0, t)
	}
	return err
}
