package qdq

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/quantizer/target"
)

// place decides which slots bring values to their grids.
func (c *configurer) place() error {
	for _, v := range c.g.Values() {
		if c.g.Const(v) != nil {
			for _, u := range c.g.Uses(v) {
				if err := c.placeConstant(v, u); err != nil {
					return err
				}
			}
			continue
		}
		if err := c.placeValue(v); err != nil {
			return err
		}
	}
	return nil
}

// placeConstant gives a parameter to the slot of its reader. A float operator reads its numbers as they are: the constant holds
// what the file's integers stand for.
func (c *configurer) placeConstant(v graph.ValueID, u graph.Use) error {
	chain := c.reads[u]
	switch {
	case len(chain) == 0:
		return nil
	case c.integer[u.Node] && target.DataInput(c.g, u.Node, u.Index) && len(chain) == 1:
		c.in[u] = chain[0]
		return nil
	case len(chain) == 1 && c.q.codes[v] != nil:
		return nil // a constant in the float graph
	case len(chain) == 1:
		return c.bake(v, u, chain[0])
	}
	return c.g.ErrorAt(stage, u.Node, fmt.Errorf("input %d: a float constant is quantized here several times", u.Index))
}

// bake gives a float operator the numbers that the file's Q and DQ make of a float constant.
func (c *configurer) bake(v graph.ValueID, u graph.Use, q *grid) error {
	codes, err := c.stored(v, q)
	if err != nil {
		return c.g.ErrorAt(stage, u.Node, err)
	}
	c.g.SetInput(u.Node, u.Index, c.g.AddConst(c.g.Value(v).Name+"_rounded", q.dequantize(codes)))
	return nil
}

// placeValue places what is said of a computed value or an input.
func (c *configurer) placeValue(v graph.ValueID) error {
	used := 0
	if p := c.g.Producer(v); p != graph.NoNode && c.integer[p] && c.t.Placement.Outputs() && c.fusedBehind(p, v) == graph.NoNode &&
		(c.g.Node(p).Op != "LSTM" || c.cells(p)) { // whose results are real numbers, unless it has scales of the file
		if q := c.common(v); q != nil && !q.runTime { // scales of run time are those of a reader, as passes place them
			c.out[v], used = q, 1
		}
	}
	var late []bridge
	for _, u := range c.g.Uses(v) {
		rest := c.reads[u]
		if len(rest) > 0 {
			rest = rest[used:]
		}
		switch {
		case len(rest) == 0:
		case len(rest) == 1 && c.integer[u.Node] && target.DataInput(c.g, u.Node, u.Index):
			c.in[u] = rest[0]
		default:
			late = add(late, rest, u, -1)
		}
	}
	for k, o := range c.g.Outputs {
		if o == v && len(c.q.outputs[k]) > used {
			late = add(late, c.q.outputs[k][used:], graph.Use{}, k)
		}
	}
	for _, b := range late {
		if err := c.build(v, b); err != nil {
			return err
		}
	}
	return nil
}

// fusedBehind returns the node that is fused to p and reads v.
func (c *configurer) fusedBehind(p graph.NodeID, v graph.ValueID) graph.NodeID {
	for _, u := range c.g.Uses(v) {
		if f := c.fused[u.Node]; f != graph.NoNode && (f == p || f == c.fused[p]) {
			return u.Node
		}
	}
	return graph.NoNode
}

// bridge is a chain of grids that no slot of an existing operator stands for, and who reads what comes out of it.
type bridge struct {
	chain   []*grid
	uses    []graph.Use
	outputs []int
}

func add(list []bridge, chain []*grid, u graph.Use, output int) []bridge {
	i := slices.IndexFunc(list, func(b bridge) bool { return sameChain(b.chain, chain) })
	if i < 0 {
		i = len(list)
		list = append(list, bridge{chain: chain})
	}
	if output >= 0 {
		list[i].outputs = append(list[i].outputs, output)
	} else {
		list[i].uses = append(list[i].uses, u)
	}
	return list
}

// build adds an Identity for every grid of a bridge; its output slot brings the value there.
func (c *configurer) build(v graph.ValueID, b bridge) error {
	origin, name := v, c.g.Value(v).Name
	for i, q := range b.chain {
		val := *c.g.Value(v)
		w, err := c.g.AddValue(graph.Value{Name: c.g.FreshName(name + "_requantized"), DType: val.DType, Shape: val.Shape})
		if err != nil {
			return err
		}
		id, err := c.g.AddNode(graph.Node{Name: c.g.FreshName(name + "_requantize"), Op: "Identity", Inputs: []graph.ValueID{v},
			Outputs: []graph.ValueID{w}})
		if err != nil {
			return err
		}
		c.bridges = append(c.bridges, id)
		c.integer, c.fused = append(c.integer, true), append(c.fused, graph.NoNode)
		c.why, c.soi = append(c.why, byImport+": a pair of the file that belongs to no integer operator"), append(c.soi, false)
		c.out[w] = q
		if i == len(b.chain)-1 {
			for _, u := range b.uses {
				c.g.SetInput(u.Node, u.Index, w)
			}
			for _, k := range b.outputs {
				if err := c.moveOutput(k, origin, w); err != nil {
					return err
				}
			}
		}
		v = w
	}
	return nil
}

// moveOutput makes w output k instead of v, with its name.
func (c *configurer) moveOutput(k int, v, w graph.ValueID) error {
	c.g.Outputs[k] = w
	name := c.g.Value(v).Name
	if err := c.g.Rename(v, c.g.FreshName(name+"_raw")); err != nil {
		return err
	}
	return c.g.Rename(w, name)
}
