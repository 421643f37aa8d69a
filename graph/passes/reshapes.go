package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// Reshapes removes reshaping that changes nothing and what another Reshape makes pointless.
var Reshapes = Pass{
	Name: "reshapes",
	Doc: "Removes Reshape to the shape a value has, the first of two shape changes, and Squeeze and Unsqueeze that cancel; " +
		"GatherND of all elements in their order is a Reshape.",
	sweep: each(
		at("y = GatherND(u, const i)", gatherAll),
		at("y = Reshape(u, const s)", reshapeToSame),
		at("x = Reshape|Flatten|Squeeze|Unsqueeze(u, ...)\ny = Reshape(x, const s)", reshapeTwice),
		at("x = Unsqueeze(u, ...)\ny = Squeeze(x, ...)", squeezeBack),
		at("x = Squeeze(u, ...)\ny = Unsqueeze(x, ...)", squeezeBack)),
}

// gatherAll is how torch's exporter writes a mask that gets more axes (torch.vmap over positions): every element by its own index.
func gatherAll(c *Context, m *pattern.Match) (*Patch, error) {
	n := *c.G.Node(m.Root)
	have, known := c.G.Value(m.Value("u")).Shape.Ints()
	index := c.G.Const(m.Value("i"))
	if !known || c.G.Const(m.Value("u")) != nil || n.AttrInt("batch_dims", 0) != 0 || len(index.Shape) == 0 {
		return nil, nil
	}
	last := len(index.Shape) - 1
	k := index.Shape[last]
	if k == 0 || k > len(have) || tensor.Count(have[:k]) != tensor.Count(index.Shape[:last]) {
		return nil, nil
	}
	for i, x := range Integers(index) {
		of := i / k
		for axis := k - 1; axis > i%k; axis-- {
			of /= have[axis]
		}
		if at := i % k; x != int64(of%have[at]) && x != int64(of%have[at]-have[at]) {
			return nil, nil
		}
	}
	var target []int64
	for _, d := range append(slices.Clone(index.Shape[:last]), have[k:]...) {
		target = append(target, int64(d))
	}
	p := &Patch{What: "GatherND of all elements in their order becomes a Reshape"}
	n.Op, n.Attrs = "Reshape", nil
	n.Inputs = []graph.ValueID{m.Value("u"), p.Const(n.Name+"_shape", tensor.FromI64(target, len(target)))}
	p.Drop(m.Root)
	p.Add(n)
	return p, nil
}

func reshapeToSame(c *Context, m *pattern.Match) (*Patch, error) {
	u := m.Value("u")
	target, ok := reshapeTarget(c.G, m.Root)
	have, known := c.G.Value(u).Shape.Ints()
	if !ok || !known || c.G.Const(u) != nil || len(target) != len(have) {
		return nil, nil
	}
	open := 0
	for i, d := range target {
		switch d {
		case int64(have[i]), 0:
		case -1:
			open++ // what is left over is this dimension, the others being equal
		default:
			return nil, nil
		}
	}
	if open > 1 {
		return nil, nil
	}
	return c.bypass(m.Root, u, "Reshape to the shape it has")
}

// reshapeTarget returns the constant target of a Reshape in which 0 means "as before"; false if it is not known or a 0 is a size.
func reshapeTarget(g *graph.Graph, id graph.NodeID) ([]int64, bool) {
	n := g.Node(id)
	target := Integers(g.Const(n.Input(1)))
	if target == nil || n.AttrInt("allowzero", 0) != 0 && slices.Contains(target, 0) {
		return nil, false
	}
	return target, true
}

func reshapeTwice(c *Context, m *pattern.Match) (*Patch, error) {
	target, ok := reshapeTarget(c.G, m.Root)
	if !ok {
		return nil, decline("the shape holds zeros")
	}
	first := c.G.Node(m.Node("x"))
	resolved := slices.Clone(target)
	if slices.Contains(target, 0) {
		// A 0 copies a dimension of what lies between; it is known only if that was given as a number.
		between, ok := reshapeTarget(c.G, first.ID)
		if first.Op != "Reshape" || !ok {
			return nil, decline("the shape copies a dimension of %q", c.G.Value(m.Value("x")).Name)
		}
		for i, d := range target {
			if d != 0 {
				continue
			}
			switch {
			case i >= len(between):
				return nil, decline("the shape copies a dimension that does not exist")
			case between[i] > 0:
				resolved[i] = between[i]
			case between[i] == 0: // copied from the same place of u
			default:
				return nil, decline("the shape copies a dimension of %q that is not known", c.G.Value(m.Value("x")).Name)
			}
		}
	}
	next := *c.G.Node(m.Root)
	p := &Patch{What: "one Reshape for two shape changes"}
	next.Inputs = []graph.ValueID{m.Value("u"), m.Value("s")}
	if !slices.Equal(resolved, target) {
		next.Inputs[1] = p.Const(c.G.Value(m.Value("s")).Name, tensor.FromI64(resolved, len(resolved)))
	}
	p.Drop(m.Node("x"), m.Root)
	p.Add(next)
	return p, nil
}

// squeezeBack removes Squeeze after Unsqueeze of the same axes, or the other way round.
func squeezeBack(c *Context, m *pattern.Match) (*Patch, error) {
	first, ok1 := squeezeAxes(c.G, m.Node("x"))
	second, ok2 := squeezeAxes(c.G, m.Root)
	if !ok1 || !ok2 {
		return nil, decline("the axes are not known")
	}
	if !slices.Equal(first, second) {
		return nil, decline("axes %v after axes %v", second, first)
	}
	if c.G.IsOutput(m.Value("y")) {
		return nil, decline("%q is a graph output", c.G.Value(m.Value("y")).Name)
	}
	p := &Patch{What: "Squeeze and Unsqueeze that cancel"}
	p.Drop(m.Node("x"), m.Root)
	p.Move(m.Value("y"), m.Value("u"))
	return p, nil
}

// squeezeAxes returns the sorted axes of Squeeze and Unsqueeze; false unless they are constant and counted all from the same end.
func squeezeAxes(g *graph.Graph, id graph.NodeID) ([]int64, bool) {
	n := g.Node(id)
	axes := slices.Clone(n.AttrInts("axes"))
	if v := n.Input(1); v != graph.NoValue {
		axes = Integers(g.Const(v))
	}
	if len(axes) == 0 {
		return nil, false
	}
	slices.Sort(axes)
	return axes, axes[0] >= 0 || axes[len(axes)-1] < 0
}
