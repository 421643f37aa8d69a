package graph

import (
	"fmt"

	"qwb/graph/tensor"
)

// AddValue adds a value. The name must be new; an empty one is replaced by a fresh name.
func (g *Graph) AddValue(v Value) (ValueID, error) {
	if v.Name == "" {
		v.Name = g.FreshName("value")
	}
	if _, dup := g.byName[v.Name]; dup {
		return NoValue, fmt.Errorf("value %q is defined twice", v.Name)
	}
	v.ID, v.producer, v.uses = ValueID(len(g.values)), NoNode, nil
	if v.Const != nil {
		v.DType = v.Const.DType
		v.Shape = Static(v.Const.Shape...)
	}
	g.values = append(g.values, v)
	g.byName[v.Name] = v.ID
	return v.ID, nil
}

// OwnConst makes a constant input of a node t, for this node only: a constant that others read, or that a feed may replace, stays theirs.
func (g *Graph) OwnConst(id NodeID, input int, t *tensor.Tensor) {
	v := g.nodes[id].Inputs[input]
	if _, sole := g.SoleUse(v); sole && !g.IsInput(v) {
		g.SetConst(v, t)
		return
	}
	g.SetInput(id, input, g.AddConst(g.values[v].Name, t))
}

// AddConst adds a constant under name, or under a fresh name derived from it where it is taken.
func (g *Graph) AddConst(name string, t *tensor.Tensor) ValueID {
	id, _ := g.AddValue(Value{Name: g.FreshName(name), Const: g.Stored(t)})
	return id
}

// FreshName returns base if no value and no node has that name, else base_1, base_2 ...
func (g *Graph) FreshName(base string) string {
	for name := base; ; name = fmt.Sprintf("%s_%d", base, g.suffix[base]) {
		if _, taken := g.byName[name]; !taken {
			if _, taken = g.nodeByName[name]; !taken {
				return name
			}
		}
		g.suffix[base]++
	}
}

// AddNode adds a node whose inputs and outputs exist already. An output must not have a producer, be a constant or be a
// graph input. An empty name is replaced by a fresh one derived from the operator, a taken one by one derived from it.
func (g *Graph) AddNode(n Node) (NodeID, error) {
	n.ID, n.dead = NodeID(len(g.nodes)), false
	for _, v := range append(append([]ValueID(nil), n.Inputs...), n.Outputs...) {
		if v != NoValue && (v < 0 || int(v) >= len(g.values) || g.values[v].dead) {
			return NoNode, fmt.Errorf("node %q: no value with id %d", n.Name, v)
		}
	}
	for i, v := range n.Outputs {
		if v == NoValue {
			continue
		}
		val := &g.values[v]
		if val.producer != NoNode || val.Const != nil || g.IsInput(v) {
			for _, set := range n.Outputs[:i] {
				if set != NoValue {
					g.values[set].producer = NoNode
				}
			}
			return NoNode, fmt.Errorf("node %q: value %q is defined twice", n.Name, val.Name)
		}
		val.producer = n.ID
	}
	if n.Name == "" {
		n.Name = g.FreshName(n.Op)
	} else if _, taken := g.nodeByName[n.Name]; taken {
		n.Name = g.FreshName(n.Name)
	}
	g.nodes = append(g.nodes, n)
	g.nodeByName[n.Name] = n.ID
	if n.hasSubgraphs() {
		g.withGraphs = append(g.withGraphs, n.ID)
	}
	for i, v := range n.Inputs {
		if v != NoValue {
			g.values[v].uses = append(g.values[v].uses, Use{n.ID, i})
		}
	}
	return n.ID, nil
}

// RemoveNode removes a node. Its outputs lose their producer; those that nobody reads are removed too.
func (g *Graph) RemoveNode(id NodeID) {
	n := &g.nodes[id]
	if n.dead {
		return
	}
	for i, v := range n.Inputs {
		g.dropUse(v, Use{id, i})
	}
	n.dead = true
	delete(g.nodeByName, n.Name)
	for _, v := range n.Outputs {
		if v == NoValue {
			continue
		}
		g.values[v].producer = NoNode
		if len(g.values[v].uses) == 0 && !g.IsOutput(v) {
			g.RemoveValue(v)
		}
	}
	n.Inputs, n.Outputs = nil, nil
}

// RemoveValue removes a value that has no producer and no readers and is neither graph input nor output; otherwise it
// does nothing.
func (g *Graph) RemoveValue(v ValueID) {
	val := &g.values[v]
	if val.dead || val.producer != NoNode || len(val.uses) > 0 || g.IsInput(v) || g.IsOutput(v) {
		return
	}
	val.dead = true
	delete(g.byName, val.Name)
}

// SetInput makes node id read v at input i, extending the inputs with absent ones as needed.
func (g *Graph) SetInput(id NodeID, i int, v ValueID) {
	n := &g.nodes[id]
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, NoValue)
	}
	g.dropUse(n.Inputs[i], Use{id, i})
	n.Inputs[i] = v
	if v != NoValue {
		g.values[v].uses = append(g.values[v].uses, Use{id, i})
	}
	for len(n.Inputs) > 0 && n.Inputs[len(n.Inputs)-1] == NoValue {
		n.Inputs = n.Inputs[:len(n.Inputs)-1]
	}
}

// SetOutput makes v the output i of node id. The value that was there before has no producer afterwards. v must not have a
// producer yet, and must be neither a constant nor a graph input.
func (g *Graph) SetOutput(id NodeID, i int, v ValueID) error {
	val := &g.values[v]
	if val.producer != NoNode || val.Const != nil || g.IsInput(v) {
		return fmt.Errorf("node %q: value %q is defined twice", g.nodes[id].Name, val.Name)
	}
	if old := g.nodes[id].Outputs[i]; old != NoValue {
		g.values[old].producer = NoNode
	}
	g.nodes[id].Outputs[i] = v
	val.producer = id
	return nil
}

// ReplaceUses makes every node that reads old read v instead. Graph outputs keep old.
func (g *Graph) ReplaceUses(old, v ValueID) {
	for _, u := range append([]Use(nil), g.values[old].uses...) {
		g.SetInput(u.Node, u.Index, v)
	}
}

// Rename gives a value another name, which must be free.
func (g *Graph) Rename(v ValueID, name string) error {
	if id, taken := g.byName[name]; taken && id != v {
		return fmt.Errorf("value %q is defined twice", name)
	}
	delete(g.byName, g.values[v].Name)
	g.values[v].Name = name
	g.byName[name] = v
	return nil
}

// SetConst gives a value without producer a constant; the type of the value follows.
func (g *Graph) SetConst(v ValueID, t *tensor.Tensor) {
	val, t := &g.values[v], g.Stored(t)
	val.Const, val.DType, val.Shape = t, t.DType, Static(t.Shape...)
}

func (g *Graph) dropUse(v ValueID, u Use) {
	if v == NoValue {
		return
	}
	uses := g.values[v].uses
	for i := range uses {
		if uses[i] == u {
			switch i { // callers of Uses may hold the slice: nothing is moved in it
			case 0:
				g.values[v].uses = uses[1:]
			case len(uses) - 1:
				g.values[v].uses = uses[:i:i]
			default:
				g.values[v].uses = append(uses[:i:i], uses[i+1:]...)
			}
			return
		}
	}
}
