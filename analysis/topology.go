package analysis

import (
	"cmp"
	"fmt"

	"qwb/graph"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Topology is a graph as it is drawn: operators, the tensors between them, and the blocks they stand in. Constants are left out.
type Topology struct {
	Nodes  []TopologyNode `json:"nodes"`  // the inputs of the graph, operators in canonical order, the outputs
	Edges  []TopologyEdge `json:"edges"`  // in the order of their readers
	Blocks []Block        `json:"blocks"` // each behind its parent
}

// TopologyNode is an operator, or an input or output of the graph.
type TopologyNode struct {
	// Name is the operator's; of an input or output of the graph the selector "input:VALUE" or "output:VALUE".
	Name   string `json:"name"`
	Op     string `json:"op"`     // "Input" and "Output" for those of the graph
	Block  int    `json:"block"`  // the innermost one, -1 for none
	Domain string `json:"domain"` // as tqc.Domain writes it; empty where nothing is decided, and of inputs and outputs
	MACs   int64  `json:"macs"`   // at least; dimensions that are not known count as 1
	Fused  int    `json:"fused"`  // the operator that it is computed together with, -1 for none
	// Weights and Activations are the schemes of the weight and of what it is multiplied with (or, without a weight, of the first tensor that
	// is quantized), int8-sym-channel for instance; empty where they stay float.
	Weights     string `json:"weights"`
	Activations string `json:"activations"`
}

// The ways in which a tensor changes between two operators. None: it stays as it is.
const (
	MarkQuantize   = "q"      // float before, integer after
	MarkDequantize = "dq"     // integer before, float after
	MarkBoth       = "qdq"    // it is rounded to a grid of its own and goes on as integers
	MarkShared     = "shared" // it is rounded to the grid of another tensor
)

// TopologyEdge is a tensor from the operator that computes it to one that reads it.
type TopologyEdge struct {
	From  int    `json:"from"`  // index in Nodes
	To    int    `json:"to"`    // index in Nodes
	Value string `json:"value"` // the tensor's name
	Type  string `json:"type"`  // as it is stored: f32, or the format where it travels in integers
	Shape []any  `json:"shape"` // as ValueInfo has it
	Bytes int64  `json:"bytes"` // of one sample in this type; 0 where sizes are not known
	Mark  string `json:"mark"`  // one of those above, or empty
}

// Block is a part of the graph that can be drawn as one box: no path leaves it and comes back.
type Block struct {
	Name string `json:"name"` // no other block has it
	// Kind is why it is one: "scope" (a common prefix of names), "residual" and "branch" (paths that part and meet in a sum, or elsewhere),
	// the name of a pattern in lower case ("attention", "layernorm", ...), "repeat" (so many alike after each other) and "unit" (one of
	// those, where nothing else made it a block).
	Kind   string `json:"kind"`
	Parent int    `json:"parent"` // an earlier block, -1 for none
	Repeat int    `json:"repeat"` // of kind repeat: how many; else 1
}

// NewTopology describes g as set quantizes it; without a set, g alone. fused holds per NodeID the operator that one is computed together
// with, NoNode for none; nil: as set says.
func NewTopology(g *graph.Graph, set *tqc.Set, fused []graph.NodeID) (*Topology, error) {
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	if fused == nil && set != nil {
		fused = set.Fused
	}
	t := &topology{g: g, one: oneSample(g), set: set, node: make([]int, g.NumNodes())}
	t.Nodes, t.Edges = []TopologyNode{}, []TopologyEdge{}
	input := map[graph.ValueID]int{}
	for _, v := range g.Inputs {
		if g.Const(v) == nil {
			input[v] = len(t.Nodes)
			t.Nodes = append(t.Nodes, TopologyNode{Name: "input:" + g.Value(v).Name, Op: "Input", Block: -1, Fused: -1})
		}
	}
	first := len(t.Nodes)
	for i, id := range order {
		t.node[id] = first + i
		t.Nodes = append(t.Nodes, t.operator(id))
	}
	from := func(v graph.ValueID) int {
		if p := g.Producer(v); p != graph.NoNode {
			return t.node[p]
		}
		if i, ok := input[v]; ok {
			return i
		}
		return -1
	}
	inputs := make([][]int, len(order)) // by place in order: where operators read from
	for i, id := range order {
		n := g.Node(id)
		if fused != nil && fused[id] != graph.NoNode {
			t.Nodes[first+i].Fused = t.node[fused[id]]
		}
		for k, v := range reads(g, n) {
			if v == graph.NoValue || from(v) < 0 {
				continue
			}
			inputs[i] = append(inputs[i], from(v)-first)
			t.Edges = append(t.Edges, t.edge(from(v), first+i, v, id, k))
		}
	}
	for _, v := range g.Outputs {
		to := len(t.Nodes)
		t.Nodes = append(t.Nodes, TopologyNode{Name: "output:" + g.Value(v).Name, Op: "Output", Block: -1, Fused: -1})
		if from(v) >= 0 {
			t.Edges = append(t.Edges, t.edge(from(v), to, v, graph.NoNode, 0))
		}
	}
	f := newFolding(g, order, inputs)
	t.Blocks = f.fold()
	for i := range order {
		t.Nodes[first+i].Block = f.block[i]
	}
	return &t.Topology, nil
}

// reads lists what a node needs: its inputs, then what the graphs inside it capture.
func reads(g *graph.Graph, n *graph.Node) []graph.ValueID {
	list := n.Inputs
	for _, name := range n.CapturedNames() {
		if v, ok := g.Lookup(name); ok {
			list = append(list[:len(list):len(list)], v)
		}
	}
	return list
}

type topology struct {
	Topology
	g, one *graph.Graph // one: for one sample
	set    *tqc.Set
	node   []int // by NodeID
}

func (t *topology) operator(id graph.NodeID) TopologyNode {
	n := t.g.Node(id)
	info := TopologyNode{Name: n.Name, Op: opName(n), Block: -1, Fused: -1}
	info.MACs, _ = t.one.MACsAtLeast(id)
	if t.set == nil {
		return info
	}
	info.Domain = t.set.Domains[id].String()
	for _, list := range [][]tqc.SlotID{t.set.Inputs(id), t.set.Outputs(id)} {
		for _, s := range list {
			if s == tqc.NoSlot || t.set.Slot(s).State() == tqc.FP32 {
				continue
			}
			slot := t.set.Slot(s)
			switch scheme := schemeWord(slot.Config); {
			case slot.Weight && slot.Index == 1:
				info.Weights = scheme
			case !slot.Weight:
				info.Activations = cmp.Or(info.Activations, scheme)
			}
		}
	}
	return info
}

// schemeWord is a scheme as it is written in a plan; where none says it, the format.
func schemeWord(c tqc.Config) string {
	if s, err := tqc.SchemeOf(c); err == nil {
		return s.String()
	}
	return c.FormatName()
}

// edge is value v on its way to input k of reader, NoNode for an output of the graph.
func (t *topology) edge(from, to int, v graph.ValueID, reader graph.NodeID, k int) TopologyEdge {
	value := t.g.Value(v)
	e := TopologyEdge{From: from, To: to, Value: value.Name, Type: value.DType.String(), Shape: dims(value.Shape), Bytes: valueBytes(t.one, v)}
	if t.set == nil {
		return e
	}
	written, read := t.written(v), tqc.NoSlot
	if reader != graph.NoNode && target.DataInput(t.g, reader, k) {
		read = t.set.Input(reader, k)
	}
	slot := read // the one that rounds the tensor, if any
	if !t.rounds(read) {
		slot = written
	}
	switch before, after := t.integer(written), t.integer(read); {
	case !t.rounds(slot):
	case before && after:
		e.Mark = MarkBoth
		if t.set.Slot(t.set.Root(slot)).Value != v {
			e.Mark = MarkShared
		}
	case before:
		e.Mark = MarkDequantize
	case after:
		e.Mark = MarkQuantize
	}
	if e.Mark != "" && e.Mark != MarkQuantize {
		c := &t.set.Slot(slot).Config
		e.Type = c.FormatName()
		if n, err := t.one.Value(v).Shape.Elements(); err == nil && n > 0 {
			e.Bytes = (n*int64(c.Bits) + 7) / 8
		}
	}
	return e
}

// written is the slot that computes v, NoSlot for an input of the graph.
func (t *topology) written(v graph.ValueID) tqc.SlotID {
	p := t.g.Producer(v)
	if p == graph.NoNode {
		return tqc.NoSlot
	}
	for i, w := range t.g.Node(p).Outputs {
		if w == v {
			return t.set.Output(p, i)
		}
	}
	return tqc.NoSlot
}

// integer reports whether the operator of a slot runs on integers.
func (t *topology) integer(id tqc.SlotID) bool {
	return id != tqc.NoSlot && t.set.Domains[t.set.Slot(id).Node] == tqc.DomainInt
}

// rounds reports whether a slot is one that rounds its tensor to integers, now or when it has a scale.
func (t *topology) rounds(id tqc.SlotID) bool {
	if !t.integer(id) {
		return false
	}
	state := t.set.Slot(id).State()
	return state != tqc.FP32 && state != tqc.Overlapped
}

// opName is the operator with its domain, if that is not ONNX's.
func opName(n *graph.Node) string {
	if n.IsONNX() {
		return n.Op
	}
	return fmt.Sprintf("%s::%s", n.Domain, n.Op)
}
