package rewrite

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Group takes the output channels of convolution At and the nodes behind it (Nodes, a Chain) apart into groups of channels, which a Concat
// joins at the last of them: each group has operators, and so scales, of its own. Every channel is in one of Groups. Groups
// change the order of channels; all that reads the joined value takes its weights in the new order where it can, else a Gather follows the
// Concat.
var Group = Kind{Name: "group", Doc: "takes a convolution and what follows channel by channel apart into groups of channels, joined " +
	"by a Concat", Apply: applyGroup}

func applyGroup(g *graph.Graph, s *Step) error {
	c, err := chainOf(g, s)
	if err != nil {
		return err
	}
	order, err := partition(s.Groups, c.Channels)
	if err != nil {
		return err
	}
	joined := spread(order, dim(g, c.Output, 1)/c.Channels)
	gather := false
	if !slices.IsSorted(joined) {
		p, why := reorderable(g, c.Output, joined, c)
		if gather = why != nil; !gather {
			p.apply(g)
		}
	}
	parts := make([]graph.ValueID, len(s.Groups))
	for i, channels := range s.Groups {
		if parts[i], err = c.copy(g, i, channels); err != nil {
			return err
		}
	}
	return c.join(g, parts, joined, gather)
}

// chainOf finds the chain that a step names.
func chainOf(g *graph.Graph, s *Step) (*Chain, error) {
	id, ok := g.LookupNode(s.At)
	if !ok {
		return nil, fmt.Errorf("there is no such node")
	}
	for _, c := range Chains(g, id) {
		if slices.EqualFunc(c.Nodes, s.Nodes, func(n graph.NodeID, name string) bool { return g.Node(n).Name == name }) {
			return &c, nil
		}
	}
	return nil, fmt.Errorf("the %d nodes that it names are no chain of channels by themselves", len(s.Nodes))
}

// partition checks that groups hold every one of n channels once, and returns them in a row.
func partition(groups [][]int, n int) ([]int, error) {
	if len(groups) < 2 {
		return nil, fmt.Errorf("%d groups of channels: there have to be two at least", len(groups))
	}
	var order []int
	seen := make([]bool, n)
	for i, group := range groups {
		if len(group) == 0 {
			return nil, fmt.Errorf("group %d of channels is empty", i)
		}
		for _, c := range group {
			if c < 0 || c >= n || seen[c] {
				return nil, fmt.Errorf("channel %d of group %d: every channel from 0 to %d is in one group", c, i, n-1)
			}
			seen[c] = true
		}
		order = append(order, group...)
	}
	if len(order) != n {
		return nil, fmt.Errorf("%d of %d channels are in a group", len(order), n)
	}
	return order, nil
}

// copy adds nodes that compute a group of channels of the chain, and returns the group's part of the output.
func (c *Chain) copy(g *graph.Graph, index int, channels []int) (graph.ValueID, error) {
	suffix := fmt.Sprintf("/g%d", index)
	values := map[graph.ValueID]graph.ValueID{}
	for _, id := range append([]graph.NodeID{c.At}, c.Nodes...) {
		n := g.Node(id)
		rows := spread(channels, dim(g, n.Output(0), 1)/c.Channels)
		next := graph.Node{Name: n.Name + suffix, Op: n.Op, Domain: n.Domain, Doc: n.Doc, Attrs: slices.Clone(n.Attrs)}
		if n.Op == "Conv" && id != c.At {
			next.SetAttr(graph.Int("group", int64(len(channels)*dim(g, n.Input(0), 1)/c.Channels)))
		}
		for i, v := range n.Inputs {
			part, known := values[v]
			switch {
			case known:
				v = part
			case g.Const(v) != nil:
				axis, err := operandAxis(g, n, i)
				if err != nil {
					return graph.NoValue, err
				}
				if axis >= 0 {
					v = g.AddConst(g.Value(v).Name+suffix, pick(g.Const(v), axis, rows))
				}
			}
			next.Inputs = append(next.Inputs, v)
		}
		old := g.Value(n.Output(0))
		shape := slices.Clone(old.Shape)
		shape[1] = graph.Dim{N: int64(len(rows))}
		y, err := g.AddValue(graph.Value{Name: g.FreshName(old.Name + suffix), DType: old.DType, Shape: shape})
		if err != nil {
			return graph.NoValue, err
		}
		values[g.Node(id).Output(0)] = y
		next.Outputs = []graph.ValueID{y}
		if _, err := g.AddNode(next); err != nil {
			return graph.NoValue, err
		}
	}
	return values[c.Output], nil
}

// join replaces the chain by its parts. With gather, channels are put back into the order that they had.
func (c *Chain) join(g *graph.Graph, parts []graph.ValueID, order []int, gather bool) error {
	last := g.Node(c.Nodes[len(c.Nodes)-1]).Name
	y := c.Output
	whole := graph.Value{Name: g.FreshName(g.Value(y).Name + "/join"), DType: g.Value(y).DType, Shape: g.Value(y).Shape}
	for _, id := range slices.Backward(c.Nodes) {
		if v := g.Node(id).Output(0); v == y {
			w, err := g.AddValue(graph.Value{})
			if err != nil {
				return err
			}
			if err := g.SetOutput(id, 0, w); err != nil { // keeps y, whose readers stay
				return err
			}
		}
		g.RemoveNode(id)
	}
	g.RemoveNode(c.At)
	concat := graph.Node{Name: g.FreshName(last + "/join"), Op: "Concat", Attrs: []graph.Attr{graph.Int("axis", 1)}, Inputs: parts,
		Outputs: []graph.ValueID{y}}
	if !gather {
		_, err := g.AddNode(concat)
		return err
	}
	back := make([]int64, len(order))
	for i, ch := range order {
		back[ch] = int64(i)
	}
	mid, err := g.AddValue(whole)
	if err != nil {
		return err
	}
	concat.Outputs = []graph.ValueID{mid}
	if _, err := g.AddNode(concat); err != nil {
		return err
	}
	index := g.AddConst(g.FreshName(last+"/order"), tensor.FromI64(back, len(back)))
	_, err = g.AddNode(graph.Node{Name: g.FreshName(last + "/back"), Op: "Gather", Attrs: []graph.Attr{graph.Int("axis", 1)},
		Inputs: []graph.ValueID{mid, index}, Outputs: []graph.ValueID{y}})
	return err
}
