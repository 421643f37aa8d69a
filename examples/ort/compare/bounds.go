package main

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// unit is the unit roundoff of float32: the largest relative error of one operation.
const unit = 0x1p-24

// step is one operator whose error is to be bounded.
type step struct {
	c      *comparison
	n      *graph.Node
	y      *tensor.Tensor // what it computes, by exact sums
	output int
}

// bounds holds, by operator, how far a float32 computation of output y may be from the exact one, element by element, given how
// far its inputs are. Sums of n terms are bounded whatever their order and whether products are fused:
//
//	|computed - exact| <= gamma(n) * sum |w*x|    with gamma(k) = m*unit / (1 - m*unit), m = min(k, 8*sqrt(k))
//
// k instead of m holds always (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), but says nothing where it
// exceeds half a step; with 8*sqrt(k) a sum of k terms fails with probability 2k*exp(-32) if roundings are independent (Higham
// and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). An operator that is missing here is compared by
// itself and begins a step. nil results are exact.
var bounds = map[string]func(*step) (*tensor.Tensor, error){
	"Conv": sums, "ConvTranspose": sums, "Gemm": sums, "MatMul": sums, "AveragePool": sums, "GlobalAveragePool": sums, "ReduceMean": sums,
	"Add": sums, "Sum": sums,
	"Relu": clips, "Clip": clips, "LeakyRelu": slope,
	"Sigmoid": function(0.25), "Tanh": function(1), "HardSigmoid": function(0), "HardSwish": function(1.5), "Softmax": softmax, "Mul": product,
	"MaxPool": moves, "GlobalMaxPool": moves, "Concat": moves, "Reshape": moves, "Flatten": moves, "Transpose": moves, "Squeeze": moves,
	"Unsqueeze": moves, "Slice": moves, "Split": moves, "Identity": moves, "Dropout": moves, "Gather": moves, "DepthToSpace": moves,
}

func gamma(terms int) float64 {
	m := min(float64(terms), 8*math.Sqrt(float64(terms)))
	return m * unit / (1 - m*unit)
}

// sums bounds operators that are linear in what they read: the magnitudes come from the operator itself, applied to absolute
// values. One more rounding is that of y, which is rounded to float32 here.
func sums(s *step) (*tensor.Tensor, error) {
	in := s.c.inputs(s.n, s.c.x)
	errs := s.c.inputs(s.n, s.c.e)
	size, err := s.absolute(in, errs)
	if err != nil {
		return nil, err
	}
	terms := s.terms(in)
	out := tensor.New(tensor.Float32, s.y.Shape...)
	for i, v := range size[0].F32() {
		out.F32()[i] = up(gamma(terms+2)*float64(v) + unit*math.Abs(float64(s.y.F32()[i])))
	}
	for k, e := range errs { // what comes in with one input is multiplied by the magnitudes of the others
		if e == nil {
			continue
		}
		only := make([]*tensor.Tensor, len(in))
		for j := range in {
			switch {
			case j == k:
				only[j] = e
			case in[j] == nil || additive(s.n.Op, j, k):
				only[j] = zero(in[j])
			default:
				only[j] = magnitude(in[j], errs[j])
			}
		}
		spread, err := evaluate(s.c.g, s.positive(), only)
		if err != nil {
			return nil, err
		}
		for i, v := range spread[0].F32() {
			out.F32()[i] = up(float64(out.F32()[i]) + float64(v)*(1+gamma(terms+2)))
		}
	}
	return out, nil
}

// additive reports whether input j is only added to what input k contributes.
func additive(op string, j, k int) bool {
	switch op {
	case "Add", "Sum":
		return true
	case "Conv", "ConvTranspose", "Gemm":
		return j == 2 || k == 2
	}
	return false
}

// absolute applies the operator to absolute values.
func (s *step) absolute(in, errs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	abs := make([]*tensor.Tensor, len(in))
	for i, t := range in {
		if abs[i] = t; t != nil && t.DType == tensor.Float32 {
			abs[i] = magnitude(t, errs[i])
		}
	}
	return evaluate(s.c.g, s.positive(), abs)
}

// positive is the node with positive factors.
func (s *step) positive() *graph.Node {
	n := *s.n
	n.Attrs = append([]graph.Attr(nil), n.Attrs...)
	for i, a := range n.Attrs {
		if a.Name == "alpha" || a.Name == "beta" {
			n.Attrs[i] = graph.Float(a.Name, float32(math.Abs(float64(a.F))))
		}
	}
	return &n
}

// terms is the number of terms of one sum, at most.
func (s *step) terms(in []*tensor.Tensor) int {
	switch s.n.Op {
	case "Add":
		return 1
	case "Sum":
		return len(in)
	case "Conv", "ConvTranspose": // weights per output channel: of a transposed one all of an output's share at most
		axis, _ := graph.OutAxis(s.n, len(in[1].Shape))
		return in[1].Len()/max(in[1].Shape[axis], 1) + 1
	case "Gemm":
		axis, _ := graph.InAxis(s.n, graph.DataInput, 2)
		return in[0].Shape[axis] + 2 // alpha and beta
	case "MatMul":
		return in[0].Shape[len(in[0].Shape)-1]
	}
	if a := s.n.Attr("kernel_shape"); a != nil {
		n := 1
		for _, k := range a.Ints {
			n *= int(k)
		}
		return n + 2 // the inverse of the size, and the multiplication with it
	}
	return in[0].Len()/max(s.y.Len(), 1) + 2
}

// clips bounds functions that bring no two values further apart and do not round: between x-e and x+e they may even be constant.
func clips(s *step) (*tensor.Tensor, error) {
	in, errs := s.c.inputs(s.n, s.c.x), s.c.e[s.n.Inputs[0]]
	if errs == nil {
		return nil, nil
	}
	out := tensor.New(tensor.Float32, s.y.Shape...)
	for _, sign := range []float64{-1, 1} {
		moved := tensor.New(tensor.Float32, s.y.Shape...)
		for i, x := range in[0].F32() {
			moved.F32()[i] = float32(float64(x) + sign*float64(up(float64(errs.F32()[i])+unit*math.Abs(float64(x)))))
		}
		far, err := evaluate(s.c.g, s.n, append([]*tensor.Tensor{moved}, in[1:]...))
		if err != nil {
			return nil, err
		}
		for i, y := range far[0].F32() {
			out.F32()[i] = max(out.F32()[i], up(math.Abs(float64(y)-float64(s.y.F32()[i]))))
		}
	}
	return out, nil
}

// slope bounds a function that multiplies once.
func slope(s *step) (*tensor.Tensor, error) {
	out := tensor.New(tensor.Float32, s.y.Shape...)
	factor := max(1, math.Abs(float64(s.n.Alpha())))
	e := floats(s.c.e[s.n.Inputs[0]])
	for i, v := range s.y.F32() {
		bound := 2 * unit * math.Abs(float64(v))
		if e != nil {
			bound += factor * float64(e[i])
		}
		out.F32()[i] = up(bound)
	}
	return out, nil
}

// moves bounds operators that move or select elements: they do the same to the errors, and the largest error of a window covers
// the error of its maximum.
func moves(s *step) (*tensor.Tensor, error) {
	in := s.c.inputs(s.n, s.c.x)
	any := false
	for i, v := range s.n.Inputs {
		if v == graph.NoValue || in[i].DType != tensor.Float32 {
			continue
		}
		if e := s.c.e[v]; e != nil {
			in[i], any = e, true
		} else {
			in[i] = zero(in[i])
		}
	}
	if !any {
		return nil, nil
	}
	out, err := evaluate(s.c.g, s.n, in)
	if err != nil {
		return nil, err
	}
	return out[s.output], nil
}

// magnitude is |t| + e.
func magnitude(t, e *tensor.Tensor) *tensor.Tensor {
	if t == nil || t.DType != tensor.Float32 {
		return t
	}
	out := tensor.New(tensor.Float32, t.Shape...)
	for i, v := range t.F32() {
		out.F32()[i] = float32(math.Abs(float64(v)))
		if e != nil {
			out.F32()[i] = up(float64(out.F32()[i]) + float64(e.F32()[i]))
		}
	}
	return out
}

func zero(t *tensor.Tensor) *tensor.Tensor {
	if t == nil || t.DType != tensor.Float32 {
		return t
	}
	return tensor.New(tensor.Float32, t.Shape...)
}

// up converts to float32, never downwards.
func up(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}
