package verify

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// recurrent is an LSTM whose data and state get their scales when the program runs. Its constants are held to graph and plan, and so are
// the codes of the data. What the cells compute of them is that of one operator, which tests hold to ONNX Runtime in every bit.
type recurrent struct {
	*layer
	got  *lower.RunTime
	data *tqc.Config
	at   int // the step's input with the data
}

func (l *layer) deriveRecurrent(op *lower.RunTime) (operation, error) {
	r := &recurrent{layer: l, got: op, at: -1}
	var err error
	if r.data, err = l.runTimeConfig(0); err != nil {
		return nil, err
	}
	for k, id := range l.step.Inputs {
		if l.program.Tensors[id].Value == l.node.Inputs[0] {
			r.at = k
		}
	}
	if r.at < 0 || len(l.step.Outputs) < 2 || len(l.step.Outputs) != len(op.Graph.Outputs) {
		return nil, fmt.Errorf("%d inputs and %d outputs: the data, Y and the codes of the data are among them", len(l.step.Inputs),
			len(l.step.Outputs))
	}
	return r, nil
}

// compare holds the constants of the step's operator to graph and plan.
func (r *recurrent) compare(f *faults) {
	g := r.got.Graph
	id, ok := g.LookupNode(r.node.Name)
	op := "DynamicQuantizeLSTM"
	if flag(f, "a scale for each row", r.data.Policy.Has(tqc.PerToken), r.got.Rows); r.got.Rows {
		op = "HybridLSTM"
	}
	ok = ok && g.Node(id).Op == op && len(g.Node(id).Inputs) == graph.DynamicLSTMInputs
	if flag(f, "operator "+r.node.Name, true, ok); !ok {
		return
	}
	n := g.Node(id)
	for _, a := range r.node.Attrs {
		if b := n.Attr(a.Name); a.Name != "layout" && a.Name != "output_sequence" {
			flag(f, "attribute "+a.Name, true, b != nil && b.S == a.S && b.I == a.I && b.F == a.F && slices.Equal(b.Strings, a.Strings) &&
				slices.Equal(b.Floats, a.Floats))
		}
	}
	r.weights(f, n, graph.WeightInput, graph.WeightScaleInput)
	r.weights(f, n, graph.RecurrenceInput, graph.RecurrenceScaleInput)
	for _, i := range []int{3, 5, 6, 7} {
		own := r.g.Const(r.node.Input(i))
		if own == nil {
			continue
		}
		got := g.Const(n.Inputs[i])
		if flag(f, fmt.Sprintf("constant input %d", i), true, got != nil && got.F32() != nil); got != nil {
			numbers(f, fmt.Sprintf("input %d", i), own.ToRowMajor().F32(), got.ToRowMajor().F32())
		}
	}
}

// weights holds codes, scales and zero points of W or R to those that the plan's grids give.
func (r *recurrent) weights(f *faults, n *graph.Node, i, at int) {
	own, slot := r.g.Const(r.node.Inputs[i]).ToRowMajor(), r.set.Input(r.node.ID, i)
	codes, scale, zero := r.got.Graph.Const(n.Inputs[i]), r.got.Graph.Const(n.Inputs[at]), r.got.Graph.Const(n.Inputs[at+1])
	what := []string{"", "weight", "recurrence"}[i]
	ok := codes != nil && scale != nil && zero != nil && codes.Len() == own.Len() && scale.Len() == zero.Len()
	if flag(f, what, true, ok); !ok {
		return
	}
	dirs, rows, inner := own.Shape[0], own.Shape[1], own.Shape[2]
	scales, zeros, wanted := make([]float32, scale.Len()), make([]int32, scale.Len()), make([]int32, own.Len())
	axis, _ := target.OutputAxis(r.g, r.node, i)
	cfg, count := &r.set.Slot(slot).Config, len(r.set.Params(slot).Scale)
	if cfg.Policy.Has(tqc.PerChannel) {
		axis = cfg.Axis
	}
	grid := func(d, row int) int {
		switch {
		case count == 1:
			return 0
		case axis == 0:
			return d
		}
		return row
	}
	for d := range dirs {
		for row := range rows {
			q := r.set.Grid(slot, grid(d, row))
			for j := range inner {
				wanted[(d*inner+j)*rows+row] = q.Quantize(own.F32()[(d*rows+row)*inner+j])
			}
			k := d * len(scales) / dirs
			if len(scales) == dirs*rows {
				k += row
			}
			scales[k], zeros[k] = q.Scale, q.ZeroPoint
		}
	}
	numbers(f, what+" code", wanted, codes.ToRowMajor().Integers())
	numbers(f, what+" scale", scales, scale.ToRowMajor().F32())
	numbers(f, what+" zero point", zeros, zero.ToRowMajor().Integers())
}

// exact computes the codes of the data.
func (r *recurrent) exact(_ *computer, in []*tensor.Tensor) ([]*exact, error) {
	list := make([]*exact, len(r.step.Outputs))
	if list[len(list)-1] = whole(quantizedAtRunTime(in[r.at], r.data).codes); r.got.Rows {
		list[len(list)-1] = whole(hybridCodes(in[r.at].ToRowMajor().F32(), in[r.at].Shape[2]))
	}
	return list, nil
}

// hybridCodes are x/most*127 of rows of x, in float32 as TensorFlow Lite has it, rounded to the nearest, ties away from 0.
func hybridCodes(x []float32, size int) []int32 {
	codes := make([]int32, len(x))
	for from := 0; from < len(x); from += size {
		most := float32(0)
		for _, v := range x[from:][:size] {
			most = max(most, float32(math.Abs(float64(v))))
		}
		for i, v := range x[from:][:size] {
			if most > 0 {
				codes[from+i] = min(int32(qmath.HalfAwayFromZero.Round(float64(v*float32(127/most)))), 127)
			}
		}
	}
	return codes
}
