package exec

import (
	"cmp"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// setEvals treat elements as a set.
var setEvals = []evaluator{
	{op: "Unique", build: buildUnique},
}

// buildUnique keeps one of all equal elements, or of all equal parts along an axis: in ascending order (NaN is above everything
// and equal to itself), or in that of their first appearance. Outputs 1 to 3 are where each stands first, which one every element
// is, and how often each occurs.
func buildUnique(n *graph.Node, _ int64) (evalFunc, error) {
	sorted := n.AttrInt("sorted", 1) != 0
	return func(c *call) error {
		x := c.in(0)
		axis := -1
		if a := n.Attr("axis"); a != nil {
			var err error
			if axis, err = axisIn(int(a.I), len(x.Shape)); err != nil {
				return err
			}
		}
		switch d := x.Data.(type) {
		case []float32:
			return unique(c, x, d, axis, sorted)
		case []float64:
			return unique(c, x, d, axis, sorted)
		case []int8:
			return unique(c, x, d, axis, sorted)
		case []int16:
			return unique(c, x, d, axis, sorted)
		case []int32:
			return unique(c, x, d, axis, sorted)
		case []int64:
			return unique(c, x, d, axis, sorted)
		case []uint8:
			return unique(c, x, d, axis, sorted)
		case []uint16:
			return unique(c, x, d, axis, sorted)
		case []uint32:
			return unique(c, x, d, axis, sorted)
		case []uint64:
			return unique(c, x, d, axis, sorted)
		case []bool:
			return unique(c, x, mapSlice(d, func(b bool) uint8 {
				if b {
					return 1
				}
				return 0
			}), axis, sorted)
		}
		return badType(0, x.DType)
	}, nil
}

// unique compares the elements d of x, which stand for those of x where they are of another type.
func unique[T cmp.Ordered](c *call, x *tensor.Tensor, d []T, axis int, sorted bool) error {
	outer, count, inner := 1, len(d), 1
	shape := []int{count}
	if axis >= 0 {
		outer, count, inner = blocks(x.Shape, axis)
		shape = slices.Clone(x.Shape)
	}
	compare := func(i, j int) int {
		for o := range outer {
			a, b := d[(o*count+i)*inner:][:inner], d[(o*count+j)*inner:][:inner]
			for k := range a {
				if r := compareLast(a[k], b[k]); r != 0 {
					return r
				}
			}
		}
		return 0
	}
	order := make([]int, count)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	var first, counts []int64
	class := make([]int, count) // by element
	for k, i := range order {
		if k == 0 || compare(order[k-1], i) != 0 {
			first, counts = append(first, int64(i)), append(counts, 0)
		}
		class[i] = len(first) - 1
		counts[class[i]]++
	}
	if !sorted {
		first, counts = byAppearance(first, counts, class)
	}
	shape[max(axis, 0)] = len(first)
	out, err := c.outAs(0, x.DType, shape, tensor.RowMajor)
	if err != nil {
		return err
	}
	at := make([]int, 0, outer*len(first))
	for o := range outer {
		for _, i := range first {
			at = append(at, o*count+int(i))
		}
	}
	storageOf(out.Data).gather(x.Data, at, inner)
	inverse := make([]int64, count)
	for i, k := range class {
		inverse[i] = int64(k)
	}
	for i, list := range [][]int64{first, inverse, counts} {
		if c.wants(i + 1) {
			t, err := c.outAs(i+1, tensor.Int64, []int{len(list)}, tensor.RowMajor)
			if err != nil {
				return err
			}
			copy(t.I64(), list)
		}
	}
	return nil
}

// compareLast is cmp.Compare with NaN above everything.
func compareLast[T cmp.Ordered](a, b T) int {
	switch nanA, nanB := a != a, b != b; {
	case nanA && nanB:
		return 0
	case nanA:
		return 1
	case nanB:
		return -1
	}
	return cmp.Compare(a, b)
}

// byAppearance orders classes by where they stand first and renumbers class accordingly.
func byAppearance(first, counts []int64, class []int) (f, n []int64) {
	order := make([]int, len(first))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(first[a], first[b]) })
	number := make([]int, len(first))
	for k, i := range order {
		number[i] = k
		f, n = append(f, first[i]), append(n, counts[i])
	}
	for i, k := range class {
		class[i] = number[k]
	}
	return f, n
}
