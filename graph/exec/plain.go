package exec

import (
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// The evaluators of layers call kernels, which are float32. The standard allows more element types; plain evaluators serve those:
// loops over row-major elements, in float64 or, where integers are allowed, in the type itself, wrapping. They fuse nothing.

// plainEvals is every operator of ai.onnx with an evaluator for element types that its other one does not know.
var plainEvals = slices.Concat(plainGemmEvals, plainConvEvals, plainPoolEvals, plainNormEvals, plainSoftmaxEvals, plainRecurrentEvals)

// findPlain returns the plain evaluator of a node, nil if there is none.
func findPlain(n *graph.Node) *evaluator {
	if !n.IsONNX() {
		return nil
	}
	for i := range plainEvals {
		if plainEvals[i].op == n.Op {
			return &plainEvals[i]
		}
	}
	return nil
}

// f64 returns input i row-major in float64, nil if it is absent.
func (c *call) f64(i int) []float64 {
	if t := c.in(i); t != nil {
		return numbersOf[float64](t)
	}
	return nil
}

// outF64 allocates output i and a slice of float64 for its elements; set rounds them to the output's type.
func (c *call) outF64(i int) (dst []float64, set func(), err error) {
	out, err := c.out(i)
	if err != nil {
		return nil, nil, err
	}
	if d := tensor.Of[float64](out); d != nil {
		return d, func() {}, nil
	}
	dst = make([]float64, out.Len())
	return dst, func() {
		if data, err := castTo(out.DType, &tensor.Tensor{DType: tensor.Float64, Shape: out.Shape, Data: dst}); err == nil {
			copyElements(out.Data, 0, data, 0, len(dst))
		}
	}, nil
}
