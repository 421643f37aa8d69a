package task

import (
	"cmp"
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels/elementary"
)

// anchorGrids are the places that detectors with fixed anchors set boxes against, by how many there are: grids of so many cells a side,
// each with so many anchors in its middle. They are those of MediaPipe's graphs: BlazeFace and palm detection, in one output or in one for
// each grid, and the full-range face detector.
var anchorGrids = map[int][]anchorGrid{
	512:  {{16, 2}},
	384:  {{8, 6}},
	896:  {{16, 2}, {8, 6}},
	2016: {{24, 2}, {12, 6}},
	2304: {{48, 1}},
}

type anchorGrid struct{ cells, each int }

// leastScore is what a decoded box needs to be listed, sameBox the intersection over union from which the weaker of two is the same object.
const (
	leastScore = 0.1
	sameBox    = 0.3
)

// Anchored decodes the raw outputs of a detector with fixed anchors: scores [1,N,1], whose sigmoid is taken, and offsets [1,N,4 or more] of
// middle x, y, width and height in pixels; N is of anchorGrids, and every output belongs to a pair. height and width are those of the
// picture in pixels. It returns rows of x1, y1, x2, y2, score, class 0, [K,6] by falling score, without boxes that overlap a better one by
// 0.3 and more; false for outputs that are something else.
func Anchored(outputs []*tensor.Tensor, height, width int) (*tensor.Tensor, bool) {
	scores, offsets := map[int]*tensor.Tensor{}, map[int]*tensor.Tensor{}
	for _, t := range outputs {
		if t == nil || t.DType != tensor.Float32 || len(t.Shape) != 3 || t.Shape[0] != 1 || anchorGrids[t.Shape[1]] == nil {
			return nil, false
		}
		n, at := t.Shape[1], offsets
		if t.Shape[2] == 1 {
			at = scores
		} else if t.Shape[2] < 4 {
			return nil, false
		}
		if at[n] != nil {
			return nil, false
		}
		at[n] = t.ToRowMajor()
	}
	if len(scores) == 0 || len(scores) != len(offsets) || height <= 0 || width <= 0 {
		return nil, false
	}
	var found []box
	for n, s := range scores {
		if offsets[n] == nil {
			return nil, false
		}
		found = append(found, decoded(s.F32(), offsets[n], float64(height), float64(width))...)
	}
	slices.SortFunc(found, func(a, b box) int { // of equal scores in an order that does not hang on that of a map
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.y1, b.y1), cmp.Compare(a.x1, b.x1), cmp.Compare(a.x2, b.x2))
	})
	var rows []float32
	var kept []box
	for _, b := range found {
		if !slices.ContainsFunc(kept, func(k box) bool { return vocOverlap(&b, &k) >= sameBox }) {
			kept = append(kept, b)
			rows = append(rows, float32(b.x1), float32(b.y1), float32(b.x2), float32(b.y2), float32(b.score), 0)
		}
	}
	return tensor.FromF32(rows, len(kept), 6), true
}

// decoded are the boxes of a pair of outputs.
func decoded(scores []float32, offsets *tensor.Tensor, height, width float64) (list []box) {
	rows, each, i := offsets.F32(), offsets.Shape[2], 0
	for _, g := range anchorGrids[offsets.Shape[1]] {
		for cell := range g.cells * g.cells {
			cy, cx := (float64(cell/g.cells)+0.5)/float64(g.cells)*height, (float64(cell%g.cells)+0.5)/float64(g.cells)*width
			for range g.each {
				score, r := 1/(1+elementary.Exp(-float64(scores[i]))), rows[i*each:]
				if i++; !(score >= leastScore) { // nor where it is no number
					continue
				}
				x, y, w, h := cx+float64(r[0]), cy+float64(r[1]), float64(r[2]), float64(r[3])
				list = append(list, box{x1: x - w/2, y1: y - h/2, x2: x + w/2, y2: y + h/2, score: score})
			}
		}
	}
	return list
}
