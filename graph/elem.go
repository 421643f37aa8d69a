package graph

import (
	"math"
	"strconv"

	"qwb/graph/tensor"
)

// maxPartial bounds the integer tensors whose elements inference follows.
const maxPartial = 4096

// Elem is one element of an integer tensor during shape inference. It is a known number, or a symbol (the name of a dimension,
// or an expression over such names), or unknown, which is the zero value.
type Elem struct {
	Known  bool
	N      int64
	Symbol string
}

func known(n int64) Elem { return Elem{Known: true, N: n} }

// Elem returns the dimension as an element.
func (d Dim) elem() Elem { return Elem{Known: d.Known(), N: max(d.N, 0), Symbol: d.Symbol} }

// dim returns e as a dimension; negative numbers are unknown dimensions.
func (e Elem) dim() Dim {
	if e.Known && e.N >= 0 {
		return Dim{N: e.N}
	}
	return Dim{N: -1, Symbol: e.Symbol}
}

// elemsOf returns the elements of a tensor of at most maxPartial integers, bools or float32 that are all integers.
func elemsOf(t *tensor.Tensor) ([]Elem, bool) {
	if t.Len() > maxPartial {
		return nil, false
	}
	switch d := t.Data.(type) {
	case []int64:
		return mapElems(d), true
	case []int32:
		return mapElems(d), true
	case []int16:
		return mapElems(d), true
	case []int8:
		return mapElems(d), true
	case []uint8:
		if t.DType == tensor.Uint8 {
			return mapElems(d), true
		}
	case []uint32:
		return mapElems(d), true
	case []float32:
		out := make([]Elem, len(d))
		for i, v := range d {
			if !(v >= -1<<24 && v <= 1<<24) || v != float32(int64(v)) {
				return nil, false
			}
			out[i] = known(int64(v))
		}
		return out, true
	case []bool:
		out := make([]Elem, len(d))
		for i, v := range d {
			out[i].Known = true
			if v {
				out[i].N = 1
			}
		}
		return out, true
	}
	return nil, false
}

func mapElems[T int8 | int16 | int32 | int64 | uint8 | uint32](d []T) []Elem {
	out := make([]Elem, len(d))
	for i, v := range d {
		out[i] = known(int64(v))
	}
	return out
}

// strides returns the distances between neighbours along each axis of a row-major tensor, nil if a size is unknown.
func (s Shape) strides() []int {
	dims, ok := s.Ints()
	if n, err := s.Elements(); !ok || err != nil || n < 0 {
		return nil
	}
	out, step := make([]int, len(dims)), 1
	for i := len(dims) - 1; i >= 0; i-- {
		out[i] = step
		step *= dims[i]
	}
	return out
}

// viewElems returns the elements at offset + index * stride for all indices of a shape, nil if it is unknown or too large.
func viewElems(elems []Elem, shape Shape, stride []int, offset int) []Elem {
	n, err := shape.Elements()
	if err != nil || n < 0 || n > maxPartial || len(stride) != len(shape) {
		return nil
	}
	out := make([]Elem, n)
	index := make([]int64, len(shape))
	for i := range out {
		if offset < 0 || offset >= len(elems) {
			return nil
		}
		out[i] = elems[offset]
		for a := len(shape) - 1; a >= 0; a-- {
			index[a]++
			offset += stride[a]
			if index[a] < shape[a].N {
				break
			}
			offset -= int(index[a]) * stride[a]
			index[a] = 0
		}
	}
	return out
}

// addElems, subElems, mulElems and divElems compute with elements. The result is unknown if it is neither a number nor a sum of
// products of symbols, and on overflow or division by zero.
func addElems(a, b Elem) Elem {
	switch { // keeps the name that a model gave
	case a == known(0):
		return b
	case b == known(0):
		return a
	}
	return combine(a, b, func(p, q poly) (poly, bool) { return p.plus(q, 1) })
}

func subElems(a, b Elem) Elem {
	if b == known(0) {
		return a
	}
	return combine(a, b, func(p, q poly) (poly, bool) { return p.plus(q, -1) })
}

func mulElems(a, b Elem) Elem {
	switch {
	case a == known(0) || b == known(0):
		return known(0)
	case a == known(1):
		return b
	case b == known(1):
		return a
	}
	return combine(a, b, poly.times)
}

// divElems is the quotient where it is exact, or both are numbers (then truncated as ONNX integer division does).
func divElems(a, b Elem) Elem {
	if a.Known && b.Known {
		if b.N == 0 || a.N == math.MinInt64 && b.N == -1 {
			return Elem{}
		}
		return known(a.N / b.N)
	}
	if b == known(1) {
		return a
	}
	return combine(a, b, poly.over)
}

// quotientElems is the quotient of integers: rounded down by name where it does not come out even.
func quotientElems(a, b Elem) Elem {
	if q := divElems(a, b); q.Known || q.Symbol != "" {
		return q
	}
	if p, ok := a.poly(); ok && b.Known && b.N > 0 && p.nonNegative() {
		return floorDiv(a, 0, b.N)
	}
	return Elem{}
}

func combine(a, b Elem, f func(p, q poly) (poly, bool)) Elem {
	p, ok := a.poly()
	if !ok {
		return Elem{}
	}
	q, ok := b.poly()
	if !ok {
		return Elem{}
	}
	if p, ok = f(p, q); !ok {
		return Elem{}
	}
	return p.elem()
}

// nonNegative reports whether e is 0 or more for all sizes of dimensions.
func (e Elem) nonNegative() bool {
	p, ok := e.poly()
	return ok && p.nonNegative()
}

// same reports whether two elements are the same number for all sizes.
func (e Elem) same(o Elem) bool {
	d := subElems(e, o)
	return d.Known && d.N == 0
}

// splitFactors cuts at the * outside of parentheses.
func splitFactors(s string) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(s) {
		switch {
		case s[i] == '(':
			depth++
		case s[i] == ')':
			depth--
		case s[i] == '*' && depth == 0:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// floorDiv is floor((e + add) / by), for by >= 1 and an e that is not negative. If e is a symbol and the division may leave a
// remainder, the result is the quotient written in parentheses.
func floorDiv(e Elem, add, by int64) Elem {
	sum := addElems(e, known(add))
	switch {
	case by == 1:
		return sum
	case sum.Known && sum.N >= 0:
		return known(sum.N / by)
	case sum.Symbol == "":
		return Elem{}
	}
	if q := divElems(sum, known(by)); q.Symbol != "" {
		return q
	}
	if p, ok := sum.poly(); ok && len(p.terms) == 1 && p.terms[0].coef == 1 && len(p.terms[0].parts) == 1 {
		x, inner, is := quotient(p.terms[0].parts[0]) // (x/inner + c) / by is (x + c*inner) / (inner*by), rounded down once
		more, ok1 := product64(p.c, inner)
		both, ok2 := product64(by, inner)
		if is && ok1 && ok2 {
			return floorDiv(x, more, both)
		}
	}
	return symbol("(" + sum.Symbol + "/" + strconv.FormatInt(by, 10) + ")")
}

// symbol names an element, unless the name is too long to be of use.
func symbol(s string) Elem {
	if len(s) > maxSymbol {
		return Elem{}
	}
	return Elem{Symbol: s}
}

func abs64(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
