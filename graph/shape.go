package graph

import (
	"strconv"
	"strings"
)

// Dim is one dimension of a Shape: a known size (N >= 0), or N == -1 with an optional symbol such as "batch".
type Dim struct {
	N      int64
	Symbol string
}

// Known reports whether the size is known.
func (d Dim) Known() bool { return d.N >= 0 }

// Shape is a list of dimensions. A nil Shape means that not even the rank is known; a scalar is Shape{} (not nil).
type Shape []Dim

// Static builds a fully known shape.
func Static(dims ...int) Shape {
	s := make(Shape, len(dims))
	for i, d := range dims {
		s[i] = Dim{N: int64(d)}
	}
	return s
}

// Ints returns the dimensions as ints and true if rank and all dimensions are known.
func (s Shape) Ints() ([]int, bool) {
	if s == nil {
		return nil, false
	}
	out := make([]int, len(s))
	for i, d := range s {
		if !d.Known() {
			return nil, false
		}
		out[i] = int(d.N)
	}
	return out, true
}

// String formats the shape as [1,3,H,?]; an unknown rank is [...].
func (s Shape) String() string {
	if s == nil {
		return "[...]"
	}
	parts := make([]string, len(s))
	for i, d := range s {
		switch {
		case d.Known():
			parts[i] = strconv.FormatInt(d.N, 10)
		case d.Symbol != "":
			parts[i] = d.Symbol
		default:
			parts[i] = "?"
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Equal reports whether rank, sizes and symbols are the same; two unknown sizes without symbol are not equal.
func (s Shape) Equal(o Shape) bool {
	if (s == nil) != (o == nil) || len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] || (!s[i].Known() && s[i].Symbol == "") {
			return false
		}
	}
	return true
}
