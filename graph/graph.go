package graph

import (
	"fmt"
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
	own      *Operator // see Adopt
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
	// Store, not nil where constants do not fit into the memory for work, has them in files. Nothing large is kept in memory that
	// was made of constants of such a graph: it becomes a constant, or it is made whenever it is needed.
	Store Store

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
func (g *Graph) IsInput(v ValueID) bool { return slices.Contains(g.Inputs, v) }

// IsOutput reports whether v is among the graph's outputs.
func (g *Graph) IsOutput(v ValueID) bool { return slices.Contains(g.Outputs, v) }

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

// Output returns the node's i-th output, NoValue if it is absent.
func (n *Node) Output(i int) ValueID {
	if i < 0 || i >= len(n.Outputs) {
		return NoValue
	}
	return n.Outputs[i]
}

// smallConstant is how many bytes a constant has at most whose derivatives are always kept.
const smallConstant = 64 << 10

// Keeps reports whether what is made of a constant may be kept in memory; see Store.
func (g *Graph) Keeps(t *tensor.Tensor) bool {
	return g.Store == nil || t.DType.Bytes(t.Len()) <= smallConstant
}

// Store has constants in files, of which only what was read a moment ago takes memory. It may be used from several goroutines.
type Store interface {
	// Holds reports whether a tensor lies in a file. It reads none of it.
	Holds(t *tensor.Tensor) bool
	// Forget says that a tensor is not read for a while.
	Forget(t *tensor.Tensor)
	// Keep returns a tensor with the elements of t that lies in a file, t itself where that cannot be. It may be written to.
	Keep(t *tensor.Tensor) *tensor.Tensor
}

// Stored is a constant as the graph has it: large ones where its store keeps them.
func (g *Graph) Stored(t *tensor.Tensor) *tensor.Tensor {
	if t == nil || g.Keeps(t) || g.Store.Holds(t) {
		return t
	}
	return g.Store.Keep(t)
}

// Forget says that a constant is not read for a while; see Store.
func (g *Graph) Forget(t *tensor.Tensor) {
	if g.Store != nil && t != nil {
		g.Store.Forget(t)
	}
}

// Const returns the tensor of v if v is a constant, else nil. NoValue gives nil.
func (g *Graph) Const(v ValueID) *tensor.Tensor {
	if v == NoValue {
		return nil
	}
	return g.values[v].Const
}
