package onnxqdq

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Options are written into the file beside the graph.
type Options struct {
	Context  context.Context // ends Build with its error; nil: nothing does
	Producer string          // producer_name
	Version  string          // producer_version
	// Metadata is added to the model's metadata_props, replacing entries of the same key.
	Metadata []onnx.KeyValue
	// Half says how operators of the domains fp16 and bf16 are written: as export.Half has it, "" is its first.
	Half string
	// Inputs says what the file takes: as export.Inputs has it, "" is its first. Pixels have to be there for pixels.
	Inputs string
	Pixels *plan.Pixels
	// Outputs says what the file returns: as export.Outputs has it, "" is its first.
	Outputs string
}

// Build returns m with a Q/DQ pair at every slot of set that quantizes. m.Graph is the graph that set was made for; it is not
// changed, and the result shares its constants and its file. Names of values and nodes are kept: readers of a quantized tensor
// NAME read NAME_DequantizeLinear; only a graph output keeps its own name for the dequantized tensor. The opset is raised where the
// target's rules need it, with the semantics of every operator converted. What has no Q/DQ form that computes the same numbers (a
// rounding that QuantizeLinear does not do, an integer range narrower than its type) is an error.
func Build(m *onnx.Model, set *tqc.Set, t *target.Target, o Options) (*onnx.Model, error) {
	if n := m.Graph.NumNodes(); len(set.Domains) != n {
		return nil, fmt.Errorf("export: configs of %d nodes for a graph of %d", len(set.Domains), n)
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	b := &builder{ctx: o.Context, g: m.Graph.Clone(), src: m.Graph, set: set, t: t, pairs: map[pairKey]graph.ValueID{},
		weights: map[pairKey]graph.ValueID{}, baked: map[graph.ValueID]graph.ValueID{}, params: map[paramKey][2]graph.ValueID{},
		matrices: map[graph.ValueID]graph.ValueID{}, constants: map[graph.ValueID][]tqc.SlotID{}, lowest: graph.NoValue}
	if err := b.run(); err != nil {
		return nil, err
	}
	b.needHalves(o.Half)
	if err := b.subsample(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.raise(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.guards(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.relus(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.linears(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.integerProducts(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.inputs(&o); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.outputs(&o); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	b.dropConstantInputs()
	if err := b.halves(o.Half); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.dropReplaced(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := b.g.Check(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if b.g.Name == "" {
		b.g.Name = "main" // ONNX wants a name
	}
	out := m.WithGraph(b.g)
	out.ProducerName, out.ProducerVersion = o.Producer, o.Version
	out.IRVersion = 0 // the lowest that carries the graph
	for _, kv := range o.Metadata {
		setMetadata(out, kv)
	}
	return out, nil
}

func setMetadata(m *onnx.Model, kv onnx.KeyValue) {
	for i := range m.Metadata {
		if m.Metadata[i].Key == kv.Key {
			m.Metadata[i] = kv
			return
		}
	}
	m.Metadata = append(m.Metadata, kv)
}

// pairKey identifies a Q/DQ pair: readers of one value by one scale and integer type share it, and so do those by the same scheme with
// scales of run time, which have no root.
type pairKey struct {
	value   graph.ValueID
	root    tqc.SlotID
	dtype   tensor.DType
	runTime string
}

type paramKey struct {
	root  tqc.SlotID
	dtype tensor.DType
}

type builder struct {
	ctx       context.Context
	g, src    *graph.Graph // g is written to; src is the original, for what slots refer to
	set       *tqc.Set
	t         *target.Target
	pairs     map[pairKey]graph.ValueID       // value -> its dequantized form
	weights   map[pairKey]graph.ValueID       // constant -> its dequantized form
	constants map[graph.ValueID][]tqc.SlotID  // slots of a constant that differ in integers or scales
	baked     map[graph.ValueID]graph.ValueID // constant -> the float values of its integers, the first of them
	params    map[paramKey][2]graph.ValueID   // scale and zero point
	matrices  map[graph.ValueID]graph.ValueID // result of a Reshape behind a Gemm -> the matrix
	lowest    graph.ValueID                   // the constant of guards
	need      int64                           // the lowest opset that has the types and granularities written so far
}

func (b *builder) run() error {
	order, err := b.src.Order()
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	// Outputs first: inputs then read what the outputs' DQ computes.
	for _, id := range order {
		for i := range b.src.Node(id).Outputs {
			if err := b.output(id, i); err != nil {
				return b.src.ErrorAt("export", id, fmt.Errorf("output %d: %w", i, err))
			}
		}
	}
	for _, id := range order {
		for i := range b.src.Node(id).Inputs {
			if err := b.input(id, i); err != nil {
				return b.src.ErrorAt("export", id, fmt.Errorf("input %d: %w", i, err))
			}
		}
	}
	return nil
}

// output quantizes an output for all who read it.
func (b *builder) output(id graph.NodeID, i int) error {
	slot := b.set.Output(id, i)
	if slot == tqc.NoSlot || !b.set.Slot(slot).State().Quantizes() {
		return nil
	}
	v := b.set.Slot(slot).Value
	if b.g.IsOutput(v) || b.g.Captured(v) { // read by name: the name stays with the dequantized tensor
		val := *b.g.Value(v)
		val.Name = b.g.FreshName(val.Name + "_QuantizeLinear_Input")
		raw, err := b.g.AddValue(val)
		if err != nil {
			return err
		}
		if err := b.g.SetOutput(id, i, raw); err != nil {
			return err
		}
		return b.pair(b.g.Value(v).Name, raw, slot, v)
	}
	readers := append([]graph.Use(nil), b.g.Uses(v)...)
	if len(readers) == 0 {
		return nil
	}
	dq, err := b.dequantized(v, slot)
	if err != nil {
		return err
	}
	for _, u := range readers {
		b.g.SetInput(u.Node, u.Index, dq)
	}
	return nil
}

// input quantizes an input for this reader, and those that share its scale.
func (b *builder) input(id graph.NodeID, i int) error {
	slot := b.set.Input(id, i)
	if slot == tqc.NoSlot {
		return nil
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	s := b.set.Slot(slot)
	if !s.State().Quantizes() {
		return nil
	}
	var dq graph.ValueID
	var err error
	if b.src.Const(s.Value) != nil {
		dq, err = b.constant(slot)
	} else {
		dq, err = b.dequantized(b.g.Node(id).Inputs[i], slot)
	}
	if err != nil {
		return err
	}
	b.g.SetInput(id, i, dq)
	return nil
}

// raise lifts the opset to what the target's rules, and the types and granularities in use, need.
func (b *builder) raise() error {
	need := max(b.need, b.t.Export.MinOpset)
	if b.t.Export.GuardFloat && target.MisreadsAxes(b.g) {
		need = max(need, target.AxesRead)
	}
	if !reads(b.t, need) {
		return fmt.Errorf("%s reads opsets up to %d, and this plan needs %d", b.t.Name, b.t.Export.MaxOpset, need)
	}
	if b.g.Opset("") >= need {
		return nil
	}
	_, err := passes.RaiseOpset(b.g, need)
	return err
}

// dropConstantInputs leaves those initializers that IR version 3 lists as inputs to be initializers only: quantized ones have no
// float default any more, and readers fold only what cannot be fed.
func (b *builder) dropConstantInputs() {
	var inputs []graph.ValueID
	for _, v := range b.g.Inputs {
		if b.g.Const(v) == nil {
			inputs = append(inputs, v)
		}
	}
	b.g.Inputs = inputs
}

// dropReplaced removes float constants that only their quantized forms were made of. Where that form is float too, it takes over
// the name.
func (b *builder) dropReplaced() error {
	for i := range b.set.NumSlots() {
		s := b.set.Slot(tqc.SlotID(i))
		if !s.Weight || !s.State().Quantizes() || b.g.Captured(s.Value) || len(b.g.Uses(s.Value)) > 0 || b.g.IsOutput(s.Value) {
			continue
		}
		name := b.g.Value(s.Value).Name
		b.g.RemoveValue(s.Value)
		if float, ok := b.baked[s.Value]; ok {
			delete(b.baked, s.Value)
			if err := b.g.Rename(float, name); err != nil {
				return err
			}
		}
	}
	return nil
}
