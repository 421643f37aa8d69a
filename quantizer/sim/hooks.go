package sim

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// View says which part of the simulation takes place. The zero value quantizes at all slots and leaves islands in float32.
type View struct {
	// Mask selects slots, nil all. Only slots that quantize take part, and OVERLAPPED inputs whose tensor is quantized by
	// the operator that computes it: selecting such an input quantizes in front of this reader, with the same scale, which
	// changes no number where the producer's slot is selected too; and slots of float islands of less precision, which are rounded to it. Mask
	// is asked once per slot, when the hooks are made.
	Mask func(tqc.SlotID) bool
	Mode Mode
	// Islands: what float operators read and write is rounded to the precision of their domain.
	Islands bool
	// Early: what all readers of a tensor quantize alike is quantized once, in place, where it is computed, instead of once in
	// front of each. The readers get the same bits; who looks at what the operator computed sees it quantized.
	Early bool
	// Lenient: NaN is quantized like any number. Otherwise one that reaches a quantizer ends a simulation of the whole (Mask nil, Quantize)
	// with an error that wraps *tqc.NaN: engines make different codes of it. A part of a simulation is an experiment and goes on.
	Lenient bool
	// Scratch is memory that several hooks may share, if no two of them are used at a time; nil gives the hooks their own.
	Scratch *Scratch
}

// Scratch is memory for inputs that are replaced. The zero value is ready.
type Scratch struct {
	inputs []*tensor.Tensor // by input index
}

// Weights and Activations are masks that select the parameters, or the computed tensors, of a set.
func Weights(set *tqc.Set) func(tqc.SlotID) bool {
	return func(id tqc.SlotID) bool { return set.Slot(id).Weight }
}

func Activations(set *tqc.Set) func(tqc.SlotID) bool {
	return func(id tqc.SlotID) bool { return !set.Slot(id).Weight }
}

// Only is a mask that selects a list of slots.
func Only(slots []tqc.SlotID) func(tqc.SlotID) bool {
	in := make(map[tqc.SlotID]bool, len(slots))
	for _, id := range slots {
		in[id] = true
	}
	return func(id tqc.SlotID) bool { return in[id] }
}

// Hooks returns hooks that quantize where mask says so. With a nil mask they are the simulation of the exported model: every
// slot, islands in their precision, and tensors quantized early.
func (s *Simulator) Hooks(mask func(tqc.SlotID) bool) *exec.Hooks {
	return s.NewHooks(View{Mask: mask, Islands: mask == nil, Early: mask == nil})
}

type action uint8

const (
	leave    action = iota
	quantize        // by the slot's grid, as far as the view's mode says
	island          // round to the precision of the float operator
	replace         // the simulator's own constant, as it is
)

// hooks is the state behind one *exec.Hooks: what happens at each slot, and memory for inputs that are replaced.
type hooks struct {
	s       *Simulator
	mode    Mode
	actions []action
	early   []tqc.SlotID // by value: the input slot that is carried out where the value is computed, else NoSlot
	wants   []bool       // by value
	scratch *Scratch
	meter   *kernels.Meter // looks for NaN in what is quantized and for what is not finite in outputs; nil: it may be there
}

// NewHooks returns hooks for one runner. They hold memory as large as the inputs of the largest node that is quantized in
// front of it, and must not be used by two runs at a time.
func (s *Simulator) NewHooks(v View) *exec.Hooks {
	h := &hooks{s: s, mode: v.Mode, actions: make([]action, s.set.NumSlots()), scratch: v.Scratch}
	if h.scratch == nil {
		h.scratch = &Scratch{}
	}
	if v.Mask == nil && v.Mode == Quantize && !v.Lenient {
		h.meter = s.table.NewMeter()
	}
	for id := range tqc.SlotID(s.set.NumSlots()) {
		sl := s.set.Slot(id)
		switch {
		case sl.State().Quantizes() && (v.Mask == nil || v.Mask(id)):
			h.actions[id] = quantize
		case v.Mask != nil && s.mirrored(sl) && v.Mask(id):
			h.actions[id] = quantize
		case (v.Islands || v.Mask != nil && v.Mode == Quantize && v.Mask(id)) && s.g.Alive(sl.Node) && s.rounds(sl):
			h.actions[id] = island
		case s.own[id] && (v.Mask == nil || s.weightIn(sl.Node, v.Mask)):
			h.actions[id] = replace
		}
	}
	h.early = s.earlySlots(h.actions, v.Early)
	h.wants = make([]bool, s.g.NumValues())
	if h.meter != nil {
		for _, v := range s.g.Outputs {
			h.wants[v] = true
		}
	}
	for id, a := range h.actions {
		if a != leave {
			h.wants[s.set.Slot(tqc.SlotID(id)).Value] = true
		}
	}
	wants := func(v graph.ValueID) bool { return int(v) >= len(h.wants) || h.wants[v] }
	return &exec.Hooks{Input: h.input, Output: h.output, State: h.state, Cell: h.cell, Wants: wants}
}

// earlySlot is the slot that is carried out where a value is computed.
func (h *hooks) earlySlot(v graph.ValueID) tqc.SlotID {
	if h.early == nil {
		return tqc.NoSlot
	}
	return h.early[v]
}

// weightIn reports whether a mask takes the weight of a node.
func (s *Simulator) weightIn(node graph.NodeID, mask func(tqc.SlotID) bool) bool {
	id := s.set.Input(node, 1)
	return id != tqc.NoSlot && mask(id)
}

// recognise returns an error unless n is a node of the simulator's graph or of a clone of it: what it is not told about must not
// stay in float without a word. Executors do not show the nodes of subgraphs, which are never quantized.
func (h *hooks) recognise(n *graph.Node) error {
	if nodes := h.s.g.NumNodes(); n.ID < 0 || int(n.ID) >= nodes {
		return fmt.Errorf("simulate: node %q (%s) has number %d, the graph that was configured has %d nodes", n.Name, n.Op, n.ID, nodes)
	}
	own := h.s.g.Node(n.ID)
	if own == n {
		return nil
	}
	if own.Name != n.Name || own.Op != n.Op {
		return fmt.Errorf("simulate: node %q (%s) is %q (%s) in the graph that was configured", n.Name, n.Op, own.Name, own.Op)
	}
	if !slices.Equal(own.Inputs, n.Inputs) || !slices.Equal(own.Outputs, n.Outputs) {
		return fmt.Errorf("simulate: node %q (%s) has %d inputs and %d outputs, other ones than in the graph that was configured (%d and %d)",
			n.Name, n.Op, len(n.Inputs), len(n.Outputs), len(own.Inputs), len(own.Outputs))
	}
	return nil
}

func (h *hooks) input(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
	if err := h.recognise(n); err != nil {
		return nil, err
	}
	id := h.s.set.Input(n.ID, i)
	if id == tqc.NoSlot || h.actions[id] == leave || h.earlySlot(n.Inputs[i]) != tqc.NoSlot {
		return t, nil
	}
	if err := wantFloat(t); err != nil {
		return nil, err
	}
	if own := h.s.g.Const(h.s.set.Slot(id).Value); own != nil {
		if !h.s.own[id] {
			own = t
		}
		if own.Layout != t.Layout {
			return nil, fmt.Errorf("simulate: constant %q is stored in another layout by the executor", h.s.g.Value(n.Inputs[i]).Name)
		}
		if h.actions[id] == replace {
			return own, nil
		}
		return h.constant(id, own)
	}
	dst := h.scratch.buffer(i, t)
	return dst, h.apply(id, dst, t)
}

func (h *hooks) output(n *graph.Node, i int, t *tensor.Tensor) error {
	if err := h.recognise(n); err != nil {
		return err
	}
	if v := n.Outputs[i]; h.meter != nil && h.s.g.IsOutput(v) {
		if x := exec.Floats(t); x != nil {
			if _, _, finite := h.meter.MinMax(x.F32()); !finite {
				h.s.odd.Add(h.s.g.Value(v).Name)
			}
		}
	}
	for _, id := range [...]tqc.SlotID{h.s.set.Output(n.ID, i), h.earlySlot(n.Outputs[i])} {
		if id == tqc.NoSlot || h.actions[id] == leave {
			continue
		}
		if err := wantFloat(t); err != nil {
			return err
		}
		if err := h.apply(id, t, t); err != nil {
			return err
		}
	}
	return nil
}

// state quantizes the state of a recurrent operator on integers like its data, where the scales of these are those of run time, else like
// its results.
func (h *hooks) state(n *graph.Node, x []float32) error {
	id := h.s.set.Input(n.ID, 0)
	if out, ok := h.cells(n); ok {
		t := tensor.FromF32(x, len(x))
		return h.apply(out, t, t)
	}
	if id == tqc.NoSlot || h.actions[id] != quantize || !h.s.set.Slot(id).Config.RunTime() || h.s.set.Domains[n.ID] != tqc.DomainInt {
		return nil
	}
	t := tensor.FromF32(x, len(x))
	if units := int(n.AttrInt("hidden_size", 0)); h.s.set.Slot(id).Config.Policy.Has(tqc.PerToken) && units > 0 {
		t = tensor.FromF32(x, len(x)/units, units)
	}
	return h.apply(id, t, t)
}

// cells returns the slot of the results of an LSTM on integers with scales of the plan, and false where the view does not quantize them.
func (h *hooks) cells(n *graph.Node) (tqc.SlotID, bool) {
	set := h.s.set
	if set.Domains[n.ID] != tqc.DomainInt || !target.CellsOfPlan(set, n.Op, set.Input(n.ID, 0)) {
		return tqc.NoSlot, false
	}
	out := set.Output(n.ID, 0)
	if out == tqc.NoSlot {
		out = set.Output(n.ID, 1)
	}
	return out, out != tqc.NoSlot && h.actions[out] == quantize
}

// cell quantizes the state of the cells of an LSTM.
func (h *hooks) cell(n *graph.Node, x []float32) {
	if _, ok := h.cells(n); ok {
		cut, end := 0, -target.CellConfig.FixedScale*float32(target.CellConfig.QMin)
		for _, v := range x {
			if v >= end || v < -end {
				cut++
			}
		}
		h.s.cells.Add(int64(len(x)))
		h.s.cut.Add(int64(cut))
		t := tensor.FromF32(x, len(x))
		_ = apply(h.s.table, t, t, &target.CellConfig, &target.CellParams, h.mode) // of one scale, it does not fail
	}
}

func wantFloat(t *tensor.Tensor) error {
	if t.DType != tensor.Float32 {
		return fmt.Errorf("simulate: a tensor of type %s cannot be quantized", t.Type())
	}
	return nil
}

// buffer returns memory for the replacement of input i, of t's type, shape and layout.
func (s *Scratch) buffer(i int, t *tensor.Tensor) *tensor.Tensor {
	for len(s.inputs) <= i {
		s.inputs = append(s.inputs, &tensor.Tensor{DType: tensor.Float32, Data: []float32(nil)})
	}
	b := s.inputs[i]
	data := b.F32()
	if n := t.Len(); cap(data) < n {
		data = make([]float32, n)
	} else {
		data = data[:n]
	}
	b.Layout, b.Data = t.Layout, data
	b.Shape = append(b.Shape[:0], t.Shape...)
	return b
}

// apply carries out the action of a slot on src; dst may be src.
func (h *hooks) apply(id tqc.SlotID, dst, src *tensor.Tensor) error {
	if h.actions[id] == island {
		h.s.precision(h.s.set.Slot(id).Node).RoundSlice(dst.F32(), src.F32())
		return nil
	}
	if h.meter != nil {
		if err := h.look(id, src.F32()); err != nil {
			return err
		}
	}
	return apply(h.s.table, dst, src, &h.s.set.Slot(id).Config, h.s.set.Params(id), h.mode)
}

// look fails where there is NaN among what a slot is about to quantize. Where all is finite, which is found by the processor's widest
// instructions, that is all it costs.
func (h *hooks) look(id tqc.SlotID, x []float32) error {
	if _, _, finite := h.meter.MinMax(x); finite {
		return nil
	}
	sl := h.s.set.Slot(id)
	if slices.ContainsFunc(x, func(v float32) bool { return v != v }) {
		return h.s.g.ErrorAt("simulate", sl.Node, &tqc.NaN{Tensor: h.s.g.Value(sl.Value).Name})
	}
	h.s.odd.Add(h.s.g.Value(sl.Value).Name)
	return nil
}
