package graph

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"qwb/graph/tensor"
)

// maxPartial bounds the integer tensors whose elements inference follows.
const maxPartial = 4096

// Elem is one element of an integer tensor during inference: known, or symbolic (a dimension or a product of dimensions), or
// neither (the zero value).
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

// addElems, subElems, mulElems and divElems compute as far as the result is a number or a product of symbols. Overflow and
// division by zero give an unknown element.
func addElems(a, b Elem) Elem {
	switch {
	case a.Known && b.Known:
		if s := a.N + b.N; (s > a.N) == (b.N > 0) {
			return known(s)
		}
	case a.Known && a.N == 0:
		return b
	case b.Known && b.N == 0:
		return a
	}
	return Elem{}
}

func subElems(a, b Elem) Elem {
	switch {
	case b.Known && b.N != math.MinInt64:
		return addElems(a, known(-b.N))
	case !a.Known && a.Symbol != "" && a.Symbol == b.Symbol && !b.Known:
		return known(0)
	}
	return Elem{}
}

func mulElems(a, b Elem) Elem {
	if a.Known && b.Known {
		hi, lo := bits.Mul64(abs64(a.N), abs64(b.N))
		if hi != 0 || lo > math.MaxInt64 {
			return Elem{}
		}
		if (a.N < 0) != (b.N < 0) {
			return known(-int64(lo))
		}
		return known(int64(lo))
	}
	if a.Known && a.N == 0 || b.Known && b.N == 0 {
		return known(0)
	}
	ca, sa, oka := a.factors()
	cb, sb, okb := b.factors()
	if !oka || !okb {
		return Elem{}
	}
	c := mulElems(known(ca), known(cb))
	if !c.Known {
		return Elem{}
	}
	return product(c.N, append(slices.Clone(sa), sb...))
}

// divElems is the quotient where it is exact, or both are numbers (then truncated as ONNX integer division does).
func divElems(a, b Elem) Elem {
	if a.Known && b.Known {
		if b.N == 0 || a.N == math.MinInt64 && b.N == -1 {
			return Elem{}
		}
		return known(a.N / b.N)
	}
	ca, sa, oka := a.factors()
	cb, sb, okb := b.factors()
	if !oka || !okb || cb == 0 || ca%cb != 0 {
		return Elem{}
	}
	rest := slices.Clone(sa)
	for _, s := range sb {
		i := slices.Index(rest, s)
		if i < 0 {
			return Elem{}
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return product(ca/cb, rest)
}

// factors splits e into a positive coefficient and symbols: 2*H*W is 2, [H W].
func (e Elem) factors() (coef int64, symbols []string, ok bool) {
	if e.Known {
		return e.N, nil, e.N > 0
	}
	if e.Symbol == "" {
		return 0, nil, false
	}
	coef = 1
	for i, f := range splitFactors(e.Symbol) {
		if n, err := strconv.ParseInt(f, 10, 64); i == 0 && err == nil && n > 0 {
			coef = n
			continue
		}
		symbols = append(symbols, f)
	}
	return coef, symbols, true
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

// floorDiv is floor((e + add) / by) for by >= 1 and an e that is not negative, by name if e is a symbol.
func floorDiv(e Elem, add, by int64) Elem {
	switch {
	case e.Symbol == "":
		return Elem{}
	case by == 1 && add == 0:
		return e
	case add == 0:
		if q := divElems(e, known(by)); q.Symbol != "" {
			return q
		}
		return symbol("(" + e.Symbol + "/" + strconv.FormatInt(by, 10) + ")")
	}
	sign := "+"
	if add < 0 {
		sign = ""
	}
	sum := "(" + e.Symbol + sign + strconv.FormatInt(add, 10) + ")"
	if by == 1 {
		return symbol(sum)
	}
	return symbol("(" + sum + "/" + strconv.FormatInt(by, 10) + ")")
}

// symbol names an element, unless the name is too long to be of use.
func symbol(s string) Elem {
	if len(s) > 64 {
		return Elem{}
	}
	return Elem{Symbol: s}
}

func product(coef int64, symbols []string) Elem {
	if len(symbols) == 0 {
		return known(coef)
	}
	slices.Sort(symbols)
	s := strings.Join(symbols, "*")
	if coef != 1 {
		s = strconv.FormatInt(coef, 10) + "*" + s
	}
	return symbol(s)
}

func abs64(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
