package graph

import (
	"fmt"
	"math/bits"
	"strings"
)

var unknownDim = Dim{N: -1}

func dimOf(n int) Dim { return Dim{N: int64(n)} }

// AtLeast is the size, or 1 where it is open.
func (d Dim) AtLeast() int64 {
	if d.Known() {
		return d.N
	}
	return 1
}

// ElementsAtLeast is Elements for callers that need a number even if sizes are open: each counts as 1, as in MACsAtLeast. It is 1 if the
// rank is unknown, and MaxElements if there are more.
func (s Shape) ElementsAtLeast() int64 {
	n, ok := product(s)
	if !ok {
		return MaxElements
	}
	return min(n, MaxElements)
}

// Elements returns the product of the dimensions, or -1 if a dimension is unknown. More than MaxElements is an error, even if
// another dimension is unknown; but a dimension of 0 makes the product 0.
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
	case b.N == 1 || a == b || !a.Known() && !b.Known() && a.elem().same(b.elem()):
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

// sameShape reports whether two shapes may be the same.
func sameShape(a, b Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if _, ok := mergeDim(a[i], b[i]); !ok {
			return false
		}
	}
	return true
}

func joinShapes(shapes []Shape) string {
	parts := make([]string, len(shapes))
	for i, s := range shapes {
		parts[i] = s.String()
	}
	return strings.Join(parts, " and ")
}

// normAxis brings axis from [-rank,rank) into [0,rank).
func normAxis(axis, rank int) (int, error) {
	if a, ok := Axis(axis, rank); ok {
		return a, nil
	}
	return 0, fmt.Errorf("axis %d is out of range for rank %d", axis, rank)
}

// normAxes is normAxis for a list, which must not repeat an axis.
func normAxes(axes []int64, rank int) ([]int, error) {
	out := make([]int, len(axes))
	seen := make([]bool, rank)
	for i, a := range axes {
		k, err := normAxis(int(a), rank)
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
