package exec

import (
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
)

// einsumEvals is the Einstein summation.
var einsumEvals = []evaluator{
	{"Einsum", buildEinsum},
}

// buildEinsum sums products over every index that is not in the result, term by term: the sum runs in float64, or in the type
// itself of integers, in the order of first appearance of the summed indices. An ellipsis stands for the axes that are not named,
// aligned at their end.
func buildEinsum(n *graph.Node, _ int64) (evalFunc, error) {
	equation := strings.ReplaceAll(n.AttrStr("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	return func(c *call) error {
		if err := c.sameTypes(); err != nil {
			return err
		}
		if len(terms) != len(c.ins) {
			return fmt.Errorf("equation %q for %d operands", equation, len(c.ins))
		}
		labels := make([][]string, len(terms))
		var order []string // all indices in order of appearance
		count, size := map[string]int{}, map[string]int{}
		for i, term := range terms {
			t := c.in(i)
			var err error
			if labels[i], err = indices(term, len(t.Shape)); err != nil {
				return err
			}
			for a, l := range labels[i] {
				if count[l]++; !slices.Contains(order, l) {
					order = append(order, l)
				}
				if size[l] <= 1 {
					size[l] = t.Shape[a]
				} else if t.Shape[a] != size[l] && t.Shape[a] != 1 {
					return fmt.Errorf("index %s is %d and %d", l, size[l], t.Shape[a])
				}
			}
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		result, err := resultIndices(right, explicit, order, count, len(out.Shape))
		if err != nil {
			return err
		}
		return c.einsum(out, labels, result, order, size)
	}, nil
}

// indices splits a term into one name per axis. Axes under an ellipsis are named ".1", ".2", ... from the last.
func indices(term string, rank int) ([]string, error) {
	var list []string
	before, after, ellipsis := strings.Cut(term, "...")
	for _, r := range before {
		list = append(list, string(r))
	}
	if ellipsis {
		for k := rank - len(before) - len(after); k > 0; k-- {
			list = append(list, fmt.Sprintf(".%d", k))
		}
		for _, r := range after {
			list = append(list, string(r))
		}
	}
	if len(list) != rank {
		return nil, fmt.Errorf("term %q for an operand of rank %d", term, rank)
	}
	return list, nil
}

// resultIndices names the axes of the result; without an arrow they are the ellipsis and the indices that appear once, sorted.
func resultIndices(right string, explicit bool, order []string, count map[string]int, rank int) ([]string, error) {
	if explicit {
		return indices(right, rank)
	}
	var dots, once []string
	for _, l := range order {
		if l[0] == '.' {
			dots = append(dots, l)
		} else if count[l] == 1 {
			once = append(once, l)
		}
	}
	slices.Sort(dots)
	slices.Reverse(dots)
	slices.Sort(once)
	return append(dots, once...), nil
}

func (c *call) einsum(out *tensor.Tensor, labels [][]string, result, order []string, size map[string]int) error {
	if len(result) != len(out.Shape) {
		return fmt.Errorf("result of rank %d for %s", len(result), out.Type())
	}
	var summed []string
	for _, l := range order {
		if !slices.Contains(result, l) {
			summed = append(summed, l)
		}
	}
	lengths := func(names []string) []int {
		s := make([]int, len(names))
		for i, l := range names {
			s[i] = size[l]
		}
		return s
	}
	// steps of operand i along the given indices; an index that appears twice walks the diagonal.
	steps := func(i int, names []string) []int {
		t := c.in(i)
		own, s := strides(t), make([]int, len(names))
		for k, l := range names {
			for a, m := range labels[i] {
				if m == l && t.Shape[a] != 1 {
					s[k] += own[a]
				}
			}
		}
		return s
	}
	n := len(labels)
	w := contraction{outer: make([][]int, n), inner: make([][]int, n), sums: lengths(summed)}
	for i := range n {
		w.outer[i], w.inner[i] = steps(i, result), steps(i, summed)
	}
	switch out.DType {
	case tensor.Float32:
		contract[float64, float32](c, out, w)
	case tensor.Float64:
		contract[float64, float64](c, out, w)
	case tensor.Int8:
		contract[int8, int8](c, out, w)
	case tensor.Int16:
		contract[int16, int16](c, out, w)
	case tensor.Int32:
		contract[int32, int32](c, out, w)
	case tensor.Int64:
		contract[int64, int64](c, out, w)
	case tensor.Uint8:
		contract[uint8, uint8](c, out, w)
	case tensor.Uint16:
		contract[uint16, uint16](c, out, w)
	case tensor.Uint32:
		contract[uint32, uint32](c, out, w)
	case tensor.Uint64:
		contract[uint64, uint64](c, out, w)
	default:
		return badType(0, out.DType)
	}
	return nil
}

// contraction is an Einstein summation in indices: strides of every operand along the axes of the result and along the summed
// indices, and the lengths of those.
type contraction struct {
	outer, inner [][]int
	sums         []int
}

// contract computes a contraction of tensors of T, with sums in A.
func contract[A, T number](c *call, out *tensor.Tensor, w contraction) {
	n, terms, dst := len(w.outer), tensor.Count(w.sums), tensor.Of[T](out)
	data := make([][]T, n)
	for i := range data {
		data[i] = tensor.Of[T](c.in(i))
	}
	c.parallel(out.Len(), terms*n, func(lo, hi int) {
		at := newCounter(out.Shape, lo)
		for k := lo; k < hi; k++ {
			var acc A
			in := newCounter(w.sums, 0)
			for range terms {
				p := A(1)
				for i := range n {
					p *= A(data[i][at.dot(w.outer[i])+in.dot(w.inner[i])])
				}
				acc += p
				in.next()
			}
			dst[k] = T(acc)
			at.next()
		}
	})
}
