package lower

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// recurrentOfPlan reports whether an LSTM has int8 data and results with scales of the plan, those of its states the same, and symmetric
// int8 weights of one scale, under TensorFlow Lite's arithmetic.
func (c *compiler) recurrentOfPlan(id graph.NodeID) bool {
	n := c.g.Node(id)
	if c.profile.Family != qmath.TFLite || !target.CellsOfPlan(c.set, n.Op, c.set.Input(id, 0)) {
		return false
	}
	for i, v := range n.Outputs {
		if c.absent(v) {
			continue
		}
		want := []tensor.DType{tensor.Int8, tensor.Int8, tensor.Int16}
		if i >= len(want) || c.base[v] == nil || c.base[v].DType() != want[i] {
			return false
		}
		if y := n.Outputs[0]; i == 2 && c.base[v].Scale != graph.CellScale || i == 1 && !c.absent(y) &&
			(c.base[v].Scale != c.base[y].Scale || c.base[v].ZeroPoint != c.base[y].ZeroPoint) {
			return false
		}
	}
	for _, i := range []int{graph.WeightInput, graph.RecurrenceInput} {
		slot := c.set.Input(id, i)
		if slot == tqc.NoSlot || c.g.Const(n.Input(i)) == nil || !c.set.Slot(slot).State().Quantizes() {
			return false
		}
		if cfg := &c.set.Slot(slot).Config; weightForm(cfg, 8) != nil || !cfg.Signed() || !cfg.Policy.Has(tqc.Symmetric|tqc.PerTensor) {
			return false
		}
	}
	x, ok, err := c.seen(id, 0)
	return err == nil && ok && x.DType() == tensor.Int8
}

// absent reports whether an LSTM does not compute v, or nobody reads what has no grid.
func (c *compiler) absent(v graph.ValueID) bool {
	return v == graph.NoValue || c.base[v] == nil && len(c.g.Uses(v)) == 0 && !c.g.IsOutput(v)
}

// cellInput is an input of an LSTM with scales of the plan that is no weight: data, state or state of the cells.
type cellInput struct {
	index int
	value graph.ValueID
	enc   Encoding
}

// cellInputs are those that are there, the data first.
func (c *compiler) cellInputs(id graph.NodeID) ([]cellInput, error) {
	n := c.g.Node(id)
	data, err := c.operand(id, 0)
	if err != nil {
		return nil, err
	}
	list := []cellInput{{0, n.Inputs[0], data}}
	state, cell := c.cellGrids(id, data)
	for _, in := range []cellInput{{5, n.Input(5), state}, {6, n.Input(6), cell}} {
		if in.value != graph.NoValue {
			list = append(list, in)
		}
	}
	return list, nil
}

// cellGrids are those of the states of an LSTM.
func (c *compiler) cellGrids(id graph.NodeID, data Encoding) (state, cell Encoding) {
	cfg := &target.CellConfig
	cell = Encoding{Scale: cfg.FixedScale, QMin: cfg.QMin, QMax: cfg.QMax, Rounding: cfg.Rounding}
	for i, v := range c.g.Node(id).Outputs {
		if i < 2 && !c.absent(v) {
			return *c.base[v], cell
		}
	}
	data.Scale, data.ZeroPoint = target.StateScale, 0
	return data, cell
}

// emitCells writes the step of an LSTM with scales of the plan: a graph of one IntegerLSTM.
func (c *compiler) emitCells(u *unit) error {
	id := u.head()
	n := c.g.Node(id)
	inputs, err := c.cellInputs(id)
	if err != nil {
		return err
	}
	data := inputs[0].enc
	state, cell := c.cellGrids(id, data)
	g := graph.New(c.g.Name, c.g.Opset(""))
	g.Opsets = append(g.Opsets, graph.Opset{Domain: graph.OwnDomain, Version: 1})
	own := graph.Node{Name: n.Name, Op: "IntegerLSTM", Domain: graph.OwnDomain, Inputs: slices.Repeat([]graph.ValueID{graph.NoValue}, 7),
		Attrs: []graph.Attr{graph.Str("direction", n.AttrStr("direction", "forward")), graph.Float("x_scale", data.Scale),
			graph.Int("x_zero_point", int64(data.ZeroPoint)), graph.Float("h_scale", state.Scale),
			graph.Int("h_zero_point", int64(state.ZeroPoint)), graph.Float("c_scale", cell.Scale)}}
	var in, out []TensorID
	for _, x := range inputs {
		if t := c.g.Const(x.value); t != nil {
			codes, err := quantizeConst(t, x.enc)
			if err != nil {
				return c.fail(id, "input %d: %w", x.index, err)
			}
			own.Inputs[x.index] = g.AddConst(g.FreshName(c.g.Value(x.value).Name), codes)
			continue
		}
		t, err := c.read(x.value, integer(x.enc))
		if err != nil {
			return c.fail(id, "input %d: %w", x.index, err)
		}
		val := c.g.Value(x.value)
		if own.Inputs[x.index], err = g.AddValue(graph.Value{Name: g.FreshName(val.Name), DType: x.enc.DType(), Shape: val.Shape}); err != nil {
			return c.fail(id, "%w", err)
		}
		g.Inputs, in = append(g.Inputs, own.Inputs[x.index]), append(in, t)
	}
	if err := c.cellWeights(u, g, &own, data.Scale); err != nil {
		return err
	}
	for i, v := range n.Outputs {
		own.Outputs = append(own.Outputs, graph.NoValue)
		if c.absent(v) {
			continue
		}
		val := c.g.Value(v)
		if own.Outputs[i], err = g.AddValue(graph.Value{Name: g.FreshName(val.Name), DType: c.base[v].DType(), Shape: val.Shape}); err != nil {
			return c.fail(id, "%w", err)
		}
		g.Outputs, out = append(g.Outputs, own.Outputs[i]), append(out, c.define(v, integer(*c.base[v])))
	}
	if _, err := g.AddNode(own); err != nil {
		return c.fail(id, "%w", err)
	}
	c.unitStep(u, in, out, &RunTime{Graph: g})
	return nil
}

// cellWeights adds codes of W and R, their scales, and the sum of both halves of the bias to an IntegerLSTM whose data has scale x.
func (c *compiler) cellWeights(u *unit, g *graph.Graph, own *graph.Node, x float32) error {
	id := u.head()
	n := c.g.Node(id)
	for _, i := range []int{graph.WeightInput, graph.RecurrenceInput} {
		slot, p, err := c.constSlot(id, i)
		if err != nil {
			return err
		}
		w, err := newWeights(c.g.Const(n.Inputs[i]), c.Codes[n.Inputs[i]], &slot.Config, p, 1, 1, 8)
		if err != nil {
			return c.fail(id, "input %d: %w", i, err)
		}
		own.Inputs[i] = g.AddConst(g.FreshName(c.g.Value(n.Inputs[i]).Name), w.Codes)
		own.Attrs = append(own.Attrs, graph.Floats([]string{"", "w_scale", "r_scale"}[i], p.Scale...))
		if i == graph.RecurrenceInput {
			continue
		}
		dirs, rows := w.Codes.Shape[0], w.Codes.Shape[1]
		bias := tensor.New(tensor.Int32, dirs, rows)
		if b := c.g.Const(n.Input(3)); b != nil {
			real, scale := b.ToRowMajor().F32(), qmath.BiasScale(x, p.Scale[0])
			for k := range dirs * rows {
				at := k/rows*2*rows + k%rows
				code, fits := qmath.QuantizeBias(real[at]+real[at+rows], scale)
				if !fits {
					return c.refuse(u, "bias %g is beyond 32 bits of scale %g", real[at]+real[at+rows], scale)
				}
				setCode(bias, k, code)
			}
		} else if n.Input(3) != graph.NoValue {
			return c.refuse(u, "its bias is computed")
		}
		own.Inputs[3] = g.AddConst(g.FreshName(n.Name+"_bias"), bias)
	}
	return nil
}
