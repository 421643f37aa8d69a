package onnxqdq

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Options are written into the file beside the graph.
type Options struct {
	Producer string // producer_name
	Version  string // producer_version
	// Metadata is added to the model's metadata_props, replacing entries of the same key.
	Metadata []onnx.KeyValue
}

// Build returns m with a Q/DQ pair at every slot of set that quantizes. m.Graph is the graph that set was made for; it is not
// changed, and the result shares its constants and its file. Names of values and nodes are kept: readers of a quantized tensor
// NAME read NAME_DequantizeLinear; only a graph output keeps its own name for the dequantized tensor. The opset is raised where the
// target's rules need it, with the semantics of every operator converted.
func Build(m *onnx.Model, set *tqc.Set, t *target.Target, o Options) (*onnx.Model, error) {
	b := &builder{g: m.Graph.Clone(), src: m.Graph, set: set, t: t, pairs: map[pairKey]graph.ValueID{}, params: map[paramKey][2]graph.ValueID{},
		weights: map[pairKey]graph.ValueID{}}
	if err := b.run(); err != nil {
		return nil, err
	}
	if err := b.raise(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	b.dropConstantInputs()
	if err := b.g.Check(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
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

// pairKey identifies a Q/DQ pair: readers of one value by one scale and integer type share it.
type pairKey struct {
	value graph.ValueID
	root  tqc.SlotID
	dtype tensor.DType
}

type paramKey struct {
	root  tqc.SlotID
	dtype tensor.DType
}

type builder struct {
	g, src  *graph.Graph // g is written to; src is the original, for what slots refer to
	set     *tqc.Set
	t       *target.Target
	pairs   map[pairKey]graph.ValueID     // value -> its dequantized form
	weights map[pairKey]graph.ValueID     // constant -> its dequantized form
	params  map[paramKey][2]graph.ValueID // scale and zero point
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

func (b *builder) output(id graph.NodeID, i int) error {
	slot := b.set.Output(id, i)
	if slot == tqc.NoSlot || !b.set.Slot(slot).State().Quantizes() {
		return nil
	}
	v := b.set.Slot(slot).Value
	readers := append([]graph.Use(nil), b.g.Uses(v)...)
	raw := v
	if b.g.IsOutput(v) {
		val := *b.g.Value(v)
		val.Name = b.g.FreshName(val.Name + "_QuantizeLinear_Input")
		var err error
		if raw, err = b.g.AddValue(val); err != nil {
			return err
		}
		if err := b.g.SetOutput(id, i, raw); err != nil {
			return err
		}
		return b.pair(raw, slot, v)
	}
	dq := graph.NoValue
	dq, err := b.dequantized(raw, slot)
	if err != nil {
		return err
	}
	for _, u := range readers {
		b.g.SetInput(u.Node, u.Index, dq)
	}
	return nil
}

func (b *builder) input(id graph.NodeID, i int) error {
	slot := b.set.Input(id, i)
	if slot == tqc.NoSlot {
		return nil
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

// dequantized returns DQ(Q(v)) by the slot's scale, shared by all who ask for the same.
func (b *builder) dequantized(v graph.ValueID, slot tqc.SlotID) (graph.ValueID, error) {
	d, err := dtypeOf(&b.set.Slot(slot).Config)
	if err != nil {
		return graph.NoValue, err
	}
	key := pairKey{v, b.set.Root(slot), d}
	if dq, ok := b.pairs[key]; ok {
		return dq, nil
	}
	val := b.g.Value(v)
	dq, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(val.Name + "_DequantizeLinear"), DType: tensor.Float32, Shape: val.Shape})
	if err != nil {
		return graph.NoValue, err
	}
	b.pairs[key] = dq
	return dq, b.pair(v, slot, dq)
}

// pair adds Q and DQ between from and to.
func (b *builder) pair(from graph.ValueID, slot tqc.SlotID, to graph.ValueID) error {
	c := &b.set.Slot(slot).Config
	scale, zp, err := b.scaleAndZeroPoint(slot)
	if err != nil {
		return err
	}
	name := b.g.Value(from).Name
	q, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_QuantizeLinear"), DType: b.g.Value(zp).DType, Shape: b.g.Value(from).Shape})
	if err != nil {
		return err
	}
	if err := b.node("QuantizeLinear", name, c, []graph.ValueID{from, scale, zp}, q); err != nil {
		return err
	}
	return b.node("DequantizeLinear", name, c, []graph.ValueID{q, scale, zp}, to)
}

func (b *builder) node(op, name string, c *tqc.Config, in []graph.ValueID, out graph.ValueID) error {
	n := graph.Node{Name: b.g.FreshName(name + "_" + op + "_node"), Op: op, Inputs: in, Outputs: []graph.ValueID{out}}
	if !c.Policy.Has(tqc.PerTensor) {
		n.Attrs = append(n.Attrs, graph.Int("axis", int64(c.Axis)))
	}
	if c.Policy.Has(tqc.PerGroup) {
		n.Attrs = append(n.Attrs, graph.Int("block_size", int64(c.GroupSize)))
	}
	_, err := b.g.AddNode(n)
	return err
}

// constant returns the dequantized form of a constant input: an integer initializer and a DQ, or, where the target reads float
// weights, the float initializer with Q and DQ.
func (b *builder) constant(slot tqc.SlotID) (graph.ValueID, error) {
	s := b.set.Slot(slot)
	d, err := dtypeOf(&s.Config)
	if err != nil {
		return graph.NoValue, err
	}
	key := pairKey{s.Value, b.set.Root(slot), d}
	if dq, ok := b.weights[key]; ok {
		return dq, nil
	}
	w := b.src.Const(s.Value)
	name := b.src.Value(s.Value).Name
	dq, err := b.g.AddValue(graph.Value{Name: b.g.FreshName(name + "_DequantizeLinear"), DType: tensor.Float32, Shape: graph.Static(w.Shape...)})
	if err != nil {
		return graph.NoValue, err
	}
	b.weights[key] = dq
	if b.t.Export.FloatWeights {
		return dq, b.pair(s.Value, slot, dq)
	}
	codes, err := Codes(w, &s.Config, b.set.Params(slot))
	if err != nil {
		return graph.NoValue, err
	}
	scale, zp, err := b.scaleAndZeroPoint(slot)
	if err != nil {
		return graph.NoValue, err
	}
	q := b.g.AddConst(name+"_quantized", codes)
	return dq, b.node("DequantizeLinear", name, &s.Config, []graph.ValueID{q, scale, zp}, dq)
}

// scaleAndZeroPoint returns the initializers of a slot's parameters; slots that share a scale share them.
func (b *builder) scaleAndZeroPoint(slot tqc.SlotID) (scale, zp graph.ValueID, err error) {
	s := b.set.Slot(slot)
	d, err := dtypeOf(&s.Config)
	if err != nil {
		return 0, 0, err
	}
	key := paramKey{b.set.Root(slot), d}
	if ids, ok := b.params[key]; ok {
		return ids[0], ids[1], nil
	}
	p := b.set.Params(slot)
	var shape []int
	switch {
	case s.Config.Policy.Has(tqc.PerChannel):
		shape = []int{len(p.Scale)}
	case s.Config.Policy.Has(tqc.PerGroup):
		w := b.src.Const(s.Value)
		if w == nil {
			return 0, 0, fmt.Errorf("per-group scales of an activation cannot be written")
		}
		shape = append(shape, w.Shape...)
		shape[s.Config.Axis] = (shape[s.Config.Axis] + s.Config.GroupSize - 1) / s.Config.GroupSize
	default:
		shape = []int{}
	}
	if tensor.Count(shape) != len(p.Scale) {
		return 0, 0, fmt.Errorf("%d scales for shape %v", len(p.Scale), shape)
	}
	zero := tensor.New(d, shape...)
	if err := store(zero, p.ZeroPoint); err != nil {
		return 0, 0, err
	}
	name := b.src.Value(b.set.Slot(b.set.Root(slot)).Value).Name
	scale = b.g.AddConst(name+"_scale", tensor.FromF32(append([]float32(nil), p.Scale...), shape...))
	zp = b.g.AddConst(name+"_zero_point", zero)
	b.params[key] = [2]graph.ValueID{scale, zp}
	return scale, zp, nil
}

// raise lifts the opset to what the target's rules, and the types and granularities in use, need.
func (b *builder) raise() error {
	need := b.t.Export.MinOpset
	for i := range b.set.NumSlots() {
		s := b.set.Slot(tqc.SlotID(i))
		if s.State().Quantizes() && (s.Config.Policy.Has(tqc.PerGroup) || s.Config.Bits != 8 && s.Config.Bits != 32) {
			need = max(need, 21) // blocks, and integers of 2, 4 and 16 bits
		}
	}
	if limit := b.t.Export.MaxOpset; limit > 0 && need > limit {
		return fmt.Errorf("%s reads opsets up to %d, and this plan needs %d", b.t.Name, limit, need)
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
