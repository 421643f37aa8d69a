package verify

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// runTime is a Gemm, MatMul or Conv whose factors get their scales when the program runs. Its outputs are the real result, the codes of the
// data, and the sums.
type runTime struct {
	*layer
	got     *lower.RunTime
	data    *tqc.Config
	right   *tqc.Config // of a right factor that is a tensor
	weights *weights    // of one that is constant
	bias    []float32
	trans   bool // the rows of the weights are the columns of the product
	lo, hi  float32
}

func (l *layer) deriveRunTime(op *lower.RunTime) (operation, error) {
	if l.node != nil && target.CellsOfPlan(l.set, l.node.Op, l.set.Input(l.node.ID, 0)) {
		return l.deriveCells(op)
	}
	if l.node != nil && l.node.Op == "LSTM" {
		return l.deriveRecurrent(op)
	}
	if err := l.wants("Gemm", "MatMul", "Conv"); err != nil {
		return nil, err
	}
	r := &runTime{layer: l, got: op, trans: l.node.Op == "Gemm" && l.node.Gemm().TransB}
	if len(l.step.Outputs) != 3 {
		return nil, fmt.Errorf("%d outputs: there are the result, codes and sums", len(l.step.Outputs))
	}
	var err error
	if r.data, err = l.runTimeConfig(0); err != nil {
		return nil, err
	}
	if r.weights, err = l.deriveWeights(); err != nil {
		return nil, err
	}
	if r.weights == nil {
		if r.right, err = l.runTimeConfig(1); err != nil {
			return nil, err
		}
	}
	if v := l.node.Input(graph.BiasInput); l.node.Op != "MatMul" && v != graph.NoValue {
		t := l.g.Const(v)
		if t == nil || t.F32() == nil {
			return nil, fmt.Errorf("the bias is not a constant of float32")
		}
		r.bias = t.ToRowMajor().F32()
	}
	clamped := false
	if r.lo, r.hi, clamped, err = l.limits(l.acts); err == nil && !clamped {
		err = fmt.Errorf("what follows the product is no limit")
	}
	return r, err
}

// runTimeConfig is that of input i, which has to be quantized by scales of run time.
func (l *layer) runTimeConfig(i int) (*tqc.Config, error) {
	slot := l.set.Input(l.node.ID, i)
	if slot == tqc.NoSlot || !l.set.Slot(slot).State().Quantizes() || !l.set.Slot(slot).Config.RunTime() {
		return nil, fmt.Errorf("input %d is not quantized by scales of run time", i)
	}
	return &l.set.Slot(slot).Config, nil
}

// compare holds the constants of the step's operators to graph and plan.
func (r *runTime) compare(f *faults) {
	flag(f, "a scale for each row", r.data.Policy.Has(tqc.PerToken), r.got.Rows)
	flag(f, "constant weights", r.weights != nil, r.got.Weights != nil)
	g := r.got.Graph
	id, ok := g.LookupNode(r.node.Name)
	flag(f, "product "+r.node.Name, true, ok)
	if !ok {
		return
	}
	n := g.Node(id)
	op := "MatMulInteger"
	if r.node.Op == "Conv" {
		op = "ConvInteger"
	}
	flag(f, "product "+r.node.Name, true, n.Op == op && len(n.Inputs) == 4)
	if len(n.Inputs) != 4 {
		return
	}
	if r.weights != nil && r.got.Weights != nil {
		r.weights.compare(f, r.got.Weights)
		own := r.weights.filled()
		codes, turn := n.Inputs[1], g.Producer(n.Inputs[1])
		flag(f, "turned weights", r.trans, turn != graph.NoNode && g.Node(turn).Op == "Transpose")
		if turn != graph.NoNode {
			codes = g.Node(turn).Inputs[0]
		}
		r.constant(f, "weight code", codes, own.codes)
		r.constant(f, "weight zero point", n.Inputs[3], own.zero)
		r.floats(f, "weight scale", "Mul", own.scale)
	}
	if r.bias != nil {
		r.floats(f, "bias", "Add", r.bias)
	}
}

func (r *runTime) constant(f *faults, what string, v graph.ValueID, want []int32) {
	t := r.got.Graph.Const(v)
	flag(f, what, true, t != nil)
	if t != nil {
		numbers(f, what, want, t.ToRowMajor().Integers())
	}
}

// floats holds the one constant that operators op read to what it should be.
func (r *runTime) floats(f *faults, what, op string, want []float32) {
	g, found := r.got.Graph, 0
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for _, v := range n.Inputs {
			if t := g.Const(v); n.Op == op && t != nil && t.F32() != nil && t.Len() == len(want) {
				found++
				numbers(f, what, want, t.ToRowMajor().F32())
			}
		}
	}
	number(f, "constants of "+what, 0, 1, found)
}

// factor is a matrix, or several, of codes less their zero points.
type factor struct {
	shape []int
	codes []int32 // as the program has them
	less  []int32 // the zero point taken off
	scale []float32
}

// quantizedAtRunTime quantizes x as the program does when it runs: qmath's scale of the numbers of all, or of each row.
func quantizedAtRunTime(x *tensor.Tensor, c *tqc.Config) factor {
	x = x.ToRowMajor()
	v := x.F32()
	f := factor{shape: x.Shape, codes: make([]int32, len(v)), less: make([]int32, len(v))}
	size := max(len(v), 1)
	if c.Policy.Has(tqc.PerToken) {
		size = max(x.Shape[len(x.Shape)-1], 1)
	}
	for from := 0; from < len(v); from += size {
		lo, hi := v[from], v[from]
		for _, a := range v[from : from+size] {
			lo, hi = min(lo, a), max(hi, a)
		}
		k := qmath.Codec{Format: c.Format, Rounding: c.Rounding}
		k.Scale, k.ZeroPoint = c.RunTimeScale(lo, hi, 0)
		f.scale = append(f.scale, k.Scale)
		for i, a := range v[from : from+size] {
			q := k.Quantize(a)
			f.codes[from+i], f.less[from+i] = q, q-k.ZeroPoint
		}
	}
	return f
}

// exact computes codes and sums, which are the same integers in any order, and the result in float64.
func (r *runTime) exact(c *computer, in []*tensor.Tensor) ([]*exact, error) {
	left := quantizedAtRunTime(in[0], r.data)
	var right factor
	if r.weights != nil {
		own := r.weights.filled()
		right = factor{shape: own.shape, less: own.centered(), scale: own.scale}
	} else {
		right = quantizedAtRunTime(in[len(in)-1], r.right)
	}
	sums, cols, run, err := r.sums(left, right)
	if err != nil {
		return nil, err
	}
	e := &exact{real: true, value: make([]float64, len(sums)), acc: func(i int) int64 { return int64(sums[i]) }}
	size := make([]float64, len(sums))
	for i, s := range sums {
		c := i / run % cols
		v := s * float64(at(left.scale, i/cols)) * float64(at(right.scale, c))
		size[i] = math.Abs(v)
		if r.bias != nil {
			b := float64(at(r.bias, c))
			v, size[i] = v+b, size[i]+math.Abs(b)
		}
		e.value[i] = min(max(v, float64(r.lo)), float64(r.hi))
	}
	e.bound = func(i int) float64 { return 4 * 0x1p-24 * size[i] } // a conversion and three roundings
	return []*exact{e, whole(left.codes), whole(sums)}, nil
}

// sums are those of the products, of so many channels, each of which has run neighbours.
func (r *runTime) sums(left, right factor) (sums []float64, channels, run int, err error) {
	if r.node.Op == "Conv" {
		g, err := graph.WindowGeometry(r.node, graph.Static(left.shape...), graph.Static(right.shape...))
		if err != nil {
			return nil, 0, 0, err
		}
		return slide(left, right, g), right.shape[0], tensor.Count(g.Out), nil
	}
	channels = right.shape[len(right.shape)-1]
	if r.trans {
		channels = right.shape[0]
	}
	sums, err = multiply(left, right, r.trans)
	return sums, channels, 1, err
}

// slide is a convolution of integers, whose sums float64 holds exactly.
func slide(x, w factor, g *graph.Geometry) []float64 {
	places := tensor.Count(g.Out)
	in, taps, m := tensor.Count(g.In), tensor.Count(g.Kernel), w.shape[0]
	out := make([]float64, x.shape[0]*m*places)
	from := make([]int, taps*places) // where the data of a tap and a place lie; -1: in the padding
	for i := range from {
		tap, place := i/places, i%places
		for a, scale := len(g.In)-1, 1; a >= 0; a-- {
			at := place%g.Out[a]*g.Stride[a] + tap%g.Kernel[a]*g.Dilation[a] - g.PadBegin[a]
			if place, tap = place/g.Out[a], tap/g.Kernel[a]; at < 0 || at >= g.In[a] {
				from[i] = -1
				break
			}
			from[i] += at * scale
			scale *= g.In[a]
		}
	}
	for i := range out {
		n, c, place := i/(m*places), i/places%m, i%places
		first := n*x.shape[1] + c/(m/g.Group)*w.shape[1]
		for k := range w.shape[1] {
			data, row := x.less[(first+k)*in:][:in], w.less[(c*w.shape[1]+k)*taps:][:taps]
			for tap, v := range row {
				if at := from[tap*places+place]; at >= 0 {
					out[i] += float64(data[at]) * float64(v)
				}
			}
		}
	}
	return out
}

// at is element i of a list, or the one that serves all.
func at(list []float32, i int) float32 {
	if len(list) == 1 {
		return list[0]
	}
	return list[i]
}

// whole is an output of integers that have to be the same.
func whole[T int32 | float64](list []T) *exact {
	e := &exact{value: make([]float64, len(list)), lo: math.MinInt32, hi: math.MaxInt32, bound: func(int) float64 { return 0 }}
	for i, v := range list {
		e.value[i] = float64(v)
	}
	return e
}

// multiply is a product of integers by rows, whose sums float64 holds exactly. The matrices of a stack on the right are those of the left's
// leading axes.
func multiply(a, b factor, trans bool) ([]float64, error) {
	k := a.shape[len(a.shape)-1]
	rows, n := 1, b.shape[len(b.shape)-1]
	if len(a.shape) > 1 {
		rows = a.shape[len(a.shape)-2]
	}
	if trans {
		n = b.shape[0]
	}
	stack, stride := 1, k*n
	for _, d := range a.shape[:max(len(a.shape)-2, 0)] {
		stack *= d
	}
	switch {
	case len(b.less) == k*n:
		stride = 0
	case len(b.less) != stack*k*n:
		return nil, fmt.Errorf("factors of %v and %v", a.shape, b.shape)
	}
	out := make([]float64, stack*rows*n)
	for m := range stack {
		for i := range rows {
			row, to := a.less[(m*rows+i)*k:][:k], out[(m*rows+i)*n:][:n]
			for t, x := range row {
				if trans {
					for j := range to {
						to[j] += float64(x) * float64(b.less[m*stride+j*k+t])
					}
					continue
				}
				for j, y := range b.less[m*stride+t*n:][:n] {
					to[j] += float64(x) * float64(y)
				}
			}
		}
	}
	return out, nil
}
