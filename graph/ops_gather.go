package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

var gatherOps = []OpSpec{
	{Name: "Gather", Doc: "slices of x along an axis, by index", Since: 1, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferGather},
	{Name: "GatherElements", Doc: "elements of x along an axis, by index", Since: 11, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferGatherElements},
	{Name: "GatherND", Doc: "slices of x, by index tuples", Since: 11, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferGatherND},
	{Name: "Compress", Doc: "slices of x along an axis where condition holds", Since: 9, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketFloat}, Passive: always, Infer: inferCompress},
	scatter("Scatter", 9, "ScatterElements under its old name"),
	scatter("ScatterElements", 11, "x with elements along an axis replaced, by index"),
	scatter("ScatterND", 11, "x with slices replaced, by index tuples"),
	{Name: "Where", Doc: "x where condition holds, else y", Since: 9, Kind: KindMover, MinIn: 3,
		In: []Socket{SocketFloat, SocketData}, Infer: inferWhere},
}

func scatter(name string, since int64, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindMover, MinIn: 3,
		In: []Socket{SocketData, SocketIndex, SocketData}, Infer: inferSame}
}

func inferGather(c *InferCtx) error {
	x, idx := c.Shape(0), c.Shape(1)
	c.SetOut(0, c.DType(0), nil)
	if x == nil || idx == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	out := append(append(append(Shape{}, x[:axis]...), idx...), x[axis+1:]...)
	c.SetOut(0, c.DType(0), out)
	list, known := c.Ints(1)
	if !known {
		return nil
	}
	if n := x[axis]; n.Known() {
		for _, i := range list {
			if i < -n.N || i >= n.N {
				return fmt.Errorf("index %d is out of range for axis %d of %s", i, axis, x)
			}
		}
	}
	if elems, ok := c.Elems(0); ok && len(x) == 1 && len(idx) <= 1 {
		picked := make([]Elem, len(list))
		for k, i := range list {
			if i < 0 {
				i += int64(len(elems))
			}
			if i < 0 || i >= int64(len(elems)) {
				return nil
			}
			picked[k] = elems[i]
		}
		c.setInts(0, picked)
	}
	return nil
}

func inferGatherElements(c *InferCtx) error {
	x, idx := c.Shape(0), c.Shape(1)
	if x != nil && idx != nil && len(x) != len(idx) {
		return fmt.Errorf("indices %s and data %s differ in rank", idx, x)
	}
	if x != nil {
		if _, err := normAxis(c.Node.Axis(), len(x)); err != nil {
			return err
		}
	}
	c.SetOut(0, c.DType(0), idx)
	return nil
}

func inferGatherND(c *InferCtx) error {
	x, idx := c.Shape(0), c.Shape(1)
	c.SetOut(0, c.DType(0), nil)
	if x == nil || len(idx) == 0 || !idx[len(idx)-1].Known() {
		return nil
	}
	batch, tuple := c.Node.AttrInt("batch_dims", 0), idx[len(idx)-1].N
	if batch < 0 || batch >= int64(len(idx)) || tuple < 1 || tuple > int64(len(x))-batch {
		return fmt.Errorf("indices %s with batch_dims %d do not fit data %s", idx, batch, x)
	}
	c.SetOut(0, c.DType(0), append(append(Shape{}, idx[:len(idx)-1]...), x[batch+tuple:]...))
	return nil
}

func inferCompress(c *InferCtx) error {
	x := c.Shape(0)
	if c.Node.Attr("axis") == nil {
		c.SetOut(0, c.DType(0), unknownShape(1))
		return nil
	}
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	axis, err := normAxis(c.Node.Axis(), len(x))
	if err != nil {
		return err
	}
	out := append(Shape{}, x...)
	out[axis] = unknownDim
	c.SetOut(0, c.DType(0), out)
	return nil
}

func inferWhere(c *InferCtx) error {
	s, err := Broadcast(c.Shape(0), c.Shape(1), c.Shape(2))
	if err != nil {
		return err
	}
	if a, b := c.DType(1), c.DType(2); a != b && a != tensor.Undefined && b != tensor.Undefined {
		return fmt.Errorf("inputs have types %s and %s", a, b)
	}
	c.SetOut(0, c.DType(1), s)
	cond, ok1 := c.Elems(0)
	x, ok2 := c.Elems(1)
	y, ok3 := c.Elems(2)
	if !ok1 || !ok2 || !ok3 || len(s) > 1 || s == nil {
		return nil
	}
	n := max(len(cond), len(x), len(y))
	out := make([]Elem, n)
	for _, l := range []int{len(cond), len(x), len(y)} {
		if l != n && l != 1 {
			return nil
		}
	}
	for i := range out {
		k := cond[i%len(cond)]
		a, b := x[i%len(x)], y[i%len(y)]
		switch {
		case k.Known && k.N != 0:
			out[i] = a
		case k.Known || a == b:
			out[i] = b
		}
	}
	c.setInts(0, out)
	return nil
}
