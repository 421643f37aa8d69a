package grad

import (
	"fmt"
	"slices"

	"qwb/graph"
)

// products are products of matrices: of Y = A B the gradients are dY B' and A' dY.
var products = map[string]rule{"MatMul": matmul, "Gemm": gemm, "Einsum": einsum}

func matmul(t *tape, dy []graph.ValueID) []graph.ValueID {
	a, b, y := t.shape(t.x(0)), t.shape(t.x(1)), t.shape(t.y())
	list := t.only(0, graph.NoValue)
	if len(a) < 2 || len(b) < 2 {
		t.fail(fmt.Errorf("a product of a vector, shapes %v and %v", a, b))
		return list
	}
	if t.wants(0) {
		d := t.op("MatMul", dy[0], t.swapped(t.x(1), len(b)))
		list[0] = t.like(d, append(slices.Clone(y[:len(y)-2]), a[len(a)-2:]...), a)
	}
	switch {
	case !t.wants(1):
	case len(b) == 2: // one product of all rows
		k, n := b[0], b[1]
		list[1] = t.with("Gemm", []graph.Attr{graph.Int("transA", 1)}, t.reshape(t.x(0), []int{-1, k}), t.reshape(dy[0], []int{-1, n}))
	default:
		d := t.op("MatMul", t.swapped(t.x(0), len(a)), dy[0])
		list[1] = t.like(d, append(slices.Clone(y[:len(y)-2]), b[len(b)-2:]...), b)
	}
	return list
}

func gemm(t *tape, dy []graph.ValueID) []graph.ValueID {
	at := t.n.Gemm()
	list := t.only(0, graph.NoValue)
	product := func(a graph.ValueID, transA bool, b graph.ValueID, transB bool) graph.ValueID {
		attrs := []graph.Attr{graph.Float("alpha", t.n.AttrFloat("alpha", 1))}
		if transA {
			attrs = append(attrs, graph.Int("transA", 1))
		}
		if transB {
			attrs = append(attrs, graph.Int("transB", 1))
		}
		return t.with("Gemm", attrs, a, b)
	}
	a, b := t.x(0), t.x(1)
	if t.wants(0) {
		if list[0] = product(dy[0], false, b, !at.TransB); at.TransA {
			list[0] = product(b, at.TransB, dy[0], true)
		}
	}
	if t.wants(1) {
		if list[1] = product(a, !at.TransA, dy[0], false); at.TransB {
			list[1] = product(dy[0], true, a, at.TransA)
		}
	}
	if t.wants(2) {
		list[2] = t.back(t.scale(dy[0], float64(at.Beta)), 2)
	}
	return list
}
