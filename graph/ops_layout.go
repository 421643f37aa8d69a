package graph

import (
	"fmt"
	"slices"
)

// inferTile: the output is x repeated; before opset 6 inputs 1 and 2 are the number of tiles and the axis.
func inferTile(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	repeats, ok := c.Elems(1)
	if c.Opset > 0 && c.Opset < 6 {
		axis, known1 := c.Ints(2)
		if !ok || !known1 || len(axis) != 1 || len(repeats) != 1 {
			c.SetOut(0, c.DType(0), unknownShape(len(x)))
			return nil
		}
		a, err := normAxis(int(axis[0]), len(x))
		if err != nil {
			return err
		}
		all := make([]Elem, len(x))
		for i := range all {
			all[i] = known(1)
		}
		all[a], repeats = repeats[0], all
	}
	if !ok {
		c.SetOut(0, c.DType(0), unknownShape(len(x)))
		return nil
	}
	if len(repeats) != len(x) {
		return fmt.Errorf("%d repeats for shape %s", len(repeats), x)
	}
	out := make(Shape, len(x))
	for i, r := range repeats {
		e := mulElems(x[i].elem(), r)
		if r.Known && r.N < 0 || r.Known && x[i].Known() && !e.Known {
			return fmt.Errorf("repeats %s for shape %s", elemsString(repeats), x)
		}
		out[i] = e.dim()
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

// passivePad: only the constant 0, or elements of x, may be added.
func passivePad(g *Graph, n *Node) bool {
	if n.Pad().Mode != "constant" {
		return true
	}
	if v := n.Input(2); v != NoValue {
		t := g.values[v].Const
		if t == nil || t.Len() != 1 {
			return false
		}
		e, ok := elemsOf(t)
		return ok && e[0] == known(0)
	}
	return n.Pad().Value == 0
}

func inferPad(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	pads, ok := c.axesInput(1, "pads", 11)
	if !ok && c.Node.Attr("paddings") != nil {
		pads, ok = c.axesInput(1, "paddings", 2)
	}
	var axes []int
	if c.Has(3) {
		list, all := c.Ints(3)
		if !all {
			ok = false
		}
		var err error
		if axes, err = normAxes(list, len(x)); err != nil {
			return err
		}
	} else {
		for i := range x {
			axes = append(axes, i)
		}
	}
	if !ok {
		c.SetOut(0, c.DType(0), unknownShape(len(x)))
		return nil
	}
	if len(pads) != 2*len(axes) {
		return fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
	}
	out := append(Shape{}, x...)
	for i, a := range axes {
		grow, e := addElems(pads[i], pads[i+len(axes)]), Elem{}
		switch d := x[a]; {
		case d.Known():
			e = addElems(d.elem(), grow)
		case grow.Known:
			e = floorDiv(d.elem(), grow.N, 1)
		}
		if x[a].Known() && !e.Known && pads[i].Known && pads[i+len(axes)].Known {
			return fmt.Errorf("pads %s are out of range", elemsString(pads))
		}
		if e.Known && (e.N < 0 || e.N > MaxElements) {
			return fmt.Errorf("pads %s leave size %d on axis %d of %s", elemsString(pads), e.N, a, x)
		}
		out[a] = e.dim()
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}

func blockShape(c *InferCtx) (Shape, int64, error) {
	x := c.Shape(0)
	block := c.Node.AttrInt("blocksize", 0)
	if x != nil && len(x) != 4 || block < 1 || block > maxWindow {
		return nil, 0, fmt.Errorf("blocksize %d for shape %s", block, x)
	}
	return x, block, nil
}

func inferDepthToSpace(c *InferCtx) error {
	x, b, err := blockShape(c)
	c.SetOut(0, c.DType(0), nil)
	if err != nil || x == nil {
		return err
	}
	if x[1].Known() && x[1].N%(b*b) != 0 {
		return fmt.Errorf("%d channels are not divisible by %d", x[1].N, b*b)
	}
	c.SetOut(0, c.DType(0), Shape{x[0], divElems(x[1].elem(), known(b*b)).dim(),
		mulElems(x[2].elem(), known(b)).dim(), mulElems(x[3].elem(), known(b)).dim()})
	return nil
}

func inferSpaceToDepth(c *InferCtx) error {
	x, b, err := blockShape(c)
	c.SetOut(0, c.DType(0), nil)
	if err != nil || x == nil {
		return err
	}
	if x[2].Known() && x[2].N%b != 0 || x[3].Known() && x[3].N%b != 0 {
		return fmt.Errorf("%s is not divisible into blocks of %d", x, b)
	}
	c.SetOut(0, c.DType(0), Shape{x[0], mulElems(x[1].elem(), known(b*b)).dim(),
		divElems(x[2].elem(), known(b)).dim(), divElems(x[3].elem(), known(b)).dim()})
	return nil
}

func inferCenterCropPad(c *InferCtx) error {
	x := c.Shape(0)
	c.SetOut(0, c.DType(0), nil)
	if x == nil {
		return nil
	}
	list := c.Node.AttrInts("axes")
	if list == nil {
		for i := range x {
			list = append(list, int64(i))
		}
	}
	axes, err := normAxes(list, len(x))
	if err != nil {
		return err
	}
	elems, ok := c.Elems(1)
	if !ok {
		elems = make([]Elem, len(axes))
	}
	if len(elems) != len(axes) {
		return fmt.Errorf("%d sizes for %d axes", len(elems), len(axes))
	}
	out := slices.Clone(x)
	for i, a := range axes {
		out[a] = elems[i].dim()
	}
	c.SetOut(0, c.DType(0), out)
	return nil
}
