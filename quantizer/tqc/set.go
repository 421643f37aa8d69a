package tqc

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// SlotID is a dense index into one Set.
type SlotID int32

// NoSlot stands for an absent input or output.
const NoSlot SlotID = -1

// Kind tells inputs from outputs.
type Kind uint8

const (
	Input Kind = iota
	Output
)

func (k Kind) String() string { return [...]string{"in", "out"}[k] }

// Slot is the TensorQuantizationConfig of one input or output of one node.
type Slot struct {
	ID     SlotID
	Node   graph.NodeID
	Kind   Kind
	Index  int
	Value  graph.ValueID
	Config Config
	// Weight marks a constant input that is quantized ahead of time (weight, bias, other parameter).
	Weight bool
	// Observer is how the scale was found, where Config leaves it open (ObserverAuto) or it was overridden; else empty.
	Observer Observer

	state  State
	params Params
}

// State returns the slot's state; it changes through Set only.
func (s *Slot) State() State { return s.state }

// Set holds the configuration of a whole graph: one slot per node input and output, the groups of slots that share a
// scale, and the domain of every node. It refers to the graph by id and must be used with that graph.
type Set struct {
	Domains []Domain // by NodeID
	// Why says per NodeID who decided the domain, and the reason: "target: Resize is linear", "user: type:Softmax". The word
	// before the colon is one of target, conservative, cost, user, search, import.
	Why []string
	// Fused names per NodeID the node whose operator this one is computed together with (the activation after a
	// convolution), NoNode where it stands alone. Chains are resolved: the entry is the computing node itself.
	Fused []graph.NodeID

	slots  []Slot
	inputs [][]SlotID // by NodeID
	outs   [][]SlotID
	root   []SlotID // by SlotID; a root is its own
}

// NewSet creates one slot, in state FP32, for each present input and output of every node of g; all nodes are FP32.
func NewSet(g *graph.Graph) *Set {
	s := &Set{Domains: make([]Domain, g.NumNodes()), Why: make([]string, g.NumNodes()), Fused: make([]graph.NodeID, g.NumNodes()),
		inputs: make([][]SlotID, g.NumNodes()), outs: make([][]SlotID, g.NumNodes())}
	for i := range s.Fused {
		s.Fused[i] = graph.NoNode
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		s.inputs[id] = s.add(id, Input, n.Inputs)
		s.outs[id] = s.add(id, Output, n.Outputs)
	}
	return s
}

func (s *Set) add(n graph.NodeID, k Kind, values []graph.ValueID) []SlotID {
	ids := make([]SlotID, len(values))
	for i, v := range values {
		ids[i] = NoSlot
		if v == graph.NoValue {
			continue
		}
		ids[i] = SlotID(len(s.slots))
		s.slots = append(s.slots, Slot{ID: ids[i], Node: n, Kind: k, Index: i, Value: v, state: FP32})
		s.root = append(s.root, ids[i])
	}
	return ids
}

// NumSlots is the length of a side table indexed by SlotID.
func (s *Set) NumSlots() int { return len(s.slots) }

// Slot returns the slot with this id. Its Config may be set while its state is FP32 or Initial.
func (s *Set) Slot(id SlotID) *Slot { return &s.slots[id] }

// Input and Output return the slot of one input or output, NoSlot where it is absent.
func (s *Set) Input(n graph.NodeID, i int) SlotID {
	if i < 0 || i >= len(s.inputs[n]) {
		return NoSlot
	}
	return s.inputs[n][i]
}

func (s *Set) Output(n graph.NodeID, i int) SlotID {
	if i < 0 || i >= len(s.outs[n]) {
		return NoSlot
	}
	return s.outs[n][i]
}

// Inputs and Outputs return the slots of a node, NoSlot for absent ones. The slices must not be changed.
func (s *Set) Inputs(n graph.NodeID) []SlotID  { return s.inputs[n] }
func (s *Set) Outputs(n graph.NodeID) []SlotID { return s.outs[n] }

// Root returns the slot whose scale governs id.
func (s *Set) Root(id SlotID) SlotID { return s.root[id] }

// Together returns head and the nodes that are fused to it, those in the order given; the last one computes what the others
// read.
func (s *Set) Together(head graph.NodeID, order []graph.NodeID) []graph.NodeID {
	nodes := []graph.NodeID{head}
	for _, id := range order {
		if s.Fused[id] == head {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// Group returns all slots governed by the same root as id, in ascending order.
func (s *Set) Group(id SlotID) []SlotID {
	var ids []SlotID
	r := s.Root(id)
	for i := range s.slots {
		if s.Root(SlotID(i)) == r {
			ids = append(ids, SlotID(i))
		}
	}
	return ids
}

// Params returns scale and zero point of the slot, which are its root's.
func (s *Set) Params(id SlotID) *Params { return &s.slots[s.Root(id)].params }

// Grid returns the integer grid of channel c of the slot.
func (s *Set) Grid(id SlotID, c int) qmath.Grid { return s.Params(id).Grid(&s.slots[id].Config, c) }

// Configure gives a slot its policy and makes it Initial. The slot must be FP32 or Initial and the policy valid.
func (s *Set) Configure(id SlotID, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if sl := &s.slots[id]; sl.state != FP32 && sl.state != Initial {
		return fmt.Errorf("slot %d is %s and cannot be configured again", id, sl.state)
	}
	s.slots[id].Config, s.slots[id].state = c, Initial
	return nil
}

// Dominate makes master's group govern id's whole group: both id and its root become Overlapped (PPQ's dominated_by). On an
// error nothing has changed.
func (s *Set) Dominate(id, master SlotID) error {
	r, m := s.Root(id), s.Root(master)
	if r == m {
		return fmt.Errorf("slots %d and %d share a scale already", id, master)
	}
	for _, x := range []SlotID{r, id} {
		if err := s.allowed(x, Overlapped); err != nil {
			return err
		}
	}
	s.slots[r].state, s.slots[id].state = Overlapped, Overlapped
	s.adopt(r, m)
	return nil
}

// Borrow makes id quantize with master's scale (PPQ's master_by): Passive if the scale is there, else PassiveInit. Slots
// governed by id follow. On an error nothing has changed.
func (s *Set) Borrow(id, master SlotID) error {
	m := s.Root(master)
	if s.Root(id) == m {
		return fmt.Errorf("slots %d and %d share a scale already", id, master)
	}
	if s.root[id] != id {
		return fmt.Errorf("slot %d is governed by slot %d", id, s.Root(id))
	}
	to := PassiveInit
	if s.ready(m) {
		to = Passive
	}
	if err := s.allowed(id, to); err != nil {
		return err
	}
	s.slots[id].state = to
	s.adopt(id, m)
	return nil
}

// adopt puts root r under root m. The scale of r is forgotten; slots that quantized with it or waited for it follow m.
func (s *Set) adopt(r, m SlotID) {
	s.slots[r].params = Params{}
	ready := s.ready(m)
	for i := range s.slots {
		if s.root[i] != r {
			continue
		}
		s.root[i] = m
		sl := &s.slots[i]
		if sl.state == PassiveInit && ready {
			sl.state = Passive
		} else if sl.state == Passive && !ready {
			sl.state = PassiveInit
		}
	}
}

// Advance moves a slot to another state. Moves that PPQ's life cycle does not know are errors; staying is allowed.
// Activated and Passive need a scale, or a root that was rendered without one.
func (s *Set) Advance(id SlotID, to State) error {
	if to.Quantizes() && !s.ready(s.Root(id)) {
		return fmt.Errorf("slot %d cannot become %s: it has no scale", id, to)
	}
	if err := s.allowed(id, to); err != nil {
		return err
	}
	s.slots[id].state = to
	return nil
}

// allowed reports whether the life cycle knows the move from id's state to another one.
func (s *Set) allowed(id SlotID, to State) error {
	from := s.slots[id].state
	if from == to {
		return nil
	}
	for _, t := range legal[from] {
		if t == to {
			return nil
		}
	}
	return fmt.Errorf("slot %d cannot go from %s to %s", id, from, to)
}

// ready reports whether a root has its scale, or was rendered without one because it is computed at run time.
func (s *Set) ready(root SlotID) bool {
	sl := &s.slots[root]
	return sl.params.Ready() || !sl.Config.NeedsScale() && (sl.state == Activated || sl.state == Baked)
}

// Render gives a root its scale: Initial becomes Activated (Activated stays), PassiveInit becomes Passive, and the slots that
// wait for this scale become Passive. Scales must be positive and finite, zero points within [QMin, QMax]; scales that are computed at
// run time have no Params.
func (s *Set) Render(id SlotID, p Params) error {
	sl := &s.slots[id]
	if s.Root(id) != id {
		return fmt.Errorf("slot %d is governed by slot %d", id, s.Root(id))
	}
	if err := p.check(&sl.Config); err != nil {
		return fmt.Errorf("slot %d: %w", id, err)
	}
	switch sl.state {
	case FP32:
		return fmt.Errorf("slot %d is FP32 and takes no scale", id)
	case Initial:
		sl.state = Activated
	case PassiveInit:
		sl.state = Passive
	}
	sl.params = p
	for i := range s.slots {
		if s.slots[i].state == PassiveInit && s.root[i] == id {
			s.slots[i].state = Passive
		}
	}
	return nil
}

// Clone returns an independent copy.
func (s *Set) Clone() *Set {
	c := *s
	c.Domains = append([]Domain(nil), s.Domains...)
	c.Why = append([]string(nil), s.Why...)
	c.Fused = append([]graph.NodeID(nil), s.Fused...)
	c.slots = append([]Slot(nil), s.slots...)
	c.root = append([]SlotID(nil), s.root...)
	return &c // inputs, outs and the params' slices are never written to in place
}

// Rounded is a clone in which what is no parameter is rounded by r.
func (s *Set) Rounded(r qmath.Rounding) *Set {
	c := s.Clone()
	for i := range c.slots {
		if !c.slots[i].Weight {
			c.slots[i].Config.Rounding = r
		}
	}
	return c
}
