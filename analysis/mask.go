package analysis

import (
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Outputs may be class scores themselves, with masked ones among them: -inf, -1e9 or the like, which say "not this one" and are no numbers
// to be kept exact. As in front of a Softmax (see centredNSR) they count neither as signal nor as error, or all others would be nothing
// beside them.
const (
	sentinel     = -1e4 // the largest number that a mask adds
	apart        = 100  // how much larger than any other element a finite one has to be, where no Softmax shows that it is a mask
	sentinelSame = 0.1  // how far the quantized one may be off then
)

// findReader returns the Softmax that reads a value.
func findReader(g *graph.Graph, v graph.ValueID) logits {
	for _, u := range g.Uses(v) {
		n := g.Node(u.Node)
		if (n.Op == "Softmax" || n.Op == "LogSoftmax") && n.IsONNX() {
			l := logits{node: u.Node, value: v}
			l.axis, l.flatten = graph.SoftmaxAxis(n, g.Opset(""))
			return l
		}
	}
	return logits{node: graph.NoNode}
}

// unmasked returns two runs of an output for comparison: copies where elements are masked. Those that count no more are -inf in both, which
// Compare and sums leave out; those that only one of the runs hides lie where they begin to matter. A run that is -inf where float is not
// stays so: that is no mask.
func (j *Judge) unmasked(k int, q, f *tensor.Tensor) (*tensor.Tensor, *tensor.Tensor) {
	x, y, err := aligned(q, f)
	if err != nil || j.logits[k].node != graph.NoNode || !anyBelow(y, sentinel/2) {
		return q, f
	}
	if q.Layout != f.Layout || f.Layout != tensor.RowMajor {
		q, f = q.ToRowMajor(), f.ToRowMajor()
		x, y, _ = aligned(q, f)
	}
	limit, rest, read := sentinel, largestAbove(y, sentinel), false
	if r := largestAbove(y, sentinel/2); apart*r <= -sentinel/2 { // a score stands in the sum with its mask
		limit, rest = sentinel/2, r
	}
	outer, n, inner := 1, len(y), 1 // where nothing reads it, all are one row
	if l := j.masked[k]; l.node != graph.NoNode {
		outer, n, inner, read = l.blocks(f)
	}
	a, b := slices.Clone(x), slices.Clone(y)
	r := newScoreRow(n)
	for o := range outer {
		for i := range inner {
			r.fill(x, y, o*n*inner+i, inner)
			r.mask()
			for c := range n {
				at := (o*n+c)*inner + i
				if !isMask(x[at], y[at], limit, rest, read) {
					continue
				}
				if a[at], b[at] = float32(r.q[c]), float32(r.f[c]); r.skip[c] {
					a[at], b[at] = float32(math.Inf(-1)), float32(math.Inf(-1))
				}
			}
		}
	}
	return tensor.FromF32(a, q.Shape...), tensor.FromF32(b, f.Shape...)
}

// isMask reports whether an element is a masked one in float: -inf, or far below all that are none. Where no Softmax shows what it is for,
// a finite one has to be about as large in the quantized run.
func isMask(quantized, float float32, limit, rest float64, read bool) bool {
	q, f := float64(quantized), float64(float)
	switch {
	case f > limit || math.IsInf(q, -1) && !math.IsInf(f, -1):
		return false
	case math.IsInf(f, -1), read:
		return true
	}
	return -f > apart*rest && math.Abs(q-f) <= -sentinelSame*f
}

func anyBelow(x []float32, limit float32) bool {
	for _, v := range x {
		if v <= limit {
			return true
		}
	}
	return false
}

// largestAbove is the largest magnitude of an element that is above limit; infinite where there is none.
func largestAbove(y []float32, limit float64) float64 {
	largest := -1.0
	for _, v := range y {
		if float64(v) > limit {
			largest = max(largest, math.Abs(float64(v)))
		}
	}
	if largest < 0 {
		return math.Inf(1)
	}
	return largest
}
