package exec

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// argEvals find positions of extreme values.
var argEvals = []evaluator{
	{"ArgMax", argExtreme(true)},
	{"ArgMin", argExtreme(false)},
	{"TopK", buildTopK},
}

func argExtreme(largest bool) func(*graph.Node, int64) (evalFunc, error) {
	return func(n *graph.Node, _ int64) (evalFunc, error) {
		axis, last := n.Axis(), n.AttrInt("select_last_index", 0) != 0
		return func(c *call) error {
			x := c.in(0)
			a, err := axisIn(axis, len(x.Shape))
			if err != nil {
				return err
			}
			out, err := c.out(0)
			if err != nil {
				return err
			}
			outer, count, inner := blocks(x.Shape, a)
			if count == 0 && outer*inner > 0 {
				return fmt.Errorf("axis %d of %s is empty", a, x.Type())
			}
			switch d := x.Data.(type) {
			case []float32:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []float64:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []int8:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []int16:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []int32:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []int64:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []uint8:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []uint16:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []uint32:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			case []uint64:
				argLines(out.I64(), d, outer, count, inner, largest, last)
			default:
				return badType(0, x.DType)
			}
			return nil
		}, nil
	}
}

func argLines[T number](dst []int64, src []T, outer, n, inner int, largest, last bool) {
	for o := range outer {
		for i := range inner {
			line := src[o*n*inner+i:]
			best := 0
			for k := 1; k < n; k++ {
				v, b := line[k*inner], line[best*inner]
				if v == b && last || v > b && largest || v < b && !largest {
					best = k
				}
			}
			dst[o*inner+i] = int64(best)
		}
	}
}

// buildTopK returns the k largest (or smallest) along an axis, sorted; of equal values the one with the lower index is first.
func buildTopK(n *graph.Node, version int64) (evalFunc, error) {
	axis := n.Axis()
	largest := n.AttrInt("largest", 1) != 0
	return func(c *call) error {
		x := c.in(0)
		a, err := axisIn(axis, len(x.Shape))
		if err != nil {
			return err
		}
		k := int(n.AttrInt("k", 0))
		if version >= 10 {
			if k, err = scalarInt(c.in(1)); err != nil {
				return err
			}
		}
		values, err := c.out(0)
		if err != nil {
			return err
		}
		indices := make([]int64, values.Len())
		if c.wants(1) {
			t, err := c.out(1)
			if err != nil {
				return err
			}
			indices = t.I64()
		}
		outer, count, inner := blocks(x.Shape, a)
		switch d := x.Data.(type) {
		case []float32:
			topLines(tensor.Of[float32](values), indices, d, outer, count, inner, k, largest)
		case []float64:
			topLines(tensor.Of[float64](values), indices, d, outer, count, inner, k, largest)
		case []int8:
			topLines(tensor.Of[int8](values), indices, d, outer, count, inner, k, largest)
		case []int16:
			topLines(tensor.Of[int16](values), indices, d, outer, count, inner, k, largest)
		case []int32:
			topLines(tensor.Of[int32](values), indices, d, outer, count, inner, k, largest)
		case []int64:
			topLines(tensor.Of[int64](values), indices, d, outer, count, inner, k, largest)
		case []uint8:
			topLines(tensor.Of[uint8](values), indices, d, outer, count, inner, k, largest)
		case []uint16:
			topLines(tensor.Of[uint16](values), indices, d, outer, count, inner, k, largest)
		case []uint32:
			topLines(tensor.Of[uint32](values), indices, d, outer, count, inner, k, largest)
		case []uint64:
			topLines(tensor.Of[uint64](values), indices, d, outer, count, inner, k, largest)
		default:
			return badType(0, x.DType)
		}
		return nil
	}, nil
}

func topLines[T number](values []T, indices []int64, src []T, outer, n, inner, k int, largest bool) {
	order := make([]int, n)
	for o := range outer {
		for i := range inner {
			line := src[o*n*inner+i:]
			for j := range order {
				order[j] = j
			}
			slices.SortStableFunc(order, func(a, b int) int {
				if largest {
					a, b = b, a
				}
				return cmp.Compare(line[a*inner], line[b*inner])
			})
			for j, at := range order[:k] {
				values[(o*k+j)*inner+i], indices[(o*k+j)*inner+i] = line[at*inner], int64(at)
			}
		}
	}
}
