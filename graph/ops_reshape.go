package graph

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph/tensor"
)

var reshapeOps = []OpSpec{
	{Name: "Reshape", Doc: "the same elements in another shape", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferReshape},
	{Name: "Flatten", Doc: "a matrix: axes before axis, axes from axis on", Since: 1, Kind: KindMover, MinIn: 1, Passive: always,
		Infer: inferFlatten},
	{Name: "Squeeze", Doc: "axes of size 1 removed", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferSqueeze},
	{Name: "Unsqueeze", Doc: "axes of size 1 inserted", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferUnsqueeze},
	{Name: "Transpose", Doc: "axes permuted", Since: 1, Kind: KindMover, MinIn: 1, Passive: always, Infer: inferTranspose},
	{Name: "Identity", Doc: "x", Since: 1, Kind: KindMover, MinIn: 1, Passive: always, Infer: inferSameElems},
	{Name: "Dropout", Doc: "x at inference, and a mask", Since: 1, Kind: KindMover, MinIn: 1,
		In: []Socket{SocketData, SocketFloat}, Out: []Socket{SocketData, SocketFloat}, Passive: always, Infer: inferDropout},
	{Name: "Expand", Doc: "x broadcast to a shape", Since: 8, Kind: KindMover, MinIn: 2,
		In: []Socket{SocketData, SocketIndex}, Passive: always, Infer: inferExpand},
}

// inferReshape: 0 copies a dimension of the input unless allowzero is set, -1 is what remains.
func inferReshape(c *InferCtx) error {
	x := c.Shape(0)
	want, ok := c.axesInput(1, "shape", 5)
	if !ok {
		c.SetOut(0, c.DType(0), nil)
		return nil
	}
	out, slot := make(Shape, len(want)), -1
	total, rest := known(1), known(1)
	for i, d := range x {
		total = mulElems(total, placeholder(d, i))
	}
	unknown := 0
	for i, e := range want {
		switch {
		case e.Known && e.N == 0 && c.Node.AttrInt("allowzero", 0) == 0:
			out[i] = unknownDim
			if x != nil {
				if i >= len(x) {
					return fmt.Errorf("shape %s copies dimension %d of %s", elemsString(want), i, x)
				}
				out[i] = x[i]
			}
			rest = mulElems(rest, placeholder(out[i], i))
		case e.Known && e.N == -1:
			if slot >= 0 {
				return fmt.Errorf("shape %s has -1 twice", elemsString(want))
			}
			slot, out[i] = i, unknownDim
		case e.Known && e.N < -1:
			return fmt.Errorf("shape %s has a negative dimension", elemsString(want))
		default:
			out[i] = e.dim()
			if !e.Known && e.Symbol == "" {
				unknown++
				continue
			}
			rest = mulElems(rest, e)
		}
	}
	if unknown == 1 && slot < 0 {
		for i, e := range want {
			if !e.Known && e.Symbol == "" {
				slot = i
			}
		}
		unknown = 0
	}
	if err := fillSlot(x, out, slot, unknown, total, rest); err != nil {
		return err
	}
	c.SetOut(0, c.DType(0), out)
	c.passElems()
	return nil
}

// fillSlot computes the dimension at slot (-1: none) of out, and checks that the number of elements stays.
func fillSlot(x, out Shape, slot, unknown int, total, rest Elem) error {
	if x == nil || unknown > 0 {
		return nil
	}
	if slot < 0 {
		if total.Known && rest.Known && total.N != rest.N {
			return fmt.Errorf("%d elements do not fit shape %s", total.N, out)
		}
		return nil
	}
	if total.Known && rest.Known && (rest.N == 0 && total.N != 0 || rest.N != 0 && total.N%rest.N != 0) {
		return fmt.Errorf("%d elements do not fit shape %s", total.N, out)
	}
	if e := divElems(total, rest); e.Known || e.Symbol != "" && !strings.Contains(e.Symbol, "?") {
		out[slot] = e.dim()
	} else if total.Known && total.N == 0 {
		out[slot] = Dim{N: 0}
	}
	return nil
}

// placeholder is d as an element; a dimension without symbol gets one that stands for axis i of the input.
func placeholder(d Dim, i int) Elem {
	e := d.elem()
	if !e.Known && e.Symbol == "" {
		e.Symbol = fmt.Sprintf("?%d", i)
	}
	return e
}

// axesInput returns the integers that are input i from opset `from` on and attribute attr before; false if they are absent or
// not even their number is known.
func (c *InferCtx) axesInput(i int, attr string, from int64) ([]Elem, bool) {
	if c.Has(i) && (c.Opset >= from || c.Opset == 0) {
		return c.Elems(i)
	}
	list := c.Node.AttrInts(attr)
	elems := make([]Elem, len(list))
	for k, v := range list {
		elems[k] = known(v)
	}
	return elems, list != nil
}

// knownInts returns the numbers if all are known.
func knownInts(elems []Elem) ([]int64, bool) {
	out := make([]int64, len(elems))
	for i, e := range elems {
		if !e.Known {
			return nil, false
		}
		out[i] = e.N
	}
	return out, true
}

// shapeOf makes dimensions of elements.
func shapeOf(elems []Elem) Shape {
	s := make(Shape, len(elems))
	for i, e := range elems {
		s[i] = e.dim()
	}
	return s
}

func elemsString(elems []Elem) string {
	parts := make([]string, len(elems))
	for i, e := range elems {
		parts[i] = e.Symbol
		if e.Known {
			parts[i] = fmt.Sprint(e.N)
		} else if e.Symbol == "" {
			parts[i] = "?"
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func inferFlatten(c *InferCtx) error {
	x := c.Shape(0)
	if x == nil {
		c.SetOut(0, c.DType(0), unknownShape(2))
		return nil
	}
	axis, ok := Axis(c.Node.Axis(), len(x))
	if !ok && axis != len(x) {
		return fmt.Errorf("axis %d is out of range for %s", c.Node.Axis(), x)
	}
	head, tail := known(1), known(1)
	for _, d := range x[:axis] {
		head = mulElems(head, d.elem())
	}
	for _, d := range x[axis:] {
		tail = mulElems(tail, d.elem())
	}
	c.SetOut(0, c.DType(0), Shape{head.dim(), tail.dim()})
	return nil
}

func inferSqueeze(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	c.passElems()
	if x == nil {
		return nil
	}
	given, ok := c.axesInput(1, "axes", 13)
	gone := make([]bool, len(x))
	if !ok && !c.Has(1) {
		for i, d := range x {
			if !d.Known() {
				return nil
			}
			gone[i] = d.N == 1
		}
	} else {
		list, all := knownInts(given)
		if !ok || !all {
			return nil
		}
		axes, err := normAxes(list, len(x))
		if err != nil {
			return err
		}
		for _, a := range axes {
			if x[a].Known() && x[a].N != 1 {
				return fmt.Errorf("axis %d of %s is not 1", a, x)
			}
			gone[a] = true
		}
	}
	out := Shape{}
	for i, d := range x {
		if !gone[i] {
			out = append(out, d)
		}
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

func inferUnsqueeze(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	c.passElems()
	given, ok := c.axesInput(1, "axes", 13)
	if x == nil || !ok {
		return nil
	}
	list, all := knownInts(given)
	if !all {
		c.SetOut(0, c.DType(0), unknownShape(len(x)+len(given)))
		return nil
	}
	axes, err := normAxes(list, len(x)+len(list))
	if err != nil {
		return err
	}
	out := make(Shape, 0, len(x)+len(list))
	for rest := x; len(out) < cap(out); {
		if slices.Contains(axes, len(out)) {
			out = append(out, Dim{N: 1})
			continue
		}
		out, rest = append(out, rest[0]), rest[1:]
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// TransposePerm returns the permutation of a Transpose of the given rank: output axis i is input axis perm[i]. The default
// reverses.
func TransposePerm(n *Node, rank int) ([]int, error) {
	list := n.AttrInts("perm")
	if list == nil {
		perm := make([]int, rank)
		for i := range perm {
			perm[i] = rank - 1 - i
		}
		return perm, nil
	}
	perm, err := normAxes(list, rank)
	if err != nil || len(perm) != rank || slices.ContainsFunc(list, func(a int64) bool { return a < 0 }) {
		return nil, fmt.Errorf("perm %v is no permutation of %d axes", list, rank)
	}
	return perm, nil
}

func inferTranspose(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	perm, err := TransposePerm(c.Node, len(x))
	if err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, p := range perm {
		out[i] = x[p]
	}
	c.SetOut(0, c.DType(0), out)
	if elems, ok := c.Elems(0); ok {
		from := x.strides()
		stride := slices.Clone(from)
		for i := range stride {
			stride[i] = from[perm[i]]
		}
		c.setInts(0, viewElems(elems, out, stride, 0))
	}
	return nil
}

func inferDropout(c *InferCtx) error {
	c.SetOut(0, c.DType(0), c.Shape(0))
	mask := tensor.Bool
	if c.Opset > 0 && c.Opset < 10 {
		mask = c.DType(0)
	}
	c.SetOut(1, mask, c.Shape(0))
	c.passElems()
	return nil
}

func inferExpand(c *InferCtx) error {
	c.SetOut(0, c.DType(0), nil)
	elems, ok := c.Elems(1)
	if !ok || c.Shape(0) == nil {
		return nil
	}
	for _, e := range elems {
		if e.Known && e.N < 0 {
			return fmt.Errorf("shape %s has a negative dimension", elemsString(elems))
		}
	}
	s, err := Broadcast(c.Shape(0), shapeOf(elems))
	c.SetOut(0, c.DType(0), s)
	if in, ok := c.Elems(0); ok && len(in) == 1 && len(s) == 1 && s[0].Known() && s[0].N <= maxPartial {
		out := make([]Elem, s[0].N)
		for i := range out {
			out[i] = in[0]
		}
		c.setInts(0, out)
	}
	return err
}
