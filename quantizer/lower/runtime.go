package lower

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// RunTime is a Gemm, MatMul or Conv whose data, and whose right factor where that is a tensor, are quantized when the program runs, by
// scales of their own numbers (qmath.RunTimeScale): one for all, or of data one for each row. Codes and sums are integers, exact in 32
// bits; what becomes of them is float32, in this order:
//
//	y = float32(sum) * (scale * weight scale) + bias     one scale for all
//	y = float32(sum) * weight scale * scale + bias       one for each row
//
// Inputs of the step are real numbers. Its outputs are y behind the activation, the codes of the data, and the sums.
type RunTime struct {
	// Graph computes the outputs from the inputs by ONNX's operators on integers, as passes.IntegerProducts writes them.
	Graph *graph.Graph
	// Weights are nil where both factors are tensors.
	Weights *Weights
	// Rows: every row of the data has a scale.
	Rows bool
}

// Name implements Op.
func (*RunTime) Name() string { return "RunTime" }

func (o *RunTime) describe() string {
	s := "scales of run time"
	if o.Rows {
		s += " by row"
	}
	if o.Weights != nil {
		s += " w=" + o.Weights.Codes.Type()
	}
	return s + ": " + operators(o.Graph)
}

var runTimeFamily = family{name: "run time", emit: emitRunTime}

// atRunTime reports whether a unit is a product whose factors get their scales when the program runs.
func (c *compiler) atRunTime(u *unit) bool {
	n := c.g.Node(u.head())
	if u.family != &linearFamily || n.Op == "ConvTranspose" || u.residual != graph.NoNode || c.base[c.g.Node(u.last()).Outputs[0]] != nil ||
		c.slotFormless(c.set.Output(u.last(), 0)) != "" || !c.runTimeSlot(c.set.Input(u.head(), 0), true) {
		return false
	}
	if _, _, limits, err := c.limits(u.acts); err != nil || !limits {
		return false // another function behind the product
	}
	if bias := c.set.Input(u.head(), graph.BiasInput); bias != tqc.NoSlot && c.set.Slot(bias).State().Quantizes() {
		return false
	}
	w := c.set.Input(u.head(), 1)
	if n.Op == "Conv" && !c.imageAtRunTime(n) {
		return false
	}
	if c.g.Const(n.Inputs[1]) == nil {
		return c.runTimeSlot(w, false) && c.sameStack(n.Inputs[0], n.Inputs[1])
	}
	_, ok := target.OutputAxis(c.g, n, 1)
	return ok && w != tqc.NoSlot && c.set.Slot(w).State().Quantizes() && weightForm(&c.set.Slot(w).Config, 8) == nil &&
		(n.Op == "Conv" || len(c.g.Const(n.Inputs[1]).Shape) == 2)
}

// imageAtRunTime reports whether the data of a Conv are one image, of which TensorFlow Lite's kernels make int8 codes with a zero point.
func (c *compiler) imageAtRunTime(n *graph.Node) bool {
	x, cfg := c.g.Value(n.Inputs[0]).Shape, &c.set.Slot(c.set.Input(n.ID, 0)).Config
	w, bias := c.g.Const(n.Inputs[1]), n.Input(graph.BiasInput)
	if w == nil || bias != graph.NoValue && c.g.Const(bias) == nil || !cfg.Signed() || !cfg.Policy.Has(tqc.Asymmetric) {
		return false
	}
	l, ok := graph.LinearOf(n, graph.WeightInput, w.Shape)
	return ok && (l.Groups == 1 || l.Depthwise()) && x[0].Known() && x[0].N == 1
}

// sameStack reports whether two factors have as many axes, two at least, and the same leading ones.
func (c *compiler) sameStack(a, b graph.ValueID) bool {
	x, y := c.g.Value(a).Shape, c.g.Value(b).Shape
	return len(x) >= 2 && len(x) == len(y) && slices.Equal(x[:len(x)-2], y[:len(y)-2])
}

// amongRunTime reports whether a node of the integer domain reads and computes real numbers alone: in a plan with scales of run time these
// stand at products only, and what is between is float.
func (c *compiler) amongRunTime(id graph.NodeID) bool {
	if !c.runTimes {
		return false
	}
	n := c.g.Node(id)
	for i, v := range n.Inputs {
		if slot := c.set.Input(id, i); slot != tqc.NoSlot && c.set.Slot(slot).State().Quantizes() || v != graph.NoValue && c.base[v] != nil {
			return false
		}
	}
	for i := range n.Outputs {
		if slot := c.set.Output(id, i); slot != tqc.NoSlot && c.set.Slot(slot).State().Quantizes() {
			return false
		}
	}
	return true
}

// runTimeSlot reports whether a slot quantizes to integers of 8 bits, of their whole range, by one scale of run time, or one for each row.
func (c *compiler) runTimeSlot(slot tqc.SlotID, rows bool) bool {
	if slot == tqc.NoSlot || !c.set.Slot(slot).State().Quantizes() {
		return false
	}
	cfg := &c.set.Slot(slot).Config
	return cfg.RunTime() && cfg.Integer() && cfg.Bits == 8 && !cfg.Policy.Has(tqc.PowerOf2) && !cfg.Policy.Has(tqc.PerGroup) &&
		(cfg.Policy.Has(tqc.PerTensor) || rows && cfg.Policy.Has(tqc.PerToken) && cfg.Policy.Has(tqc.Symmetric)) &&
		(cfg.Signed() || cfg.Policy.Has(tqc.Asymmetric))
}

// emitRunTime writes the step.
func emitRunTime(c *compiler, u *unit) error {
	id := u.head()
	n, op := c.g.Node(id), &RunTime{}
	inputs, in, err := c.realInputs(u)
	if err != nil {
		return err
	}
	g, y := c.g.Clone(), c.g.Node(u.last()).Outputs[0]
	data := &c.set.Slot(c.set.Input(id, 0)).Config
	op.Rows = data.Policy.Has(tqc.PerToken)
	codes, err := pairAtRunTime(g, id, 0, data)
	if err == nil && c.g.Const(n.Inputs[1]) == nil {
		_, err = pairAtRunTime(g, id, 1, &c.set.Slot(c.set.Input(id, 1)).Config)
	} else if err == nil {
		op.Weights, err = c.dequantizedWeights(g, id, graph.WeightInput)
	}
	if err != nil {
		return c.fail(id, "%w", err)
	}
	part, err := graph.Extract(g, inputs, []graph.ValueID{y, codes})
	if err == nil {
		err = atLeast(part, op.Rows)
	}
	if err != nil {
		return c.fail(id, "%w", err)
	}
	if k, err := passes.IntegerProducts(part, func(*graph.Node) bool { return true }); err != nil {
		return c.fail(id, "%w", err)
	} else if k != 1 {
		return c.refuse(u, "its factors have no product on integers of 32 bits")
	}
	product, _ := part.LookupNode(n.Name)
	part.Outputs = append(part.Outputs, part.Node(product).Outputs[0])
	graph.InferShapes(part)
	op.Graph = part
	out := []TensorID{c.define(y, realForm)}
	for _, v := range part.Outputs[1:] {
		own := part.Value(v)
		at := TensorID(len(c.program.Tensors))
		c.program.Tensors = append(c.program.Tensors, Tensor{ID: at, Name: own.Name, Value: y, DType: own.DType, AtRunTime: true,
			Shape: own.Shape})
		out = append(out, at)
	}
	at := c.unitStep(u, in, out, op)
	for _, t := range in {
		c.cross(at, t, tensor.Uint8, false)
	}
	c.cross(at, out[0], tensor.Undefined, true)
	return nil
}

// atLeast raises a part of an older graph to the first opset whose DequantizeLinear has an axis, or, for scales per row, whose
// QuantizeLinear has blocks.
func atLeast(part *graph.Graph, rows bool) (err error) {
	opset := int64(13)
	if rows {
		opset = 21
	}
	if part.Opset("") < opset {
		_, err = passes.RaiseOpset(part, opset)
	}
	return err
}

// realInputs lists the tensors that a unit reads from outside, once each, as real numbers.
func (c *compiler) realInputs(u *unit) (values []graph.ValueID, ids []TensorID, err error) {
	for _, in := range c.inputs(u) {
		t, err := c.read(in.value, realForm)
		if err != nil {
			return nil, nil, c.fail(u.head(), "input %d: %w", in.index, err)
		}
		if len(values) == 0 || values[0] != in.value {
			values, ids = append(values, in.value), append(ids, t)
		}
	}
	return values, ids, nil
}

// pairAtRunTime puts a Q and a DQ with scales of run time in front of input i of a node of g and returns the codes between them.
func pairAtRunTime(g *graph.Graph, id graph.NodeID, i int, cfg *tqc.Config) (codes graph.ValueID, err error) {
	x := *g.Value(g.Node(id).Inputs[i])
	name := fmt.Sprintf("%s_input_%d", g.Node(id).Name, i)
	dq, err := g.AddValue(graph.Value{Name: g.FreshName(name), DType: tensor.Float32, Shape: x.Shape})
	if err != nil {
		return dq, err
	}
	d := Encoding{QMin: cfg.QMin, QMax: cfg.QMax}.DType()
	if err := qdq.RunTimePair(g, name, g.Node(id).Inputs[i], cfg, d, dq); err != nil {
		return dq, err
	}
	g.SetInput(id, i, dq)
	return g.Node(g.Producer(dq)).Inputs[0], nil
}

// dequantizedWeights puts codes and a DQ in the place of input i of a node of g, a constant factor.
func (c *compiler) dequantizedWeights(g *graph.Graph, id graph.NodeID, i int) (*Weights, error) {
	n := c.g.Node(id)
	slot, p, err := c.constSlot(id, i)
	if err != nil {
		return nil, err
	}
	axis, _ := target.OutputAxis(c.g, n, i)
	if graph.IsRecurrent(n) && slot.Config.Policy.Has(tqc.PerChannel) {
		axis = slot.Config.Axis // of gates, or of directions
	}
	w, err := newWeights(c.g.Const(n.Inputs[i]), c.Codes[n.Inputs[i]], &slot.Config, p, axis, 1, 8)
	if err != nil {
		return nil, err
	}
	scale, zero := tensor.FromF32(w.Scale, len(w.Scale)), tensor.New(w.Codes.DType, len(w.ZeroPoint)).WithIntegers(w.ZeroPoint)
	name := n.Name + "_weights"
	if i == graph.RecurrenceInput {
		name = n.Name + "_recurrence"
	}
	dq, err := g.AddValue(graph.Value{Name: g.FreshName(name), DType: tensor.Float32, Shape: graph.Static(w.Codes.Shape...)})
	if err != nil {
		return nil, err
	}
	_, err = g.AddNode(graph.Node{Name: g.FreshName(name), Op: "DequantizeLinear", Attrs: []graph.Attr{graph.Int("axis", int64(axis))},
		Inputs:  []graph.ValueID{g.AddConst(name+"_codes", w.Codes), g.AddConst(name+"_scale", scale), g.AddConst(name+"_zero_point", zero)},
		Outputs: []graph.ValueID{dq}})
	g.SetInput(id, i, dq)
	return w, err
}
