package lift

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/graph/tflite"
)

// Inputs of UNIDIRECTIONAL_SEQUENCE_LSTM. Weights and biases have one tensor for each gate.
const (
	lstmWeights, lstmRecurrence, lstmPeepholes, lstmBias, lstmProjection, lstmState, lstmNorm = 1, 5, 9, 12, 16, 18, 20
	lstmInputs                                                                                = 24
)

// Gates and peepholes as ONNX has them, as places in the file: input, output, forget, cell of input, forget, cell, output.
var (
	lstmGates = []int{0, 3, 1, 2}
	lstmPeeps = []int{0, 2, 1}
)

// lstm lifts UNIDIRECTIONAL_SEQUENCE_LSTM. The states are variables, which a run leaves to the next: what an operator before it writes to
// them is the initial state, and what one behind it reads is the last.
func (l *lifter) lstm() error {
	o, x, t := l.op.Options, l.in(0), l.s.Tensors[l.op.Outputs[0]]
	if o.Int("fused_activation_function") != tflite.Tanh || o.Float("cell_clip") != 0 || o.Float("proj_clip") != 0 || len(t.Shape) != 3 ||
		len(l.shape(x)) != 3 ||
		slices.ContainsFunc([]int{lstmProjection, lstmProjection + 1, lstmNorm, lstmNorm + 1, lstmNorm + 2, lstmNorm + 3},
			func(i int) bool { return l.in(i) >= 0 }) {
		return errNoForm
	}
	if !l.oneGrid(&t) {
		l.warnings = append(l.warnings, graph.Warning{Node: t.Name, Text: l.name() + fmt.Sprintf(" of integers is read where its state has the "+
			"grid of its results, and its cells the scale %g", graph.CellScale)})
		return errNoForm
	}
	in := make([]graph.ValueID, 8)
	for i := range in {
		in[i] = graph.NoValue
	}
	hidden, major := t.Shape[2], o.Bool("time_major")
	var err error
	for _, part := range []struct{ to, from int }{{1, lstmWeights}, {2, lstmRecurrence}, {3, lstmBias}, {7, lstmPeepholes}} {
		if part.to == 7 && l.in(lstmPeepholes) < 0 {
			continue
		}
		if in[part.to], err = l.stacked(part.from, part.to); err != nil {
			return err
		}
	}
	if in[0], err = l.read(x, plain); err == nil && !major {
		s := l.shape(x)
		in[0], err = l.node("Transpose", t.Name+"_steps", tensor.Float32, []int{s[1], s[0], s[2]}, []graph.Attr{graph.Ints("perm", 1, 0, 2)},
			in[0])
	}
	if err != nil {
		return err
	}
	steps, batch := t.Shape[0], t.Shape[1]
	if !major {
		steps, batch = batch, steps
	}
	last := []int{1, batch, hidden}
	for k := range 2 {
		if id := l.in(lstmState + k); id >= 0 && (l.states[id].plain != graph.NoValue || l.s.Tensors[id].Data != nil) {
			if in[5+k], err = l.reshaped(id, t.Name+"_initial", last); err != nil {
				return err
			}
		} else if k == 0 {
			l.warnings = append(l.warnings, graph.Warning{Node: t.Name, Text: l.name() + " begins every run with states of zeros here: in the " +
				"file they are variables, which the run before leaves"})
		}
	}
	out := make([]graph.ValueID, 3)
	for i, shape := range [][]int{{steps, 1, batch, hidden}, last, last} {
		name := t.Name + []string{"_steps", "_last", "_cell"}[i]
		if out[i], err = l.g.AddValue(graph.Value{Name: l.g.FreshName(name), DType: tensor.Float32, Shape: graph.Static(shape...)}); err != nil {
			return err
		}
	}
	for len(in) > 4 && in[len(in)-1] == graph.NoValue {
		in = in[:len(in)-1]
	}
	attrs := l.rowCodes(x, l.in(lstmWeights), graph.Int("hidden_size", int64(hidden)))
	if _, err := l.g.AddNode(graph.Node{Name: l.g.FreshName(t.Name), Op: "LSTM", Attrs: attrs, Inputs: in,
		Outputs: slices.Clone(out)}); err != nil {
		return err
	}
	for i, id := range []int{l.op.Outputs[0], l.in(lstmState), l.in(lstmState + 1)} { // the grids of an LSTM of integers, at its results
		if id >= 0 {
			own := l.s.Tensors[id]
			own.Shape, _ = l.g.Value(out[i]).Shape.Ints()
			if out[i], err = l.quantized(out[i], &own, plain); err != nil {
				return err
			}
		}
	}
	return l.lstmOutputs(&t, out, major, []int{steps, batch, hidden})
}

// oneGrid reports whether the states of an LSTM have the grids that an LSTM of integers has: that of its results y, and graph.CellScale. Of
// real states it is true.
func (l *lifter) oneGrid(y *tflite.Tensor) bool {
	own := y.Quantization
	if !own.Quantized() {
		return true
	}
	grid := func(i int) *tflite.Quantization {
		if id := l.in(i); id >= 0 && l.s.Tensors[id].Quantization.Quantized() {
			return l.s.Tensors[id].Quantization
		}
		return &tflite.Quantization{}
	}
	h, c := grid(lstmState), grid(lstmState+1)
	return slices.Equal(h.Scale, own.Scale) && slices.Equal(h.ZeroPoint, own.ZeroPoint) && slices.Equal(c.Scale, []float32{graph.CellScale})
}

// lstmOutputs defines the output of the operator, and its states as they are behind it.
func (l *lifter) lstmOutputs(t *tflite.Tensor, out []graph.ValueID, major bool, shape []int) error {
	name := t.Name
	if !major {
		name += "_rows"
	}
	y, err := l.node("Squeeze", name, tensor.Float32, shape, nil, out[0], l.list("axes", []int64{1}))
	if err == nil && !major {
		y, err = l.node("Transpose", t.Name, tensor.Float32, t.Shape, []graph.Attr{graph.Ints("perm", 1, 0, 2)}, y)
	}
	if err == nil {
		err = l.define(l.op.Outputs[0], plain, y)
	}
	for k := range 2 {
		id := l.in(lstmState + k)
		if err != nil || id < 0 {
			continue
		}
		v, e := l.node("Squeeze", l.s.Tensors[id].Name+"_left", tensor.Float32, shape[1:], nil, out[1+k], l.list("axes", []int64{0}))
		if err = e; err == nil {
			err = l.define(id, plain, v)
		}
	}
	return err
}

// stacked adds the constants of all gates as input to of LSTM has them; the second half of the bias is zeros.
func (l *lifter) stacked(from, to int) (graph.ValueID, error) {
	gates, axes := lstmGates, 2
	if to > 2 {
		axes = 1
	}
	if to == 7 {
		gates = lstmPeeps
	}
	var all tflite.Tensor
	q := &tflite.Quantization{Axis: 1}
	for _, g := range gates {
		id := l.in(from + g)
		if id < 0 {
			return graph.NoValue, errNoForm
		}
		t := l.s.Tensors[id]
		if t.Data == nil || len(t.Shape) != axes || t.Quantization.Quantized() && len(t.Quantization.Scale) > 1 ||
			all.Data != nil && (t.Type != all.Type || !slices.Equal(t.Shape, all.Shape)) {
			return graph.NoValue, errNoForm
		}
		all = tflite.Tensor{Name: l.s.Tensors[l.op.Outputs[0]].Name + []string{"", "_W", "_R", "_B", "", "", "", "_P"}[to], Type: t.Type,
			Shape: t.Shape, Data: slices.Concat(all.Data, t.Data)}
		if t.Quantization.Quantized() {
			q.Scale = append(q.Scale, slices.Repeat(t.Quantization.Scale, t.Shape[0])...)
		}
	}
	rows := len(gates) * all.Shape[0]
	if to == 3 {
		all.Data, q.Scale, rows = append(all.Data, make([]byte, len(all.Data))...), append(q.Scale, q.Scale...), 2*rows
	}
	all.Shape = slices.Concat([]int{1, rows}, all.Shape[1:])
	if len(q.Scale) > 0 {
		all.Quantization = q
		if !slices.ContainsFunc(q.Scale, func(s float32) bool { return s != q.Scale[0] }) {
			q.Scale = q.Scale[:1]
		}
	}
	c, err := l.value(&all)
	if err != nil {
		return graph.NoValue, err
	}
	return l.dequantized(&all, c, 1)
}
