package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
)

// NoOps removes nodes that hand on their input.
var NoOps = Pass{
	Name: "no-ops",
	Doc: "Removes Identity, sums and concatenations of one value, sums with 0, products with 1, padding by nothing, " +
		"and Slice, Expand, Tile, Resize and Split that leave everything as it is; drops a ceil_mode that changes no size, " +
		"and an auto_pad of a pool that steps over the end.",
	sweep: each(
		unary("y = Identity(x)"),
		unary("y = Sum|Max|Min|Mean|Concat(x)"),
		neutral("y = Add|Sum(x, scalar k)", 0), neutral("y = Add(scalar k, x)", 0), neutral("y = Sub(x, scalar k)", 0),
		neutral("y = Mul(x, scalar k)", 1), neutral("y = Div|Pow(x, scalar k)", 1),
		at("y = Pad(x, ...)", padNothing),
		at("y = Slice|Expand|Tile|Resize|Split(x, ...)", whole),
		at("y = MaxPool|AveragePool|LpPool(x)", roundedUp),
		at("y = MaxPool|AveragePool|LpPool(x)", stepsOver),
	),
}

func unary(text string) rule {
	return at(text, func(c *Context, m *pattern.Match) (*Patch, error) {
		if c.G.Const(m.Value("x")) != nil {
			return nil, nil // constants are folded
		}
		return c.bypass(m.Root, m.Value("x"), c.G.Node(m.Root).Op+" hands on its input")
	})
}

// neutral removes an operation with a constant that changes nothing, if it does not raise the rank either.
func neutral(text string, element float64) rule {
	return at(text, func(c *Context, m *pattern.Match) (*Patch, error) {
		x, k := m.Value("x"), c.G.Const(m.Value("k"))
		if v, ok := pattern.Scalar(k); !ok || v != element || c.G.Const(x) != nil {
			return nil, nil
		}
		if len(k.Shape) > 0 {
			if rank, ok := pattern.Rank(c.G, x); !ok || rank < len(k.Shape) {
				return nil, decline("the constant %s may have more dimensions than %q", k.Type(), c.G.Value(x).Name)
			}
		}
		return c.bypass(m.Root, x, c.G.Node(m.Root).Op+" with a constant that changes nothing")
	})
}

func padNothing(c *Context, m *pattern.Match) (*Patch, error) {
	n := c.G.Node(m.Root)
	pads := Integers(c.G.Const(n.Input(1)))
	if pads == nil {
		pads = n.AttrInts("pads")
	}
	if pads == nil {
		return nil, nil
	}
	for _, p := range pads {
		if p != 0 {
			return nil, nil
		}
	}
	return c.bypass(m.Root, m.Value("x"), "Pad by nothing")
}

// Dropouts removes Dropout where it is inactive.
var Dropouts = Pass{
	Name:  "dropouts",
	Doc:   "Removes Dropout in inference.",
	sweep: each(dropout),
}

func dropout(c *Context, id graph.NodeID) (*Patch, error) {
	n := c.G.Node(id)
	if n.Op != "Dropout" || !n.IsONNX() {
		return nil, nil
	}
	switch opset := c.G.Opset(""); {
	case n.Trains(opset):
		return nil, decline("training mode (is_test is 0)")
	case opset >= 12 && n.Input(2) != graph.NoValue:
		training := c.G.Const(n.Input(2))
		if training == nil {
			return nil, decline("training_mode is computed")
		}
		if on, ok := training.Data.([]bool); !ok || len(on) != 1 || on[0] {
			return nil, decline("training mode")
		}
	}
	return c.bypass(id, n.Input(0), "Dropout in inference")
}

// whole removes what could take away or repeat elements, or put others between them, and leaves all as they are. OpenVINO 2026.4 ends the
// process at a Slice of everything between pairs. What has no elements stays: the engine gives a Gather of nothing another shape.
func whole(c *Context, m *pattern.Match) (*Patch, error) {
	n, x := c.G.Node(m.Root), m.Value("x")
	before, after := c.proven(x), c.proven(n.Outputs[0])
	if n.Input(0) != x || len(n.Outputs) != 1 || c.G.Const(x) != nil || before == nil || !before.Equal(after) ||
		slices.ContainsFunc(before, func(d graph.Dim) bool { return d.N == 0 }) {
		return nil, nil
	}
	switch n.Op {
	case "Slice": // from the end to the front it turns them around
		if v := n.Input(4); v != graph.NoValue {
			steps := Integers(c.G.Const(v))
			if steps == nil || slices.ContainsFunc(steps, func(s int64) bool { return s < 0 }) {
				return nil, nil
			}
		}
	case "Resize":
		if n.AttrStr("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
			return nil, nil
		}
		if _, scales, _ := graph.ResizeInputs(c.G.Opset(n.Domain)); n.Input(scales) != graph.NoValue {
			factors := c.G.Const(n.Input(scales))
			if factors == nil || slices.ContainsFunc(factors.F32(), func(f float32) bool { return f != 1 }) {
				return nil, nil // a factor near 1 moves places though no size changes
			}
		}
	}
	return c.bypass(m.Root, x, n.Op+" leaves everything as it is")
}

// roundedUp drops a ceil_mode of a pool whose windows are the same without it: engines disagree about windows that would begin behind the
// end (ONNX Runtime 1.32 does not open some, OpenVINO 2026.4 computes them).
func roundedUp(c *Context, m *pattern.Match) (*Patch, error) {
	n, x := *c.G.Node(m.Root), c.proven(m.Value("x"))
	if n.AttrInt("ceil_mode", 0) == 0 || x == nil {
		return nil, nil
	}
	up, err := graph.PoolGeometry(&n, x)
	if err != nil {
		return nil, nil
	}
	n.Attrs = slices.Clone(n.Attrs)
	n.DropAttr("ceil_mode")
	down, err := graph.PoolGeometry(&n, x)
	if err != nil || !slices.Equal(up.Out, down.Out) || slices.Contains(up.Out, -1) {
		return nil, nil
	}
	p := &Patch{What: "a ceil_mode that changes no size"}
	p.Drop(m.Root)
	p.Add(n)
	return p, nil
}

// stepsOver states the padding of a pool whose auto_pad steps over the end: by ONNX's formula of SAME its padding is negative, which
// ONNX Runtime 1.32 takes at its word and refuses.
func stepsOver(c *Context, m *pattern.Match) (*Patch, error) {
	n, x := *c.G.Node(m.Root), c.proven(m.Value("x"))
	if mode := n.AttrStr("auto_pad", "NOTSET"); mode != "SAME_UPPER" && mode != "SAME_LOWER" || x == nil {
		return nil, nil
	}
	geo, err := graph.PoolGeometry(&n, x)
	if err != nil || slices.Contains(geo.PadEnd, -1) {
		return nil, nil
	}
	over := false
	var pads []int64
	for i, size := range geo.In {
		over = over || size < 0 || (geo.Out[i]-1)*geo.Stride[i]+(geo.Kernel[i]-1)*geo.Dilation[i]+1 < size
		pads = slices.Insert(pads, i, int64(geo.PadBegin[i]))
		pads = append(pads, int64(geo.PadEnd[i]))
	}
	if !over {
		return nil, nil
	}
	n.Attrs = slices.Clone(n.Attrs)
	n.DropAttr("auto_pad")
	n.DropAttr("ceil_mode") // SAME pays no attention to it
	n.SetAttr(graph.Ints("pads", pads...))
	p := &Patch{What: "an auto_pad that steps over the end"}
	p.Drop(m.Root)
	p.Add(n)
	return p, nil
}
