package passes

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// microsoft is the domain of ONNX Runtime's own operators.
const microsoft = "com.microsoft"

// IntegerRecurrences writes LSTM of data from DynamicQuantizeLinear and of constant weights of 8 bits as DynamicQuantizeLSTM, which
// quantizes the state of every step as well. Weights have one scale, one for each direction, or one for each row of the gates that the
// directions share. Zero points that differ, and of signed weights those other than 0, the engine does not take: such nodes stay as they
// are. A node keeps its name. It returns how many it wrote. FloatRecurrences reads the form back.
func IntegerRecurrences(g *graph.Graph) (int, error) {
	return recurrences(g, microsoft, "DynamicQuantizeLSTM", func(n *graph.Node) graph.ValueID {
		if q := dynamicData(g, n); q != nil {
			return q.Inputs[0]
		}
		return graph.NoValue
	})
}

// HybridRecurrences writes LSTM of real numbers and of such weights as HybridLSTM, which quantizes data and states by scales of their rows,
// and has the codes of the data as its fourth output. One whose biases are integers computes on integers throughout: it stays.
func HybridRecurrences(g *graph.Graph) (int, error) {
	return recurrences(g, graph.OwnDomain, "HybridLSTM", func(n *graph.Node) graph.ValueID {
		if producerOf(g, n.Input(3), "DequantizeLinear") != nil {
			return graph.NoValue
		}
		return n.Input(0)
	})
}

// recurrences writes LSTM of weights of 8 bits as another operator, whose data are those that data names; NoValue: the node stays.
func recurrences(g *graph.Graph, domain, op string, data func(n *graph.Node) graph.ValueID) (int, error) {
	written := 0
	for _, id := range g.Nodes() {
		if !g.Alive(id) {
			continue
		}
		n := *g.Node(id)
		if n.Op != "LSTM" || n.Domain != "" || n.AttrInt("layout", 0) != 0 {
			continue
		}
		x := data(&n)
		if x == graph.NoValue {
			continue
		}
		inputs := make([]graph.ValueID, graph.DynamicLSTMInputs)
		for i := range inputs {
			inputs[i] = graph.NoValue
		}
		copy(inputs, n.Inputs)
		inputs[0] = x
		if !codedWeight(g, &n, graph.WeightInput, graph.WeightScaleInput, inputs) ||
			!codedWeight(g, &n, graph.RecurrenceInput, graph.RecurrenceScaleInput, inputs) {
			continue
		}
		n.Outputs = readOutputs(g, &n)
		g.RemoveNode(id)
		if domain == graph.OwnDomain {
			for len(n.Outputs) < 3 {
				n.Outputs = append(n.Outputs, graph.NoValue)
			}
			codes, err := g.AddValue(graph.Value{Name: g.FreshName(n.Name + "_codes"), DType: tensor.Int8})
			if err != nil {
				return written, err
			}
			n.Outputs = append(n.Outputs, codes)
		}
		n.Op, n.Domain, n.Inputs = op, domain, inputs
		n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a graph.Attr) bool {
			return a.Name == "layout" || a.Name == "output_sequence" || a.Name == graph.RowCodes
		})
		if _, err := g.AddNode(n); err != nil {
			return written, g.ErrorAt("", id, err)
		}
		if g.Opset(domain) == 0 {
			g.Opsets = append(g.Opsets, graph.Opset{Domain: domain, Version: 1})
		}
		written++
	}
	if written > 0 {
		sweepDequantized(g)
		for _, id := range g.Nodes() {
			n := g.Node(id)
			read := func(v graph.ValueID) bool { return len(g.Uses(v)) > 0 || g.IsOutput(v) }
			if n.Op == "DynamicQuantizeLinear" && !slices.ContainsFunc(n.Outputs, read) {
				g.RemoveNode(id)
			}
		}
	}
	return written, nil
}

// readOutputs are the outputs of a node, without those that nobody reads: they go with the node when it is removed.
func readOutputs(g *graph.Graph, n *graph.Node) []graph.ValueID {
	list, last := slices.Clone(n.Outputs), 0
	for i, v := range list {
		if v == graph.NoValue || len(g.Uses(v)) == 0 && !g.IsOutput(v) {
			list[i] = graph.NoValue
		} else {
			last = i + 1
		}
	}
	return list[:last]
}

// dynamicData is the DynamicQuantizeLinear behind the data of a node, nil where there is none.
func dynamicData(g *graph.Graph, n *graph.Node) *graph.Node {
	dq := producerOf(g, n.Input(0), "DequantizeLinear")
	if dq == nil {
		return nil
	}
	q := producerOf(g, dq.Inputs[0], "DynamicQuantizeLinear")
	if q == nil || len(q.Outputs) != 3 || dq.Input(1) != q.Outputs[1] || dq.Input(2) != q.Outputs[2] {
		return nil
	}
	return q
}

// codedWeight fills in codes, scales and zero points of W or R, as DynamicQuantizeLSTM has them; false where it cannot.
func codedWeight(g *graph.Graph, n *graph.Node, i, scale int, inputs []graph.ValueID) bool {
	dq := producerOf(g, n.Input(i), "DequantizeLinear")
	if dq == nil {
		return false
	}
	w, s := g.Const(dq.Inputs[0]), g.Const(dq.Input(1))
	if w == nil || s == nil || !isByte(w.DType) || len(w.Shape) != 3 || s.DType != tensor.Float32 || dq.AttrInt("block_size", 0) > 0 {
		return false
	}
	w = w.ToRowMajor()
	dirs, rows := w.Shape[0], w.Shape[1]
	axis, ok := graph.Axis(int(dq.AttrInt("axis", 1)), 3)
	shape, at := []int{dirs}, func(d, _ int) int { return d }
	switch {
	case len(s.Shape) == 0:
		at = func(int, int) int { return 0 }
	case len(s.Shape) == 1 && ok && axis == 0 && s.Len() == dirs:
	case len(s.Shape) == 1 && ok && axis == 1 && s.Len() == rows:
		shape, at = []int{dirs, rows}, func(_, r int) int { return r }
	default:
		return false
	}
	scales, zeros := make([]float32, tensor.Count(shape)), make([]int32, tensor.Count(shape))
	var own []int32
	if v := dq.Input(2); v != graph.NoValue {
		z := g.Const(v)
		if z == nil || z.DType != w.DType {
			return false
		}
		own = z.ToRowMajor().Integers()
	}
	for k := range scales {
		d, r := k*dirs/len(scales), k%(len(scales)/dirs)
		if scales[k] = s.F32()[at(d, r)]; own != nil {
			zeros[k] = own[at(d, r)]
		}
		if zeros[k] != zeros[d*len(scales)/dirs] || zeros[k] != 0 && w.DType == tensor.Int8 {
			return false
		}
	}
	name := n.Name + []string{"", "_W", "_R"}[i]
	inputs[i] = g.AddConst(name+"_codes", turnedStack(w))
	inputs[scale] = g.AddConst(name+"_scale", tensor.FromF32(scales, shape...))
	inputs[scale+1] = g.AddConst(name+"_zero_point", tensor.New(w.DType, shape...).WithIntegers(zeros))
	return true
}

// turnedStack is a stack of matrices of codes with rows and columns exchanged.
func turnedStack(t *tensor.Tensor) *tensor.Tensor {
	d, r, c := t.Shape[0], t.Shape[1], t.Shape[2]
	from, to := t.ToRowMajor().Integers(), make([]int32, t.Len())
	for k := range d {
		for i := range r {
			for j := range c {
				to[(k*c+j)*r+i] = from[(k*r+i)*c+j]
			}
		}
	}
	return tensor.New(t.DType, d, c, r).WithIntegers(to)
}
