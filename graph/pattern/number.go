package pattern

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

type relation uint8

const (
	relNone relation = iota
	relEqual
	relNotEqual
	relLess
	relLessEqual
	relGreater
	relGreaterEqual
)

var relations = map[string]relation{"==": relEqual, "!=": relNotEqual, "<": relLess, "<=": relLessEqual, ">": relGreater,
	">=": relGreaterEqual}

// tolerance of equality, relative to the number in the pattern.
const tolerance = 1e-4

func near(a, want float64) bool { return a == want || math.Abs(a-want) <= tolerance*math.Abs(want) }

func (r relation) holds(a, b float64) bool {
	switch r {
	case relEqual:
		return near(a, b)
	case relNotEqual:
		return a == a && !near(a, b)
	case relLess:
		return a < b
	case relLessEqual:
		return a <= b
	case relGreater:
		return a > b
	case relGreaterEqual:
		return a >= b
	}
	return true
}

// admits reports whether a constant (nil: the value is none) satisfies the variable's kind and relation.
func (v *variable) admits(t *tensor.Tensor) bool {
	if t == nil || v.kind == scalar && t.Len() != 1 {
		return false
	}
	if v.rel == relNone {
		return true
	}
	at, ok := numbers(t)
	if !ok || t.Len() == 0 {
		return false
	}
	for i := range t.Len() {
		if !v.rel.holds(at(i), v.num) {
			return false
		}
	}
	return true
}

// Scalar returns the only element of a numeric constant, false for nil and tensors of another size or kind.
func Scalar(t *tensor.Tensor) (float64, bool) {
	if t == nil || t.Len() != 1 {
		return 0, false
	}
	at, ok := numbers(t)
	if !ok {
		return 0, false
	}
	return at(0), true
}

// numbers returns a reader of elements as float64, false for types that are not numbers. 64-bit integers are rounded.
func numbers(t *tensor.Tensor) (func(i int) float64, bool) {
	switch d := t.Data.(type) {
	case []float32:
		return reader(d), true
	case []float64:
		return reader(d), true
	case []int8:
		return reader(d), true
	case []int16:
		return reader(d), true
	case []int32:
		return reader(d), true
	case []int64:
		return reader(d), true
	case []uint32:
		return reader(d), true
	case []uint64:
		return reader(d), true
	case []uint8:
		if t.DType == tensor.Uint8 {
			return reader(d), true
		}
	case []uint16:
		switch t.DType {
		case tensor.Uint16:
			return reader(d), true
		case tensor.Float16:
			return func(i int) float64 { return half(d[i]) }, true
		case tensor.BFloat16:
			return func(i int) float64 { return float64(math.Float32frombits(uint32(d[i]) << 16)) }, true
		}
	}
	return nil, false
}

func reader[T float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](d []T) func(int) float64 {
	return func(i int) float64 { return float64(d[i]) }
}

// half decodes an IEEE binary16.
func half(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&0x3ff)
	if h>>15 == 1 {
		sign = -1
	}
	switch {
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		return math.Inf(int(sign))
	case exp == 0:
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// attrCond is a condition on an attribute; exactly one of the values is meant, by kind.
type attrCond struct {
	name     string
	optional bool
	kind     attrValue
	num      float64
	text     string
	list     []float64
}

type attrValue uint8

const (
	attrNumber attrValue = iota
	attrText
	attrList
)

func (c *attrCond) holds(n *graph.Node) bool {
	a := n.Attr(c.name)
	if a == nil {
		return c.optional
	}
	switch c.kind {
	case attrNumber:
		return a.Kind == graph.AttrInt && float64(a.I) == c.num || a.Kind == graph.AttrFloat && near(float64(a.F), c.num)
	case attrText:
		return a.Kind == graph.AttrString && a.S == c.text
	}
	switch a.Kind {
	case graph.AttrInts:
		return equalList(a.Ints, c.list, func(x int64, y float64) bool { return float64(x) == y })
	case graph.AttrFloats:
		return equalList(a.Floats, c.list, func(x float32, y float64) bool { return near(float64(x), y) })
	}
	return false
}

func equalList[T any](got []T, want []float64, same func(T, float64) bool) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !same(got[i], want[i]) {
			return false
		}
	}
	return true
}
