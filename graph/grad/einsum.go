package grad

import (
	"slices"
	"strings"

	"qwb/graph"
)

// einsum differentiates a sum of products by the same sum with the gradient in place of an operand: labels that this operand alone has are
// those of a tensor of ones, and a label that it has twice is two that a unit matrix joins.
func einsum(t *tape, dy []graph.ValueID) []graph.ValueID {
	var shapes []graph.Shape
	for _, v := range t.n.Inputs {
		shapes = append(shapes, graph.Static(t.shape(v)...))
	}
	eq, err := graph.EquationOf(&t.n, shapes)
	if err != nil {
		t.fail(err)
		return nil
	}
	letters := map[byte]string{} // labels as letters: axes of an ellipsis have none
	spare := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	spare = slices.DeleteFunc(spare, func(l byte) bool { _, used := eq.Size[l]; return used })
	fresh := func() string { l := string(spare[:1]); spare = spare[1:]; return l }
	spell := func(labels string) (s string) {
		for _, l := range []byte(labels) {
			if letters[l] == "" {
				if letters[l] = string([]byte{l}); l < 'A' {
					letters[l] = fresh()
				}
			}
			s += letters[l]
		}
		return s
	}
	list := t.only(0, graph.NoValue)
	for i, term := range eq.Terms {
		if !t.wants(i) {
			continue
		}
		terms, operands := []string{spell(eq.Out)}, []graph.ValueID{dy[0]}
		for k, other := range eq.Terms {
			if k != i {
				terms, operands = append(terms, spell(other)), append(operands, t.whole(k, other, eq))
			}
		}
		known, out := strings.Join(terms, ""), ""
		var shape []int // of what is computed: an axis of an ellipsis may be repeated
		for at, l := range []byte(term) {
			size := int(eq.Size[l].N)
			letter := spell(term[at : at+1])
			if strings.Contains(out, letter) {
				same := letter
				letter = fresh()
				terms, operands = append(terms, same+letter), append(operands, t.diagonal(size))
			} else if !strings.Contains(known, letter) {
				terms, operands = append(terms, letter), append(operands, t.op("Expand", t.scalar(1), t.integers(size)))
			}
			out, shape = out+letter, append(shape, size)
		}
		y := t.with("Einsum", []graph.Attr{graph.Str("equation", strings.Join(terms, ",")+"->"+out)}, operands...)
		list[i] = t.like(y, shape, t.shape(t.x(i)))
	}
	return list
}

// whole is operand k with all that its labels have: an axis of an ellipsis may be repeated.
func (t *tape) whole(k int, labels string, eq *graph.Equation) graph.ValueID {
	shape := t.shape(t.x(k))
	full := make([]int, len(shape))
	for i := range full {
		full[i] = int(eq.Size[labels[i]].N)
	}
	if slices.Equal(shape, full) {
		return t.x(k)
	}
	return t.op("Expand", t.x(k), t.integers(full...))
}

// diagonal is the unit matrix.
func (t *tape) diagonal(n int) graph.ValueID {
	m := make([]float64, n*n)
	for i := range n {
		m[i*n+i] = 1
	}
	return t.constant([]int{n, n}, m)
}
