package qdq

import (
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// sameFactor is how far from 1 a factor may be that stands for 1: training with quantization multiplies weights by what a normalization
// will multiply by, quantizes them, and divides by it again behind the operator.
const sameFactor = 0x1p-18

// fold takes factors and offsets per output channel that stand between a sum of products with quantized weights and what it is quantized
// to (as PyTorch writes a convolution that was trained with its normalization) into the scales of the weights and into the bias. The
// integers stay as they are.
func (r *reader) fold() error {
	for {
		order, err := r.g.Order()
		if err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
		changed := false
		for _, id := range order {
			if !r.g.Alive(id) {
				continue
			}
			done, err := r.foldNode(id)
			if err != nil {
				return r.g.ErrorAt(stage, id, err)
			}
			changed = changed || done
		}
		if !changed {
			return nil
		}
	}
}

// foldNode folds the operator behind a Conv, ConvTranspose or Gemm into it.
func (r *reader) foldNode(id graph.NodeID) (bool, error) {
	n := r.g.Node(id)
	if n.Domain != "" || !graph.Slides(n.Op) && n.Op != "Gemm" {
		return false, nil
	}
	u, sole := r.g.SoleUse(n.Outputs[0])
	if !sole || r.g.IsOutput(n.Outputs[0]) {
		return false, nil
	}
	after := r.g.Node(u.Node)
	factor, offset, ok := r.affine(n, after, u.Index)
	if !ok {
		return false, nil
	}
	bias, ok := r.floatBias(n)
	if !ok {
		return false, nil
	}
	w := r.weightGrid(n)
	if w == nil {
		return false, nil
	}
	if factor != nil && !r.scaleWeights(id, w, factor) {
		return false, nil
	}
	channels := max(len(factor), len(offset), len(bias))
	if v := r.g.Value(n.Inputs[1]).Shape; channels == 1 && len(v) > 0 {
		if c := r.channels(n); c > 0 {
			channels = c
		}
	}
	if bias != nil || offset != nil {
		sum := tensor.New(tensor.Float32, channels)
		for c := range sum.F32() {
			b := 0.0
			if bias != nil {
				b = bias[c%len(bias)]
			}
			if factor != nil {
				b *= factor[c%len(factor)]
			}
			if offset != nil {
				b += offset[c%len(offset)]
			}
			sum.F32()[c] = float32(b)
		}
		r.g.SetInput(id, graph.BiasInput, r.g.AddConst(n.Name+"_bias", sum))
	}
	y := after.Outputs[0]
	spare, err := r.g.AddValue(graph.Value{Name: r.g.FreshName(after.Name + "_before")})
	if err != nil {
		return false, err
	}
	if err := r.g.SetOutput(u.Node, 0, spare); err != nil {
		return false, err
	}
	old := r.g.Node(id).Outputs[0]
	if err := r.g.SetOutput(id, 0, y); err != nil {
		return false, err
	}
	r.g.RemoveNode(u.Node)
	r.g.RemoveValue(old)
	return true, nil
}

// channels is the number of output channels of an operator with a constant weight, 0 where it is not known.
func (r *reader) channels(n *graph.Node) int {
	s := r.g.Value(n.Inputs[graph.WeightInput]).Shape
	axis, ok := graph.OutAxis(n, len(s))
	if !ok || !s[axis].Known() {
		return 0
	}
	if c := n.Conv(); c.Transposed {
		return int(s[axis].N) * c.Group
	}
	return int(s[axis].N)
}

// affine reads after, which reads the result of n as its input i, as factor * y + offset, one number per channel or one for all.
func (r *reader) affine(n, after *graph.Node, i int) (factor, offset []float64, ok bool) {
	if !standard(after.Domain) || len(after.Outputs) != 1 {
		return nil, nil, false
	}
	rank := len(r.g.Value(n.Outputs[0]).Shape)
	if rank == 0 && n.Op == "Gemm" {
		rank = 2
	}
	if rank == 0 {
		rank = len(r.g.Value(n.Inputs[1]).Shape)
	}
	channels := r.channels(n)
	switch after.Op {
	case "Add", "Sub", "Mul", "Div":
		t := r.g.Const(after.Inputs[1-i])
		if t == nil || t.DType != tensor.Float32 || len(after.Inputs) != 2 || r.g.Opset("") < 7 {
			return nil, nil, false
		}
		axis, one := channelAxis(t.Shape)
		x := widened(t.ToRowMajor().F32())
		if !one || len(t.Shape) > rank || len(x) > 1 && (rank+axis != 1 || len(x) != channels) {
			return nil, nil, false
		}
		switch {
		case after.Op == "Add":
			return nil, x, true
		case after.Op == "Sub" && i == 0:
			return nil, each(x, func(v float64) float64 { return -v }), true
		case after.Op == "Mul":
			return x, nil, true
		case after.Op == "Div" && i == 0:
			return each(x, func(v float64) float64 { return 1 / v }), nil, true
		}
	case "BatchNormalization":
		if i != 0 || len(after.Inputs) != 5 || after.Trains(r.g.Opset("")) || r.g.Opset("") < 9 {
			return nil, nil, false
		}
		var p [4][]float64
		for k := range p {
			t := r.g.Const(after.Inputs[k+1])
			if t == nil || t.DType != tensor.Float32 || t.Len() != channels {
				return nil, nil, false
			}
			p[k] = widened(t.ToRowMajor().F32())
		}
		factor, offset = make([]float64, channels), make([]float64, channels)
		for c := range factor {
			factor[c] = p[0][c] / math.Sqrt(p[3][c]+after.Epsilon())
			offset[c] = p[1][c] - p[2][c]*factor[c]
		}
		return factor, offset, true
	}
	return nil, nil, false
}

func each(x []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

// floatBias returns the numbers of a bias of real numbers, nil for none; ok is false where it is something else.
func (r *reader) floatBias(n *graph.Node) (bias []float64, ok bool) {
	v := n.Input(graph.BiasInput)
	if v == graph.NoValue {
		return nil, true
	}
	t := r.g.Const(v)
	if t == nil || t.DType != tensor.Float32 || len(t.Shape) > 1 || n.Op == "Gemm" && n.Beta() != 1 {
		return nil, false
	}
	return widened(t.ToRowMajor().F32()), true
}

// weightPair is how a weight is quantized: a DQ that only one operator reads, of a constant or of what Q makes of one.
type weightPair struct {
	dq, q graph.NodeID // q is NoNode for a constant of integers
	grid  *grid
	t     *tensor.Tensor // the constant
}

func (r *reader) weightGrid(n *graph.Node) *weightPair {
	u, sole := r.g.SoleUse(n.Inputs[1])
	p := r.g.Producer(n.Inputs[1])
	if !sole || u.Index != 1 || p == graph.NoNode || !isDequantize(r.g.Node(p)) {
		return nil
	}
	dq := r.g.Node(p)
	w := &weightPair{dq: p, q: graph.NoNode, t: r.g.Const(dq.Inputs[0])}
	if q := r.g.Producer(dq.Inputs[0]); q != graph.NoNode && isQuantize(r.g.Node(q)) {
		w.q, w.t = q, r.g.Const(r.g.Node(q).Inputs[0])
	}
	var err error
	if w.grid, err = r.gridOf(dq); err != nil || w.t == nil || w.grid.block > 0 {
		return nil
	}
	return w
}

// scaleWeights multiplies the scales of a weight by a factor per output channel, above 0;
// a factor that is 1 but for rounding changes nothing.
func (r *reader) scaleWeights(id graph.NodeID, w *weightPair, factor []float64) bool {
	if !slices.ContainsFunc(factor, func(f float64) bool { return !(math.Abs(f-1) <= sameFactor) }) {
		return true
	}
	if slices.ContainsFunc(factor, func(f float64) bool { return !(f > 0) || math.IsInf(f, 0) }) {
		return false
	}
	n := r.g.Node(id)
	channels := r.channels(n)
	axis, _ := graph.OutAxis(n, len(w.t.Shape))
	if len(factor) > 1 && (len(w.t.Shape) <= axis || w.t.Shape[axis] != channels) || w.grid.axis >= 0 && w.grid.axis != axis ||
		w.grid.block > 0 {
		return false
	}
	to := *w.grid
	count := max(len(factor), len(w.grid.scale))
	to.scale, to.zero = make([]float32, count), make([]int32, count)
	shape := []int{}
	if count > 1 || w.grid.axis >= 0 {
		shape, to.axis = []int{count}, axis
	}
	for c := range count {
		to.scale[c] = float32(float64(w.grid.scale[c%len(w.grid.scale)]) * factor[c%len(factor)])
		to.zero[c] = w.grid.zero[c%len(w.grid.zero)]
	}
	scale, zero := tensor.New(tensor.Float32, shape...), tensor.New(w.grid.dtype, shape...).WithIntegers(to.zero)
	copy(scale.F32(), to.scale)
	name := n.Name + "_weight"
	on := []graph.ValueID{graph.NoValue, r.g.AddConst(name+"_scale", scale), r.g.AddConst(name+"_zero_point", zero)}
	var err error
	if w.q == graph.NoNode {
		on[0] = r.g.AddConst(name+"_quantized", w.t)
	} else {
		real := r.g.AddConst(name+"_float", w.scaled(&to, factor, axis))
		if on[0], err = r.like(w.q, name+"_quantized", axis, []graph.ValueID{real, on[1], on[2]}); err != nil {
			return false
		}
	}
	y, err := r.like(w.dq, name, axis, on)
	if err != nil {
		return false
	}
	r.g.SetInput(id, 1, y)
	r.g.RemoveNode(w.dq)
	if w.q != graph.NoNode {
		r.g.RemoveNode(w.q)
	}
	return true
}

// like adds a Q or DQ like another one, of other scales along an axis, and returns what it computes.
func (r *reader) like(one graph.NodeID, name string, axis int, inputs []graph.ValueID) (graph.ValueID, error) {
	old := r.g.Node(one)
	n := graph.Node{Op: old.Op, Attrs: slices.Clone(old.Attrs), Inputs: inputs}
	if len(r.g.Const(inputs[1]).Shape) > 0 {
		n.SetAttr(graph.Int("axis", int64(axis)))
	}
	v := r.g.Value(old.Outputs[0])
	y, err := r.g.AddValue(graph.Value{Name: r.g.FreshName(name), DType: v.DType, Shape: v.Shape})
	if err != nil {
		return y, err
	}
	n.Outputs = []graph.ValueID{y}
	_, err = r.g.AddNode(n)
	return y, err
}

// scaled are real weights times a factor for each channel of axis, or one for all. A number that rounding of the product brings to another
// integer of the scales to than it had becomes the one of that integer: the integers of the file stay.
func (w *weightPair) scaled(to *grid, factor []float64, axis int) *tensor.Tensor {
	x, out := w.t.ToRowMajor(), tensor.New(tensor.Float32, w.t.Shape...)
	was, is := w.grid.index(w.t.Shape), to.index(w.t.Shape)
	channel := (&grid{scale: make([]float32, len(factor)), axis: axis}).index(w.t.Shape)
	for i, v := range x.F32() {
		code, codec := w.grid.at(was(i)).Quantize(v), to.at(is(i))
		f := factor[0]
		if len(factor) > 1 {
			f = factor[channel(i)]
		}
		out.F32()[i] = float32(float64(v) * f)
		if codec.Quantize(out.F32()[i]) != code {
			out.F32()[i] = codec.Dequantize(code)
		}
	}
	return out
}
