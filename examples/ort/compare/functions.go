package main

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// accuracy is what is granted to a runtime's approximations of exp, tanh and the like, in units of roundoff of the larger of 1 and
// the result: ONNX Runtime's are rational functions with errors of a few units.
const accuracy = 16

// function bounds functions of one number that change at most lipschitz times as much as what they read.
func function(lipschitz float64) func(*step) (*tensor.Tensor, error) {
	return func(s *step) (*tensor.Tensor, error) {
		factor := lipschitz
		if s.n.Op == "HardSigmoid" {
			factor = math.Abs(float64(s.n.Alpha()))
		}
		e := floats(s.c.e[s.n.Inputs[0]])
		out := tensor.New(tensor.Float32, s.y.Shape...)
		for i, v := range s.y.F32() {
			bound := accuracy * unit * max(1, math.Abs(float64(v)))
			if e != nil {
				bound += factor * float64(e[i])
			}
			out.F32()[i] = up(bound)
		}
		return out, nil
	}
}

// softmax bounds exp(x - max) / sum: an error e in every x changes the result by a factor within exp(+-2e).
func softmax(s *step) (*tensor.Tensor, error) {
	worst := 0.0
	for _, e := range floats(s.c.e[s.n.Inputs[0]]) {
		worst = max(worst, float64(e))
	}
	axis, _ := graph.Axis(s.n.Axis(), len(s.y.Shape))
	factor := math.Expm1(2*worst) + gamma(s.y.Shape[axis]+accuracy)
	out := tensor.New(tensor.Float32, s.y.Shape...)
	for i, v := range s.y.F32() {
		out.F32()[i] = up(factor * float64(v))
	}
	return out, nil
}

// product bounds Mul: what comes in with one factor is multiplied by the other.
func product(s *step) (*tensor.Tensor, error) {
	in, errs := s.c.inputs(s.n, s.c.x), s.c.inputs(s.n, s.c.e)
	out := tensor.New(tensor.Float32, s.y.Shape...)
	for i, v := range s.y.F32() {
		out.F32()[i] = up(2 * unit * math.Abs(float64(v)))
	}
	for k := range in {
		if errs[k] == nil {
			continue
		}
		pair := []*tensor.Tensor{magnitude(in[0], errs[0]), magnitude(in[1], errs[1])}
		pair[k] = errs[k]
		spread, err := evaluate(s.c.g, s.n, pair)
		if err != nil {
			return nil, err
		}
		for i, v := range spread[0].F32() {
			out.F32()[i] = up(float64(out.F32()[i]) + float64(v)*(1+2*unit))
		}
	}
	return out, nil
}
