package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Patch is one proposed rewrite: nodes that go, nodes that come, readers that move. Values that do not exist yet are named by
// ids that Const and Temp hand out; apply replaces them.
type Patch struct {
	What string

	drop  []graph.NodeID
	add   []graph.Node
	fresh []freshValue
	moves []move
	fixed []fixedValue
}

type freshValue struct {
	name  string
	data  *tensor.Tensor // nil: computed by an added node
	like  graph.ValueID  // where type and shape come from, or NoValue: those below
	dtype tensor.DType
	shape graph.Shape
}

type move struct{ from, to graph.ValueID }

type fixedValue struct {
	v    graph.ValueID
	data *tensor.Tensor
}

// firstFresh is the id of a patch's first new value; the others follow below it.
const firstFresh = graph.NoValue - 1

// Drop removes nodes. Their outputs must be computed by added nodes, fixed, moved away from, or read by dropped nodes only.
func (p *Patch) Drop(ids ...graph.NodeID) { p.drop = append(p.drop, ids...) }

// Add adds a node, which may be a changed copy of one in the graph. Outputs are values that Temp made or that dropped nodes
// computed.
func (p *Patch) Add(n graph.Node) {
	n.Inputs, n.Outputs, n.Attrs = slices.Clone(n.Inputs), slices.Clone(n.Outputs), slices.Clone(n.Attrs)
	p.add = append(p.add, n)
}

// Const makes a new constant, called name if that is free once the dropped nodes' constants are gone.
func (p *Patch) Const(name string, t *tensor.Tensor) graph.ValueID {
	return p.newValue(freshValue{name: name, data: t, like: graph.NoValue})
}

// Temp makes a new value between added nodes, with type and shape of like unless that is NoValue.
func (p *Patch) Temp(name string, like graph.ValueID) graph.ValueID {
	return p.newValue(freshValue{name: name, like: like})
}

// Typed makes a new value between added nodes, of a type that no value of the graph need have.
func (p *Patch) Typed(name string, d tensor.DType, s graph.Shape) graph.ValueID {
	return p.newValue(freshValue{name: name, like: graph.NoValue, dtype: d, shape: s})
}

func (p *Patch) newValue(f freshValue) graph.ValueID {
	p.fresh = append(p.fresh, f)
	return firstFresh - graph.ValueID(len(p.fresh)-1)
}

// Move makes all readers of from read to instead.
func (p *Patch) Move(from, to graph.ValueID) { p.moves = append(p.moves, move{from, to}) }

// Fix makes a value that a dropped node computed a constant. It keeps its name, so bodies that read it still find it.
func (p *Patch) Fix(v graph.ValueID, t *tensor.Tensor) { p.fixed = append(p.fixed, fixedValue{v, t}) }

// apply checks a patch and carries it out. A patch that would take away a value that is still needed is declined.
func (c *Context) apply(p *Patch) error {
	if err := c.lost(p); err != nil {
		return err
	}
	g := c.G
	entry := Entry{Pass: c.pass, What: p.What}
	for _, id := range p.drop {
		entry.Nodes = append(entry.Nodes, g.Node(id).Name)
	}
	var inputs []graph.ValueID
	for _, id := range p.drop {
		if err := detach(g, p, id); err != nil {
			return err
		}
		inputs = append(inputs, g.Node(id).Inputs...)
		g.RemoveNode(id)
	}
	for _, v := range inputs {
		if v != graph.NoValue && g.Const(v) != nil && !p.reads(v) && !g.Captured(v) {
			g.RemoveValue(v)
		}
	}
	for _, f := range p.fixed {
		g.SetConst(f.v, f.data)
	}
	ids, err := materialise(g, p.fresh)
	if err != nil {
		return err
	}
	resolve := func(v graph.ValueID) graph.ValueID {
		if v <= firstFresh {
			return ids[firstFresh-v]
		}
		return v
	}
	for _, m := range p.moves {
		g.ReplaceUses(m.from, resolve(m.to))
		g.RemoveValue(m.from)
	}
	for _, n := range p.add {
		n.Inputs, n.Outputs = mapIDs(n.Inputs, resolve), mapIDs(n.Outputs, resolve)
		if _, taken := g.LookupNode(n.Name); taken || n.Name == "" {
			n.Name = g.FreshName(n.Name + "/" + n.Op)
		}
		if _, err := g.AddNode(n); err != nil {
			return err
		}
		if !slices.Contains(entry.Nodes, n.Name) {
			entry.Nodes = append(entry.Nodes, n.Name)
		}
	}
	c.log.Applied = append(c.log.Applied, entry)
	return nil
}

// reads reports whether an added node reads v.
func (p *Patch) reads(v graph.ValueID) bool {
	return slices.ContainsFunc(p.add, func(n graph.Node) bool { return slices.Contains(n.Inputs, v) })
}

// survives reports whether v outlives the node that computed it.
func (p *Patch) survives(v graph.ValueID) bool {
	return slices.ContainsFunc(p.add, func(n graph.Node) bool { return slices.Contains(n.Outputs, v) }) ||
		slices.ContainsFunc(p.fixed, func(f fixedValue) bool { return f.v == v })
}

// lost names a value that the patch would take away although it is needed.
func (c *Context) lost(p *Patch) error {
	moved := map[graph.ValueID]bool{}
	for _, m := range p.moves {
		moved[m.from] = true
	}
	for _, id := range p.drop {
		for _, v := range c.G.Node(id).Outputs {
			if v == graph.NoValue {
				continue
			}
			name := c.G.Value(v).Name
			fixed := slices.ContainsFunc(p.fixed, func(f fixedValue) bool { return f.v == v })
			if p.survives(v) && !(fixed && c.G.IsOutput(v)) {
				continue
			}
			if c.G.IsOutput(v) {
				return decline("%q is a graph output", name)
			}
			for _, u := range c.G.Uses(v) {
				if !moved[v] && !slices.Contains(p.drop, u.Node) {
					return decline("%q is also read by node %q (%s)", name, c.G.Node(u.Node).Name, c.G.Node(u.Node).Op)
				}
			}
			if c.G.Captured(v) {
				return decline("%q is read inside a subgraph", name)
			}
		}
	}
	return nil
}

// detach takes from a node those outputs that survive it.
func detach(g *graph.Graph, p *Patch, id graph.NodeID) error {
	for i, v := range g.Node(id).Outputs {
		if v == graph.NoValue || !p.survives(v) {
			continue
		}
		stand, err := g.AddValue(graph.Value{})
		if err != nil {
			return err
		}
		if err := g.SetOutput(id, i, stand); err != nil {
			return err
		}
	}
	return nil
}

func materialise(g *graph.Graph, fresh []freshValue) ([]graph.ValueID, error) {
	ids := make([]graph.ValueID, len(fresh))
	for i, f := range fresh {
		v := graph.Value{Name: g.FreshName(f.name), Const: f.data, DType: f.dtype, Shape: f.shape}
		if f.like != graph.NoValue {
			v.DType, v.Shape = g.Value(f.like).DType, g.Value(f.like).Shape
		}
		id, err := g.AddValue(v)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

func mapIDs(ids []graph.ValueID, to func(graph.ValueID) graph.ValueID) []graph.ValueID {
	out := make([]graph.ValueID, len(ids))
	for i, v := range ids {
		out[i] = to(v)
	}
	return out
}

// bypass removes a node whose first output equals value x. Where the output is a graph output, the node that computes x computes it
// instead.
func (c *Context) bypass(id graph.NodeID, x graph.ValueID, what string) (*Patch, error) {
	y := c.G.Node(id).Outputs[0]
	p := &Patch{What: what}
	p.Drop(id)
	if !c.G.IsOutput(y) {
		p.Move(y, x)
		return p, nil
	}
	producer := c.G.Producer(x)
	if producer == graph.NoNode || c.G.IsOutput(x) {
		if n := *c.G.Node(id); n.Op != "Identity" && len(n.Outputs) == 1 {
			n.Op, n.Domain, n.Attrs, n.Inputs = "Identity", "", nil, []graph.ValueID{x}
			p.Add(n)
			p.What = what + ", which is an output of its own: an Identity"
			return p, nil
		}
		return nil, decline("%s, but %q and %q both keep their names", what, c.G.Value(x).Name, c.G.Value(y).Name)
	}
	n := *c.G.Node(producer)
	n.Outputs = slices.Clone(n.Outputs)
	n.Outputs[slices.Index(n.Outputs, x)] = y
	p.Drop(producer)
	p.Add(n)
	p.Move(x, y)
	return p, nil
}
