package tqc

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// State is the life of a slot. The names are PPQ's. Only Activated and Passive quantize when the graph runs.
type State uint8

const (
	Initial      State = iota // configured, waiting for a range
	Activated                 // has its own scale and quantizes
	Baked                     // a parameter that was replaced by its fake-quantized value
	Overlapped                // another slot quantizes this tensor
	PassiveInit               // will borrow a scale that is not there yet
	Passive                   // quantizes with a borrowed scale
	PassiveBaked              // Passive, and the parameter was replaced
	FP32                      // never quantized
)

var stateNames = [...]string{"INITIAL", "ACTIVATED", "BAKED", "OVERLAPPED", "PASSIVE_INIT", "PASSIVE", "PASSIVE_BAKED", "FP32"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("STATE(%d)", uint8(s))
}

func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if name == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown state %q", b)
}

// Quantizes reports whether a slot in this state quantizes when the graph runs.
func (s State) Quantizes() bool { return s == Activated || s == Passive }

// legal[from] lists the states a slot may go to.
var legal = [...][]State{
	Initial:      {Activated, Overlapped, PassiveInit, Passive, FP32},
	Activated:    {Baked, Overlapped, PassiveInit, Passive, FP32, Initial},
	Baked:        {Activated},
	Overlapped:   {FP32, Initial},
	PassiveInit:  {Passive, Overlapped, FP32, Initial},
	Passive:      {PassiveBaked, Overlapped, FP32, PassiveInit, Initial},
	PassiveBaked: {Passive},
	FP32:         {Initial},
}

// Domain says where a node runs.
type Domain uint8

const (
	DomainFP32 Domain = iota // as a float island
	DomainINT8               // quantized
	DomainSOI                // shape or index computation: never quantized, runs on the host
)

var domainNames = [...]string{"FP32", "INT8", "SOI"}

func (d Domain) String() string {
	if int(d) < len(domainNames) {
		return domainNames[d]
	}
	return fmt.Sprintf("DOMAIN(%d)", uint8(d))
}

func (d Domain) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *Domain) UnmarshalText(b []byte) error {
	for i, name := range domainNames {
		if name == string(b) {
			*d = Domain(i)
			return nil
		}
	}
	return fmt.Errorf("unknown domain %q", b)
}

// Params are scale and zero point: one entry per tensor, or one per channel along the config's axis, or, per group, one
// per block in the row-major order of the scale tensor.
type Params struct {
	Scale     []float32
	ZeroPoint []int32
}

// Ready reports whether there is a scale.
func (p *Params) Ready() bool { return p != nil && len(p.Scale) > 0 }

// Grid returns the integer grid of channel c under cfg; with one scale, c is ignored.
func (p *Params) Grid(cfg *Config, c int) qmath.Grid {
	if len(p.Scale) == 1 {
		c = 0
	}
	return qmath.Grid{Scale: p.Scale[c], ZeroPoint: p.ZeroPoint[c], QMin: cfg.QMin, QMax: cfg.QMax, Rounding: cfg.Rounding}
}

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

	state  State
	params Params
}

// State returns the slot's state; it changes through Set only.
func (s *Slot) State() State { return s.state }

// Set holds the configuration of a whole graph: one slot per node input and output, the groups of slots that share a
// scale, and the domain of every node. It refers to the graph by id and must be used with that graph.
type Set struct {
	Domains []Domain // by NodeID
	// Why says per NodeID who decided the domain: "target", "conservative", "user", "search" ...
	Why []string

	slots  []Slot
	inputs [][]SlotID // by NodeID
	outs   [][]SlotID
	parent []SlotID
}

// NewSet creates one slot, in state FP32, for each present input and output of every node of g; all nodes are FP32.
func NewSet(g *graph.Graph) *Set {
	s := &Set{Domains: make([]Domain, g.NumNodes()), Why: make([]string, g.NumNodes()),
		inputs: make([][]SlotID, g.NumNodes()), outs: make([][]SlotID, g.NumNodes())}
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
		s.parent = append(s.parent, ids[i])
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
func (s *Set) Root(id SlotID) SlotID {
	for s.parent[id] != id { // no path compression: readers may run in parallel
		id = s.parent[id]
	}
	return id
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

// Dominate makes master's group govern id's whole group: both id and its root become Overlapped (PPQ's dominated_by).
func (s *Set) Dominate(id, master SlotID) error {
	r, m := s.Root(id), s.Root(master)
	if r == m {
		return fmt.Errorf("slots %d and %d share a scale already", id, master)
	}
	for _, x := range []SlotID{r, id} {
		if err := s.Advance(x, Overlapped); err != nil {
			return err
		}
	}
	s.parent[r] = m
	return nil
}

// Borrow makes id quantize with master's scale (PPQ's master_by): Passive if the scale is there, else PassiveInit. Slots
// governed by id follow.
func (s *Set) Borrow(id, master SlotID) error {
	m := s.Root(master)
	if s.Root(id) == m {
		return fmt.Errorf("slots %d and %d share a scale already", id, master)
	}
	if s.parent[id] != id {
		return fmt.Errorf("slot %d is governed by slot %d", id, s.Root(id))
	}
	to := PassiveInit
	if s.slots[m].params.Ready() {
		to = Passive
	}
	if err := s.Advance(id, to); err != nil {
		return err
	}
	s.parent[id] = m
	return nil
}

// Advance moves a slot to another state. Moves that PPQ's life cycle does not know are errors; staying is allowed.
// Activated and Passive need a scale.
func (s *Set) Advance(id SlotID, to State) error {
	sl := &s.slots[id]
	if sl.state == to {
		return nil
	}
	if to.Quantizes() && !s.Params(id).Ready() {
		return fmt.Errorf("slot %d cannot become %s: it has no scale", id, to)
	}
	for _, t := range legal[sl.state] {
		if t == to {
			sl.state = to
			return nil
		}
	}
	return fmt.Errorf("slot %d cannot go from %s to %s", id, sl.state, to)
}

// Render gives a root its scale: Initial becomes Activated (Activated stays), PassiveInit becomes Passive, and the slots that
// wait for this scale become Passive. Scales must be positive and finite, zero points within [QMin, QMax].
func (s *Set) Render(id SlotID, p Params) error {
	sl := &s.slots[id]
	if s.Root(id) != id {
		return fmt.Errorf("slot %d is governed by slot %d", id, s.Root(id))
	}
	if err := p.check(&sl.Config); err != nil {
		return fmt.Errorf("slot %d: %w", id, err)
	}
	old := sl.params
	sl.params = p
	to := sl.state
	switch sl.state {
	case Initial:
		to = Activated
	case PassiveInit:
		to = Passive
	}
	if err := s.Advance(id, to); err != nil {
		sl.params = old
		return err
	}
	for i := range s.slots {
		if s.slots[i].state == PassiveInit && s.Root(SlotID(i)) == id {
			s.slots[i].state = Passive
		}
	}
	return nil
}

func (p *Params) check(c *Config) error {
	if len(p.Scale) == 0 || len(p.Scale) != len(p.ZeroPoint) {
		return fmt.Errorf("%d scales and %d zero points", len(p.Scale), len(p.ZeroPoint))
	}
	if c.Policy.Has(PerTensor) && len(p.Scale) != 1 {
		return fmt.Errorf("%d scales for a per-tensor policy", len(p.Scale))
	}
	for i := range p.Scale {
		if !qmath.Representable(p.Scale[i]) {
			return fmt.Errorf("scale %g", p.Scale[i])
		}
		if z := p.ZeroPoint[i]; z < c.QMin || z > c.QMax {
			return fmt.Errorf("zero point %d outside [%d, %d]", z, c.QMin, c.QMax)
		}
	}
	return nil
}

// Clone returns an independent copy.
func (s *Set) Clone() *Set {
	c := *s
	c.Domains = append([]Domain(nil), s.Domains...)
	c.Why = append([]string(nil), s.Why...)
	c.slots = append([]Slot(nil), s.slots...)
	c.parent = append([]SlotID(nil), s.parent...)
	return &c // inputs, outs and the params' slices are never written to in place
}
