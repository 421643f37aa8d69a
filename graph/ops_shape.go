package graph

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
)

var (
	indexOnly = []Socket{SocketIndex}

	shapeOps = []OpSpec{
		{Name: "Shape", Doc: "the shape of x", Since: 1, Kind: KindShape, MinIn: 1, Out: indexOnly, Infer: inferShapeOp},
		{Name: "Size", Doc: "the number of elements of x", Since: 1, Kind: KindShape, MinIn: 1, Out: indexOnly, Infer: inferSize},
		{Name: "ConstantOfShape", Doc: "a constant tensor of a shape", Since: 9, Kind: KindShape, MinIn: 1, In: indexOnly,
			Out: indexOnly, Infer: inferConstantOfShape},
		{Name: "Range", Doc: "start, start+delta, ... before limit", Since: 11, Kind: KindShape, MinIn: 3, In: indexOnly,
			Out: indexOnly, Infer: inferRange},
		{Name: "NonZero", Doc: "indices of elements that are not 0", Since: 9, Kind: KindShape, MinIn: 1, Out: indexOnly,
			Infer: inferNonZero},
		{Name: "TopK", Doc: "largest or smallest elements and their indices", Since: 1, Kind: KindShape, MinIn: 1,
			In: []Socket{SocketData, SocketIndex}, Out: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferTopK},
		{Name: "OneHot", Doc: "on value at an index, off value elsewhere", Since: 9, Kind: KindShape, MinIn: 3,
			In: []Socket{SocketIndex, SocketIndex, SocketFloat}, Out: []Socket{SocketFloat}, Infer: inferOneHot},
		{Name: "EyeLike", Doc: "1 on a diagonal of a matrix", Since: 9, Kind: KindShape, MinIn: 1, Out: []Socket{SocketFloat},
			Infer: inferEyeLike},
		{Name: "NonMaxSuppression", Doc: "indices of boxes kept", Since: 10, Kind: KindShape, MinIn: 2,
			In:  []Socket{SocketData, SocketFloat, SocketIndex, SocketFloat, SocketFloat},
			Out: indexOnly, Infer: inferNonMaxSuppression},
		{Name: "Unique", Doc: "distinct elements, their first indices, inverse indices and counts", Since: 11, Kind: KindShape,
			MinIn: 1, Out: []Socket{SocketData, SocketIndex}, Infer: inferUnique},
	}
)

func inferShapeOp(c *InferCtx) error {
	x := c.Shape(0)
	if x == nil {
		c.SetOut(0, tensor.Int64, unknownShape(1))
		return nil
	}
	start, end := c.Node.AttrInt("start", 0), c.Node.AttrInt("end", math.MaxInt64)
	first, count := ClampSlice(int64(len(x)), start, end, 1)
	elems := make([]Elem, count)
	for i := range elems {
		elems[i] = x[int(first)+i].elem()
	}
	c.SetOut(0, tensor.Int64, Static(len(elems)))
	c.setInts(0, elems)
	return nil
}

func inferSize(c *InferCtx) error {
	c.SetOut(0, tensor.Int64, Shape{})
	if x := c.Shape(0); x != nil {
		n := known(1)
		for _, d := range x {
			n = mulElems(n, d.elem())
		}
		c.setInts(0, []Elem{n})
	}
	return nil
}

func inferConstantOfShape(c *InferCtx) error {
	d := tensor.Float32
	value := known(0)
	if a := c.Node.Attr("value"); a != nil && a.T != nil {
		d = a.T.DType
		value = Elem{}
		if e, ok := elemsOf(a.T); ok && len(e) == 1 {
			value = e[0]
		}
	}
	c.SetOut(0, d, nil)
	elems, ok := c.Elems(0)
	if !ok {
		return nil
	}
	for _, e := range elems {
		if e.Known && e.N < 0 {
			return fmt.Errorf("shape %s has a negative dimension", elemsString(elems))
		}
	}
	s := shapeOf(elems)
	c.SetOut(0, d, s)
	if n, err := s.Elements(); err == nil && n >= 0 && n <= maxPartial && value.Known {
		out := make([]Elem, n)
		for i := range out {
			out[i] = value
		}
		c.setInts(0, out)
	}
	return nil
}

func inferRange(c *InferCtx) error {
	c.SetOut(0, c.DType(0), unknownShape(1))
	if c.DType(0).IsFloat() {
		return inferFloatRange(c)
	}
	var e [3]Elem
	for i := range e {
		list, ok := c.Elems(i)
		if !ok || len(list) != 1 {
			return nil
		}
		e[i] = list[0]
	}
	start, limit, delta := e[0], e[1], e[2]
	if span := subElems(limit, start); delta == known(1) && span.Symbol != "" && span.nonNegative() {
		c.SetOut(0, c.DType(0), Shape{span.dim()})
		return nil
	}
	if !start.Known || !limit.Known || !delta.Known {
		return nil
	}
	if delta.N == 0 {
		return fmt.Errorf("delta is 0")
	}
	count := max(0, math.Ceil((float64(limit.N)-float64(start.N))/float64(delta.N)))
	if count > MaxElements {
		return fmt.Errorf("start %d, limit %d and delta %d make a range of %g elements", start.N, limit.N, delta.N, count)
	}
	n := int64(count)
	c.SetOut(0, c.DType(0), Shape{{N: n}})
	if n <= maxPartial {
		out := make([]Elem, n)
		for i := range out {
			out[i] = known(start.N + int64(i)*delta.N)
		}
		c.setInts(0, out)
	}
	return nil
}

// inferFloatRange: the number of elements is computed in float64 for all floating types.
func inferFloatRange(c *InferCtx) error {
	var v [3]float64
	for i := range v {
		t := c.Const(i)
		switch {
		case t != nil && t.DType == tensor.Float32 && t.Len() == 1:
			v[i] = float64(t.F32()[0])
		case t != nil && t.DType == tensor.Float64 && t.Len() == 1:
			v[i] = tensor.Of[float64](t)[0]
		default:
			return nil
		}
	}
	n := math.Ceil((v[1] - v[0]) / v[2])
	if math.IsNaN(n) || n > MaxElements {
		return fmt.Errorf("start %g, limit %g and delta %g make no range", v[0], v[1], v[2])
	}
	c.SetOut(0, c.DType(0), Shape{{N: int64(max(0, n))}})
	return nil
}

func inferNonZero(c *InferCtx) error {
	out := unknownShape(2)
	if x := c.Shape(0); x != nil {
		out[0] = dimOf(len(x))
	}
	c.SetOut(0, tensor.Int64, out)
	return nil
}

// inferTopK: k is an attribute before opset 10.
func inferTopK(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	c.SetOut(1, tensor.Int64, nil)
	if x == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	k := Elem{}
	if c.Has(1) {
		if list, ok := c.Elems(1); ok && len(list) == 1 {
			k = list[0]
		}
	} else if a := c.Node.Attr("k"); a != nil {
		k = known(a.I)
	} else {
		return fmt.Errorf("k is missing")
	}
	if k.Known && (k.N < 0 || x[axis].Known() && k.N > x[axis].N) {
		return fmt.Errorf("k %d is out of range for axis %d of %s", k.N, axis, x)
	}
	out := append(Shape{}, x...)
	out[axis] = k.dim()
	c.SetOut(0, c.DType(0), out)
	c.SetOut(1, tensor.Int64, out)
	return nil
}

func inferOneHot(c *InferCtx) error {
	idx := c.Shape(0)
	c.SetOut(0, c.DType(2), nil)
	if idx == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(idx)+1)
	if err != nil {
		return err
	}
	depth := Elem{}
	if list, ok := c.Elems(1); ok && len(list) == 1 {
		depth = list[0]
	}
	if depth.Known && depth.N < 0 {
		return fmt.Errorf("depth %d", depth.N)
	}
	c.SetOut(0, c.DType(2), append(append(append(Shape{}, idx[:axis]...), depth.dim()), idx[axis:]...))
	return nil
}

func inferEyeLike(c *InferCtx) error {
	d, err := dtypeAttr(c.Node, "dtype", c.DType(0))
	if err != nil {
		return err
	}
	if x := c.Shape(0); x != nil && len(x) != 2 {
		return fmt.Errorf("input %s is no matrix", x)
	}
	c.SetOut(0, d, c.Shape(0))
	return nil
}

func inferNonMaxSuppression(c *InferCtx) error {
	boxes, scores := c.Shape(0), c.Shape(1)
	if boxes != nil && (len(boxes) != 3 || boxes[2].Known() && boxes[2].N != 4) || scores != nil && len(scores) != 3 {
		return fmt.Errorf("boxes %s and scores %s", boxes, scores)
	}
	c.SetOut(0, tensor.Int64, Shape{unknownDim, {N: 3}})
	return nil
}

func inferUnique(c *InferCtx) error {
	out := unknownShape(1)
	if c.Node.Attr("axis") != nil {
		out = nil
		if x := c.Shape(0); x != nil {
			axis, err := normAxis(c.Node.Axis(), len(x))
			if err != nil {
				return err
			}
			out = append(Shape{}, x...)
			out[axis] = unknownDim
		}
	}
	c.SetOut(0, c.DType(0), out)
	for i := 1; i < 4; i++ {
		c.SetOut(i, tensor.Int64, unknownShape(1))
	}
	return nil
}
