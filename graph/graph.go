package graph

import (
	"fmt"
	"maps"
	"slices"

	"qwb/graph/tensor"
)

// NodeID and ValueID are dense indices into one Graph. They stay valid until Compact.
type (
	NodeID  int32
	ValueID int32
)

const (
	NoNode  NodeID  = -1
	NoValue ValueID = -1 // an absent optional input or output
)

// Node is one operator. Inputs and Outputs may hold NoValue for absent optional ones. Change Name, Inputs and Outputs only
// through the methods of Graph; the other fields may be set directly, except that attributes holding graphs must be there
// when the node is added.
type Node struct {
	ID       NodeID
	Name     string // unique in the graph and not empty
	Op       string // ONNX op_type
	Domain   string // "" is ai.onnx
	Doc      string
	Overload string
	Attrs    []Attr
	Inputs   []ValueID
	Outputs  []ValueID
	dead     bool
}

// Value is one tensor of the graph. Exactly one of these holds: it is a graph input (or, in a subgraph, a value of an
// enclosing graph), it has a producing node, or Const is set. A constant may be a graph input as well (ONNX IR 3).
type Value struct {
	ID    ValueID
	Name  string // unique in the graph
	Doc   string
	DType tensor.DType // Undefined while unknown
	Shape Shape        // nil while unknown
	Const *tensor.Tensor
	// Outer marks a value of a subgraph that is captured by name from an enclosing graph.
	Outer bool

	producer NodeID
	dead     bool
	uses     []Use
}

// Use is one place where a value is read: input Index of node Node.
type Use struct {
	Node  NodeID
	Index int
}

// Opset is one imported operator set.
type Opset struct {
	Domain  string
	Version int64
}

// Graph is a directed acyclic graph of operators over values, stored in dense slices. It is not safe for concurrent
// mutation; any number of goroutines may read it.
type Graph struct {
	Name    string
	Doc     string
	Inputs  []ValueID // in the model's order; includes those that are constants as well
	Outputs []ValueID
	Opsets  []Opset

	nodes  []Node
	values []Value
	byName map[string]ValueID

	nodeByName map[string]NodeID
	withGraphs []NodeID       // nodes that were added with subgraphs, removed ones included
	suffix     map[string]int // by base: where FreshName goes on counting
}

// New returns an empty graph that imports ai.onnx at the given version.
func New(name string, opset int64) *Graph {
	return &Graph{Name: name, Opsets: []Opset{{"", opset}}, byName: map[string]ValueID{},
		nodeByName: map[string]NodeID{}, suffix: map[string]int{}}
}

// Opset returns the imported version of a domain ("" and "ai.onnx" are the same), 0 if it is not imported.
func (g *Graph) Opset(domain string) int64 {
	if domain == "ai.onnx" {
		domain = ""
	}
	for _, o := range g.Opsets {
		if o.Domain == domain || domain == "" && o.Domain == "ai.onnx" {
			return o.Version
		}
	}
	return 0
}

// NumNodes and NumValues are the lengths for side tables indexed by NodeID and ValueID; removed entries are counted.
func (g *Graph) NumNodes() int  { return len(g.nodes) }
func (g *Graph) NumValues() int { return len(g.values) }

// Node returns the node with this id. The pointer is valid until the next AddNode. It panics on an id out of range.
func (g *Graph) Node(id NodeID) *Node { return &g.nodes[id] }

// Value returns the value with this id. The pointer is valid until the next AddValue. It panics on an id out of range.
func (g *Graph) Value(id ValueID) *Value { return &g.values[id] }

// Alive reports whether the node has not been removed.
func (g *Graph) Alive(id NodeID) bool { return id >= 0 && !g.nodes[id].dead }

// Nodes returns the ids of all nodes in storage order, removed ones left out. Use Order for an order of execution.
func (g *Graph) Nodes() []NodeID {
	ids := make([]NodeID, 0, len(g.nodes))
	for i := range g.nodes {
		if !g.nodes[i].dead {
			ids = append(ids, NodeID(i))
		}
	}
	return ids
}

// Values returns the ids of all values in storage order, removed ones left out.
func (g *Graph) Values() []ValueID {
	ids := make([]ValueID, 0, len(g.values))
	for i := range g.values {
		if !g.values[i].dead {
			ids = append(ids, ValueID(i))
		}
	}
	return ids
}

// Lookup finds a value by name.
func (g *Graph) Lookup(name string) (ValueID, bool) {
	id, ok := g.byName[name]
	return id, ok
}

// LookupNode finds a node by name.
func (g *Graph) LookupNode(name string) (NodeID, bool) {
	if id, ok := g.nodeByName[name]; ok {
		return id, true
	}
	return NoNode, false
}

// RenameNode gives a node another name, which must be free and not empty.
func (g *Graph) RenameNode(id NodeID, name string) error {
	if other, taken := g.nodeByName[name]; name == "" || taken && other != id {
		return fmt.Errorf("node name %q is empty or taken", name)
	}
	delete(g.nodeByName, g.nodes[id].Name)
	g.nodes[id].Name = name
	g.nodeByName[name] = id
	return nil
}

// Producer returns the node that computes v, NoNode for inputs and constants.
func (g *Graph) Producer(v ValueID) NodeID {
	if v == NoValue {
		return NoNode
	}
	return g.values[v].producer
}

// Uses returns the places where v is read by nodes of this graph. The slice must not be changed. Captures by subgraphs
// and graph outputs are not among them: see CapturedBy and IsOutput.
func (g *Graph) Uses(v ValueID) []Use { return g.values[v].uses }

// IsInput reports whether v is among the graph's inputs.
func (g *Graph) IsInput(v ValueID) bool { return contains(g.Inputs, v) }

// IsOutput reports whether v is among the graph's outputs.
func (g *Graph) IsOutput(v ValueID) bool { return contains(g.Outputs, v) }

// SoleUse returns the only reader of v, and false if v has several readers, is a graph output or is captured by a
// subgraph: only then may a rewrite fuse v away.
func (g *Graph) SoleUse(v ValueID) (Use, bool) {
	u := g.values[v].uses
	if len(u) != 1 || g.IsOutput(v) || g.Captured(v) {
		return Use{}, false
	}
	return u[0], true
}

// Captured reports whether a subgraph of some node reads v by name.
func (g *Graph) Captured(v ValueID) bool {
	return g.subgraphCaptures(g.values[v].Name)
}

func (g *Graph) subgraphCaptures(name string) bool {
	for _, id := range g.withGraphs {
		if g.nodes[id].dead {
			continue
		}
		for _, sub := range g.nodes[id].Subgraphs() {
			if sub.captures(name) {
				return true
			}
		}
	}
	return false
}

func (g *Graph) captures(name string) bool {
	if id, ok := g.byName[name]; ok {
		return g.values[id].Outer
	}
	return g.subgraphCaptures(name)
}

// Subgraphs returns the graphs among the node's attributes (If, Loop, Scan).
func (n *Node) Subgraphs() []*Graph {
	var subs []*Graph
	for i := range n.Attrs {
		if g := n.Attrs[i].G; g != nil {
			subs = append(subs, g)
		}
		subs = append(subs, n.Attrs[i].Graphs...)
	}
	return subs
}

func (n *Node) hasSubgraphs() bool {
	for i := range n.Attrs {
		if n.Attrs[i].G != nil || len(n.Attrs[i].Graphs) > 0 {
			return true
		}
	}
	return false
}

// Input returns input i of the node, NoValue if it is absent.
func (n *Node) Input(i int) ValueID {
	if i < 0 || i >= len(n.Inputs) {
		return NoValue
	}
	return n.Inputs[i]
}

// Const returns the tensor of v if v is a constant, else nil. NoValue gives nil.
func (g *Graph) Const(v ValueID) *tensor.Tensor {
	if v == NoValue {
		return nil
	}
	return g.values[v].Const
}

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

// AddConst adds a constant under name, or under a fresh name derived from it where it is taken.
func (g *Graph) AddConst(name string, t *tensor.Tensor) ValueID {
	id, _ := g.AddValue(Value{Name: g.FreshName(name), Const: t})
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

// SetOutput makes node id compute v as its output i instead of what it computed before, which loses its producer.
// v must have no producer and be neither constant nor graph input.
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
	val := &g.values[v]
	val.Const, val.DType, val.Shape = t, t.DType, Static(t.Shape...)
}

func (g *Graph) dropUse(v ValueID, u Use) {
	if v == NoValue {
		return
	}
	uses := g.values[v].uses
	for i := range uses {
		if uses[i] == u {
			g.values[v].uses = append(uses[:i:i], uses[i+1:]...)
			return
		}
	}
}

func contains(list []ValueID, v ValueID) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// Clone returns a deep copy that shares constant tensors (which are never written to) and keeps all ids.
func (g *Graph) Clone() *Graph {
	c := &Graph{Name: g.Name, Doc: g.Doc, Inputs: append([]ValueID(nil), g.Inputs...),
		Outputs: append([]ValueID(nil), g.Outputs...), Opsets: append([]Opset(nil), g.Opsets...),
		nodes: append([]Node(nil), g.nodes...), values: append([]Value(nil), g.values...),
		byName: maps.Clone(g.byName), nodeByName: maps.Clone(g.nodeByName), suffix: maps.Clone(g.suffix),
		withGraphs: slices.Clone(g.withGraphs)}
	for i := range c.nodes {
		n := &c.nodes[i]
		n.Inputs = append([]ValueID(nil), n.Inputs...)
		n.Outputs = append([]ValueID(nil), n.Outputs...)
		n.Attrs = append([]Attr(nil), n.Attrs...)
		for k := range n.Attrs {
			if sub := n.Attrs[k].G; sub != nil {
				n.Attrs[k].G = sub.Clone()
			}
			for s, sub := range n.Attrs[k].Graphs {
				if s == 0 {
					n.Attrs[k].Graphs = append([]*Graph(nil), n.Attrs[k].Graphs...)
				}
				n.Attrs[k].Graphs[s] = sub.Clone()
			}
		}
	}
	for i := range c.values {
		c.values[i].uses = append([]Use(nil), c.values[i].uses...)
	}
	return c
}
