package passes

import (
	"qwb/graph"
	"qwb/graph/pattern"
	"qwb/graph/tensor"
)

// Casts removes casts to the type a value has and casts back to it through a type that holds every value.
var Casts = Pass{
	Name:  "casts",
	Doc:   "Removes Cast to the same type, and the first of two Casts where it loses nothing.",
	sweep: each(castToSame, at("x = Cast(u)\ny = Cast(x)", castTwice)),
}

func castToSame(c *Context, id graph.NodeID) (*Patch, error) {
	n := c.G.Node(id)
	if n.Op != "Cast" || !n.IsONNX() {
		return nil, nil
	}
	x := n.Input(0)
	from := c.G.Value(x).DType
	if from == tensor.Undefined || from != castTarget(n) || c.G.Const(x) != nil {
		return nil, nil
	}
	return c.bypass(id, x, "Cast to the type it has")
}

func castTwice(c *Context, m *pattern.Match) (*Patch, error) {
	u := m.Value("u")
	from, via, to := c.G.Value(u).DType, castTarget(c.G.Node(m.Node("x"))), castTarget(c.G.Node(m.Root))
	switch {
	case from == tensor.Undefined || via == tensor.Undefined || to == tensor.Undefined:
		return nil, decline("a type is not known")
	case !lossless(from, via):
		return nil, decline("%s does not hold every %s", via, from)
	case from == to:
		p, err := c.bypass(m.Root, u, "Cast there and back")
		if err == nil && !c.G.IsOutput(m.Value("y")) {
			p.Drop(m.Node("x"))
			return p, nil
		}
	case from.IsFloat() != via.IsFloat() && from != tensor.Bool:
		// A conversion between integers wraps; one from float to integer out of range does not.
		return nil, decline("%s to %s is defined where %s to %s is not", from, to, via, to)
	}
	next := *c.G.Node(m.Root)
	next.Inputs = []graph.ValueID{u}
	p := &Patch{What: "one Cast for two"}
	p.Drop(m.Node("x"), m.Root)
	p.Add(next)
	return p, nil
}

func castTarget(n *graph.Node) tensor.DType { return tensor.DType(n.AttrInt("to", 0)) }

// widens lists, for each type, the types that hold all of its values.
var widens = map[tensor.DType][]tensor.DType{
	tensor.Bool: {tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16, tensor.Uint32, tensor.Int32, tensor.Uint64,
		tensor.Int64, tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64},
	tensor.Uint8: {tensor.Uint16, tensor.Int16, tensor.Uint32, tensor.Int32, tensor.Uint64, tensor.Int64, tensor.Float16,
		tensor.BFloat16, tensor.Float32, tensor.Float64},
	tensor.Int8:     {tensor.Int16, tensor.Int32, tensor.Int64, tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64},
	tensor.Uint16:   {tensor.Uint32, tensor.Int32, tensor.Uint64, tensor.Int64, tensor.Float32, tensor.Float64},
	tensor.Int16:    {tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64},
	tensor.Uint32:   {tensor.Uint64, tensor.Int64, tensor.Float64},
	tensor.Int32:    {tensor.Int64, tensor.Float64},
	tensor.Float16:  {tensor.Float32, tensor.Float64},
	tensor.BFloat16: {tensor.Float32, tensor.Float64},
	tensor.Float32:  {tensor.Float64},
}

func lossless(from, to tensor.DType) bool {
	for _, d := range widens[from] {
		if d == to {
			return true
		}
	}
	return from == to
}
