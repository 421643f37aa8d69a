package lower

import (
	"qwb/graph"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// recurrentFamily is LSTM whose data and state get scales when the program runs, as ONNX Runtime's DynamicQuantizeLSTM computes it by one
// scale, and TensorFlow Lite by one for each row (HybridLSTM); weights are constant. The outputs of the step are those of the node, Y
// always among them and first, and the codes of the data. With scales of the plan it is IntegerLSTM, see cells.go.
var recurrentFamily = family{name: "recurrent", emit: emitRecurrent, ops: []string{"LSTM"}}

// recurrentAtRunTime reports whether an LSTM has data with one scale of run time, weights of 8 bits, and results that are real numbers.
func (c *compiler) recurrentAtRunTime(id graph.NodeID) bool {
	n := c.g.Node(id)
	for i := range n.Outputs {
		if slot := c.set.Output(id, i); slot != tqc.NoSlot && c.set.Slot(slot).State().Quantizes() {
			return false
		}
	}
	for _, i := range []int{graph.WeightInput, graph.RecurrenceInput} {
		slot := c.set.Input(id, i)
		if slot == tqc.NoSlot || c.g.Const(n.Input(i)) == nil || !c.set.Slot(slot).State().Quantizes() ||
			weightForm(&c.set.Slot(slot).Config, 8) != nil {
			return false
		}
	}
	slot := c.set.Input(id, 0)
	if !c.runTimeSlot(slot, c.profile.Family == qmath.TFLite) {
		return false
	}
	cfg := &c.set.Slot(slot).Config
	if c.profile.Family == qmath.TFLite {
		return cfg.Signed() && cfg.Policy.Has(tqc.PerToken)
	}
	return !cfg.Signed() && cfg.Policy.Has(tqc.Asymmetric)
}

func emitRecurrent(c *compiler, u *unit) error {
	id := u.head()
	if c.recurrentOfPlan(id) {
		return c.emitCells(u)
	}
	n, op, g := c.g.Node(id), &RunTime{}, c.g.Clone()
	if !c.recurrentAtRunTime(id) {
		return c.refuse(u, "LSTM has an integer form with weights of 8 bits and scales of run time: asymmetric uint8 data of one scale, under "+
			"TensorFlow Lite's arithmetic symmetric int8 data with a scale for each row, or int8 data and results with scales of the plan")
	}
	inputs := c.reads(n)
	var in []TensorID
	for _, v := range inputs {
		t, err := c.read(v, realForm)
		if err != nil {
			return c.fail(id, "%w", err)
		}
		in = append(in, t)
	}
	data, codes, err := &c.set.Slot(c.set.Input(id, 0)).Config, graph.NoValue, error(nil)
	if op.Rows = data.Policy.Has(tqc.PerToken); !op.Rows {
		codes, err = pairAtRunTime(g, id, 0, data)
	}
	for _, i := range []int{graph.RecurrenceInput, graph.WeightInput} {
		if err == nil {
			op.Weights, err = c.dequantizedWeights(g, id, i)
		}
	}
	if err != nil {
		return c.fail(id, "%w", err)
	}
	results, aux := []graph.ValueID{n.Outputs[0]}, n.Outputs[0] == graph.NoValue
	if aux {
		if n.Input(4) != graph.NoValue {
			return c.refuse(u, "the engine quantizes the states of sequences that have ended in another way where Y is not asked for")
		}
		y, err := g.AddValue(graph.Value{Name: g.FreshName(n.Name + "_Y"), DType: tensor.Float32})
		if err == nil {
			err = g.SetOutput(id, 0, y)
		}
		if err != nil {
			return c.fail(id, "%w", err)
		}
		results[0] = y
	}
	for _, v := range n.Outputs[1:] {
		if v != graph.NoValue {
			results = append(results, v)
		}
	}
	if op.Graph, err = recurrentPart(g, n.Name, inputs, results, codes); err != nil {
		return c.fail(id, "%w", err)
	} else if op.Graph == nil {
		return c.refuse(u, "the engine has no such weights: one zero point for each direction, 0 of signed ones")
	}
	part := op.Graph
	last, of := len(results), u.outputs(c.g)[0]
	var out []TensorID
	for i, v := range part.Outputs {
		if i < last && (i > 0 || !aux) {
			out = append(out, c.define(results[i], realForm))
			continue
		}
		own, at := part.Value(v), TensorID(len(c.program.Tensors))
		c.program.Tensors = append(c.program.Tensors, Tensor{ID: at, Name: own.Name, Value: of, DType: own.DType, AtRunTime: i == last,
			Shape: own.Shape})
		out = append(out, at)
	}
	at := c.unitStep(u, in, out, op)
	for k, t := range out[:last] {
		if k > 0 || !aux {
			c.cross(at, t, tensor.Undefined, true)
		}
	}
	return nil
}

// recurrentPart is the graph of a step, with the engine's operator in the place of LSTM name; nil where that has no such weights. codes are
// those of the data; NoValue: the operator computes them.
func recurrentPart(g *graph.Graph, name string, inputs, results []graph.ValueID, codes graph.ValueID) (*graph.Graph, error) {
	outputs, write := results, passes.HybridRecurrences
	if codes != graph.NoValue {
		outputs, write = append(results[:len(results):len(results)], codes), passes.IntegerRecurrences
	}
	part, err := graph.Extract(g, inputs, outputs)
	if err == nil {
		err = atLeast(part, false)
	}
	if err != nil {
		return nil, err
	}
	if k, err := write(part); err != nil || k != 1 {
		return nil, err
	}
	if codes == graph.NoValue {
		id, _ := part.LookupNode(name)
		part.Outputs = append(part.Outputs, part.Node(id).Outputs[3])
	}
	graph.InferShapes(part)
	return part, nil
}
