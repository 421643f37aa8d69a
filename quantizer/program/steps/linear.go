package steps

import (
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
)

// Factor is one side of a product of matrices: a stack of them, as strides into its elements.
type Factor struct {
	Stack      []int // shape of the stack
	Rows, Cols int
	ByRow      int // distance between rows, and
	ByCol      int // between columns
}

// FactorOf reads a tensor of a shape, not a scalar, as a stack of matrices; a vector is a row on the left and a column on the right.
func FactorOf(shape []int, transposed, right bool) Factor {
	var f Factor
	switch r := len(shape); {
	case r > 1:
		f = Factor{shape[:r-2], shape[r-2], shape[r-1], shape[r-1], 1}
	case right:
		f = Factor{nil, shape[0], 1, 1, 0}
	default:
		f = Factor{nil, 1, shape[0], 0, 1}
	}
	if transposed {
		f.Rows, f.Cols, f.ByRow, f.ByCol = f.Cols, f.Rows, f.ByCol, f.ByRow
	}
	return f
}

// Pairs reports whether the products of a step are added in pairs of int16 under a saturating profile: 8-bit codes with constant
// int8 weights without zero point; not those of a depthwise convolution, which stand in different channels.
func Pairs(p *lower.Program, s *lower.Step, op *lower.Linear) bool {
	w := op.Weights
	if w == nil || w.Codes.DType != tensor.Int8 || p.Tensors[s.Inputs[0]].Encoding.DType().Bits() != 8 {
		return false
	}
	for _, z := range w.ZeroPoint {
		if z != 0 {
			return false
		}
	}
	return !(op.Kind == "Conv" && op.Depthwise(p.Graph.Node(s.Node)))
}

// Rescaled is what becomes of a code on the way to another grid, limited to [lo, hi]; r is nil where the grid stays.
func Rescaled(r *qmath.Rescale, lo, hi int32) func(int32) int32 {
	return func(q int32) int32 {
		if r != nil {
			q = r.At(q)
		}
		return min(max(q, lo), hi)
	}
}
