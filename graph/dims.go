package graph

import (
	"fmt"
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

var unknownDim = Dim{N: -1}

func dimOf(n int) Dim { return Dim{N: int64(n)} }

// Elements returns the product of the dimensions, -1 if it is unknown. More than MaxElements is an error, also where a
// dimension beside is unknown, unless one is 0.
func (s Shape) Elements() (int64, error) {
	if s == nil {
		return -1, nil
	}
	n, all := int64(1), true
	for _, d := range s {
		if d.N == 0 {
			return 0, nil
		}
	}
	for _, d := range s {
		if !d.Known() {
			all = false
			continue
		}
		hi, lo := bits.Mul64(uint64(n), uint64(d.N))
		if hi != 0 || lo > MaxElements {
			return 0, fmt.Errorf("shape %s has more than 2^40 elements", s)
		}
		n = int64(lo)
	}
	if !all {
		return -1, nil
	}
	return n, nil
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
	for i, f := range strings.Split(e.Symbol, "*") {
		if n, err := strconv.ParseInt(f, 10, 64); i == 0 && err == nil && n > 0 {
			coef = n
			continue
		}
		symbols = append(symbols, f)
	}
	return coef, symbols, true
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
	if len(s) > 64 {
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

// Broadcast returns the shape of a multidirectional broadcast, nil if an operand has unknown rank. A known dimension above 1
// wins over an unknown one.
func Broadcast(shapes ...Shape) (Shape, error) {
	rank := 0
	for _, s := range shapes {
		if s == nil {
			return nil, nil
		}
		rank = max(rank, len(s))
	}
	out := make(Shape, rank)
	for i := range out {
		out[i] = Dim{N: 1}
		for _, s := range shapes {
			k := i - (rank - len(s))
			if k < 0 {
				continue
			}
			d, ok := broadcastDim(out[i], s[k])
			if !ok {
				return nil, fmt.Errorf("shapes %s do not broadcast", joinShapes(shapes))
			}
			out[i] = d
		}
	}
	return out, nil
}

func broadcastDim(a, b Dim) (Dim, bool) {
	switch {
	case a.N == 1:
		return b, true
	case b.N == 1 || a == b:
		return a, true
	case a.Known() && b.Known():
		return a, false
	case a.Known():
		return a, true
	case b.Known():
		return b, true
	}
	return unknownDim, true
}

// mergeDim joins what two sources say of one dimension; false if they contradict each other.
func mergeDim(a, b Dim) (Dim, bool) {
	switch {
	case a.Known() && b.Known():
		return a, a.N == b.N
	case a.Known() || !b.Known() && a.Symbol != "":
		return a, true
	}
	return b, true
}

func joinShapes(shapes []Shape) string {
	parts := make([]string, len(shapes))
	for i, s := range shapes {
		parts[i] = s.String()
	}
	return strings.Join(parts, " and ")
}

// normAxis brings axis from [-rank,rank) into [0,rank).
func normAxis(axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, fmt.Errorf("axis %d is out of range for rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// normAxes is normAxis for a list, which must not repeat an axis.
func normAxes(axes []int64, rank int) ([]int, error) {
	out := make([]int, len(axes))
	seen := make([]bool, rank)
	for i, a := range axes {
		k, err := normAxis(a, rank)
		if err != nil {
			return nil, err
		}
		if seen[k] {
			return nil, fmt.Errorf("axes %v repeat an axis", axes)
		}
		seen[k], out[i] = true, k
	}
	return out, nil
}
