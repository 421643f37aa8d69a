package rewrite

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// reorder is another order of the channels, axis 1, of a set of values, and what has to be done to constants for it.
type reorder struct {
	g      *graph.Graph
	chain  *Chain                  // computes the first value in the new order already; nil: its producer has to
	orders map[graph.ValueID][]int // by value: new channel j is old channel orders[j]
	// inputs and outputs are the convolutions whose weights change along their input or output channels, operands the nodes between whose
	// constants do.
	inputs, outputs, operands map[graph.NodeID][]int
	queue                     []graph.ValueID
}

// reorderable finds what has to change for value v to be in a new order, in which a chain, if there is one, computes it already. An order
// may hold a channel several times. The error says why that is not possible.
func reorderable(g *graph.Graph, v graph.ValueID, order []int, c *Chain) (*reorder, error) {
	r := &reorder{g: g, chain: c, orders: map[graph.ValueID][]int{}, inputs: map[graph.NodeID][]int{}, outputs: map[graph.NodeID][]int{},
		operands: map[graph.NodeID][]int{}}
	r.orders[v], r.queue = order, []graph.ValueID{v}
	for len(r.queue) > 0 {
		v := r.queue[0]
		r.queue = r.queue[1:]
		if g.IsOutput(v) || g.Captured(v) || g.Producer(v) == graph.NoNode {
			return nil, fmt.Errorf("%q is seen outside", g.Value(v).Name)
		}
		if c == nil || v != c.Output {
			if err := r.follow(g.Producer(v), v); err != nil {
				return nil, err
			}
		}
		for _, u := range g.Uses(v) {
			if err := r.follow(u.Node, v); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// give puts a value in an order.
func (r *reorder) give(v graph.ValueID, order []int) error {
	if old, ok := r.orders[v]; ok {
		if !slices.Equal(old, order) {
			return fmt.Errorf("%q would have two orders", r.g.Value(v).Name)
		}
		return nil
	}
	if r.chain != nil && slices.ContainsFunc(append([]graph.NodeID{r.chain.At}, r.chain.Nodes...),
		func(n graph.NodeID) bool { return r.g.Node(n).Output(0) == v }) {
		return fmt.Errorf("%q is taken apart", r.g.Value(v).Name)
	}
	r.orders[v] = order
	r.queue = append(r.queue, v)
	return nil
}

// follow takes the order of a value through a node that reads or computes it.
func (r *reorder) follow(id graph.NodeID, v graph.ValueID) error {
	g, n, order := r.g, r.g.Node(id), r.orders[v]
	y := n.Output(0)
	if n.Op == "Conv" && n.IsONNX() && n.Conv().Group == 1 {
		w := g.Const(n.Input(1))
		if w == nil || w.DType != tensor.Float32 || n.Input(2) != graph.NoValue && g.Const(n.Input(2)) == nil ||
			slices.Contains(n.Inputs[1:], v) {
			return fmt.Errorf("the weights of %q are computed", n.Name)
		}
		if v == y {
			r.outputs[id] = order
		} else {
			r.inputs[id] = order
		}
		return nil
	}
	multiple, err := apart(g, id, func(x graph.ValueID) bool { return x != graph.NoValue && g.Const(x) == nil })
	if err != nil {
		return err
	}
	if multiple == 0 {
		return fmt.Errorf("%q reads constants only", n.Name)
	}
	in := order
	if v == y && multiple > 1 {
		if in = narrow(order, multiple); in == nil {
			return fmt.Errorf("the channels of %q belong together", g.Value(v).Name)
		}
	}
	r.operands[id] = spread(in, multiple)
	for _, x := range n.Inputs {
		if x != graph.NoValue && g.Const(x) == nil {
			if err := r.give(x, in); err != nil {
				return err
			}
		}
	}
	return r.give(y, r.operands[id])
}

// narrow undoes spread, nil where that is not possible.
func narrow(order []int, multiple int) []int {
	out := make([]int, 0, len(order)/multiple)
	for i := 0; i < len(order); i += multiple {
		out = append(out, order[i]/multiple)
	}
	if !slices.Equal(spread(out, multiple), order) {
		return nil
	}
	return out
}

// apply puts constants into the order.
func (r *reorder) apply(g *graph.Graph) {
	for _, id := range g.Nodes() {
		if order := r.inputs[id]; order != nil {
			g.OwnConst(id, 1, pick(g.Const(g.Node(id).Inputs[1]), 1, order))
		}
		if order := r.outputs[id]; order != nil {
			for i := 1; i < len(g.Node(id).Inputs); i++ {
				if v := g.Node(id).Inputs[i]; v != graph.NoValue {
					g.OwnConst(id, i, pick(g.Const(v), 0, order))
				}
			}
		}
		if order := r.operands[id]; order != nil {
			for i, v := range g.Node(id).Inputs {
				if v == graph.NoValue || g.Const(v) == nil {
					continue
				}
				if axis, err := operandAxis(g, g.Node(id), i); err == nil && axis >= 0 {
					g.OwnConst(id, i, pick(g.Const(v), axis, order))
				}
			}
		}
	}
}
