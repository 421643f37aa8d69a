package sim

import (
	"fmt"
	"slices"
	"sync/atomic"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Options say what the simulator shares with others. Float operators are rounded as their domains say: fp16 and bf16 round everything they
// read and write; tf32 rounds what operators that sum products read.
type Options struct {
	// Runs is the graph that the executor runs, nil for the simulator's own. It may be another clone whose constants differ, a float
	// reference for instance: the simulator replaces them by its own, and quantizes those, wherever a view quantizes the node's weight.
	Runs *graph.Graph
	// Constants shares replaced parameters with other simulators; nil does not.
	Constants *Constants
}

// Mode is how far a quantizer goes.
type Mode uint8

const (
	Quantize Mode = iota // clip and round
	Clip                 // clip to the range of the grid only
)

// Simulator quantizes the tensors of one graph by one set of configs. It may be shared by goroutines; each of them needs Hooks
// of its own. Graph and set must not change while it is in use.
type Simulator struct {
	g      *graph.Graph
	set    *tqc.Set
	order  []graph.NodeID
	table  *kernels.Table
	shared *Constants
	// consts holds, per Mode and for islands, the replaced constants by SlotID.
	consts [3][]reference
	// own marks, by SlotID, constants that the graph that runs has otherwise.
	own []bool
	odd Odd // see Infinite
	// cells counts the states of cells that were quantized, and those of them that were cut off; see CutCells.
	cells, cut atomic.Int64
}

// CutCells is the share of states of the cells of LSTMs on integers that lay outside of their grid in the simulations so far, 0 to 1.
func (s *Simulator) CutCells() float64 {
	return float64(s.cut.Load()) / float64(max(s.cells.Load(), 1))
}

// Infinite names the tensors of which simulations of the whole, so far, have quantized an infinite number, which became the largest or the
// smallest code, and the outputs that held NaN or an infinite number. The float network may have it there too (a mask).
func (s *Simulator) Infinite() []string { return s.odd.Names() }

// Quantizes reports whether a tensor is quantized: by the operator that computes it, or in front of one that reads it.
func (s *Simulator) Quantizes(v graph.ValueID) bool {
	if p := s.g.Producer(v); p != graph.NoNode {
		for i, out := range s.g.Node(p).Outputs {
			if id := s.set.Output(p, i); out == v && id != tqc.NoSlot && s.set.Slot(id).State().Quantizes() {
				return true
			}
		}
	}
	for _, u := range s.g.Uses(v) {
		if id := s.set.Input(u.Node, u.Index); id != tqc.NoSlot && s.set.Slot(id).State().Quantizes() {
			return true
		}
	}
	return false
}

// New checks that every slot that quantizes can do so: it has a scale, as many scales as channels, and stands at a float32
// tensor.
func New(g *graph.Graph, set *tqc.Set, o Options) (*Simulator, error) {
	order, err := g.Order()
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if len(set.Domains) != g.NumNodes() {
		return nil, fmt.Errorf("simulate: configs of %d nodes for a graph of %d", len(set.Domains), g.NumNodes())
	}
	s := &Simulator{g: g, set: set, order: order, table: kernels.Select(cpu.Detect())}
	for id := range tqc.SlotID(set.NumSlots()) {
		sl := set.Slot(id)
		if !g.Alive(sl.Node) || !sl.State().Quantizes() {
			continue
		}
		if err := s.check(sl); err != nil {
			return nil, g.ErrorAt("simulate", sl.Node, fmt.Errorf("%s %d: %w", sl.Kind, sl.Index, err))
		}
	}
	if err := s.compare(o.Runs); err != nil {
		return nil, err
	}
	if s.shared = o.Constants; s.shared == nil {
		s.shared = new(Constants)
	}
	for i := range s.consts {
		s.consts[i] = make([]reference, set.NumSlots())
	}
	return s, nil
}

// compare finds the constants that the graph that runs has otherwise.
func (s *Simulator) compare(runs *graph.Graph) error {
	s.own = make([]bool, s.set.NumSlots())
	if runs == nil || runs == s.g {
		return nil
	}
	if runs.NumNodes() != s.g.NumNodes() || runs.NumValues() != s.g.NumValues() {
		return fmt.Errorf("simulate: the graph that runs has %d nodes and %d values, the quantized one %d and %d", runs.NumNodes(),
			runs.NumValues(), s.g.NumNodes(), s.g.NumValues())
	}
	for _, v := range s.g.Values() {
		own, other := s.g.Const(v), runs.Const(v)
		if own == other {
			continue
		}
		if own == nil || other == nil || own.DType != other.DType || !slices.Equal(own.Shape, other.Shape) || own.Layout != other.Layout {
			return fmt.Errorf("simulate: value %q is not the same constant in the graph that runs and in the quantized one", s.g.Value(v).Name)
		}
		for _, u := range s.g.Uses(v) {
			id := s.set.Input(u.Node, u.Index)
			if id == tqc.NoSlot {
				return s.g.ErrorAt("simulate", u.Node, fmt.Errorf("input %d was tuned and is none that could be quantized", u.Index))
			}
			s.own[id] = true
		}
	}
	return nil
}

func (s *Simulator) check(sl *tqc.Slot) error {
	v := s.g.Value(sl.Value)
	if v.DType != tensor.Float32 && v.DType != tensor.Undefined {
		return fmt.Errorf("a tensor of type %s is to be quantized", v.DType)
	}
	c, p := &sl.Config, s.set.Params(sl.ID)
	switch {
	case c.NeedsScale() && !p.Ready():
		return fmt.Errorf("%s without a scale", sl.State())
	case c.RunTime() && v.Const != nil:
		return fmt.Errorf("scales of a constant are not computed at run time (policy %q)", c.Policy)
	case c.Policy.Has(tqc.PerGroup) && !c.RunTime() && v.Const == nil:
		return fmt.Errorf("scales of groups of an activation are computed at run time only")
	}
	want, known := tqc.NumScales(v.Shape, c)
	if known && want != int64(len(p.Scale)) {
		return fmt.Errorf("%d scales for %s along axis %d, wanted %d", len(p.Scale), v.Shape, sl.Config.Axis, want)
	}
	return nil
}

// Graph returns the graph given to New, whose constants are quantized.
func (s *Simulator) Graph() *graph.Graph { return s.g }

// Set returns the configs given to New.
func (s *Simulator) Set() *tqc.Set { return s.set }

// mirrored reports whether an OVERLAPPED input reads a tensor that its producer quantizes, so that it may be quantized in front
// of the reader instead.
func (s *Simulator) mirrored(sl *tqc.Slot) bool {
	if sl.State() != tqc.Overlapped || sl.Kind != tqc.Input {
		return false
	}
	p := s.g.Producer(sl.Value)
	if p == graph.NoNode {
		return false
	}
	for i, v := range s.g.Node(p).Outputs {
		if v == sl.Value {
			src := s.set.Output(p, i)
			return s.set.Root(src) == s.set.Root(sl.ID) && s.set.Slot(src).State().Quantizes()
		}
	}
	return false
}

// precision is what a float operator is rounded to.
func (s *Simulator) precision(node graph.NodeID) qmath.Precision {
	return s.set.Domains[node].Precision()
}

// computing reports whether a node sums products: what tensor cores do.
func computing(n *graph.Node) bool {
	sp := n.Spec()
	return sp != nil && sp.Kind == graph.KindComputing
}

// rounds reports whether a float island's slot is rounded to the island's precision.
func (s *Simulator) rounds(sl *tqc.Slot) bool {
	p := s.precision(sl.Node)
	if p == qmath.FP32 || !s.set.Domains[sl.Node].Float() {
		return false
	}
	if p == qmath.TF32 && (sl.Kind != tqc.Input || !computing(s.g.Node(sl.Node))) {
		return false
	}
	if sl.Kind == tqc.Input {
		return target.DataInput(s.g, sl.Node, sl.Index)
	}
	return target.DataOutput(s.g, sl.Node, sl.Index)
}
