package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// scanEvals accumulate along an axis.
var scanEvals = []evaluator{
	{"CumSum", buildCumSum},
}

func buildCumSum(n *graph.Node, _ int64) (evalFunc, error) {
	exclusive, reverse := n.AttrInt("exclusive", 0) != 0, n.AttrInt("reverse", 0) != 0
	return func(c *call) error {
		x := c.in(0)
		axis, err := scalarInt(c.in(1))
		if err != nil {
			return err
		}
		if axis, err = axisIn(axis, len(x.Shape)); err != nil {
			return err
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		outer, count, inner := blocks(x.Shape, axis)
		switch d := out.Data.(type) {
		case []float32:
			cumulate[float64](d, x.F32(), outer, count, inner, exclusive, reverse)
		case []float64:
			cumulate[float64](d, tensor.Of[float64](x), outer, count, inner, exclusive, reverse)
		case []int32:
			cumulate[int64](d, tensor.Of[int32](x), outer, count, inner, exclusive, reverse)
		case []int64:
			cumulate[int64](d, x.I64(), outer, count, inner, exclusive, reverse)
		case []uint32:
			cumulate[uint64](d, tensor.Of[uint32](x), outer, count, inner, exclusive, reverse)
		case []uint64:
			cumulate[uint64](d, tensor.Of[uint64](x), outer, count, inner, exclusive, reverse)
		default:
			return badType(0, x.DType)
		}
		return nil
	}, nil
}

// cumulate sums in A and converts each partial sum.
func cumulate[A, T number](dst, src []T, outer, n, inner int, exclusive, reverse bool) {
	for o := range outer {
		for i := range inner {
			var acc A
			for k := range n {
				if reverse {
					k = n - 1 - k
				}
				at := (o*n+k)*inner + i
				if exclusive {
					dst[at] = T(acc)
				}
				acc += A(src[at])
				if !exclusive {
					dst[at] = T(acc)
				}
			}
		}
	}
}
