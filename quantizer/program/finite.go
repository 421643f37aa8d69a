package program

import (
	"math"
	"slices"

	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// finiteFactor is small enough that no 32-bit integer times it, and no sum of a few such numbers, is beyond float32.
const finiteFactor = 0x1p90

// finite says of every output of p whether it is finite whatever the inputs are: real numbers that a step makes of its own integers, as
// products without a function and dequantized codes are.
func finite(p *lower.Program) []bool {
	all := make([]bool, len(p.Outputs))
	for i := range p.Steps {
		s := &p.Steps[i]
		if !bounded(p, s) {
			continue
		}
		for k, id := range p.Outputs {
			all[k] = all[k] || slices.Contains(s.Outputs, id)
		}
	}
	return all
}

func bounded(p *lower.Program, s *lower.Step) bool {
	small := func(x float32) bool { return math.Abs(float64(x)) <= finiteFactor } // NaN is not
	grid := func(id lower.TensorID) bool {
		e := p.Tensors[id].Encoding
		return e != nil && p.Tensors[id].DType.Bits() <= 32 && small(e.Scale)
	}
	switch op := s.Op.(type) {
	case *lower.Dequantize:
		return grid(s.Inputs[0])
	case *lower.Linear:
		large := slices.ContainsFunc(op.Real, func(c qmath.Channel) bool { return !small(c.X*c.W) || !small(c.Bias) })
		return op.Func == nil && !op.Wide && !large && len(op.Real) > 0 && (!op.Residual || grid(s.Inputs[len(s.Inputs)-1]))
	}
	return false
}
