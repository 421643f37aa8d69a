package exec

import (
	"cmp"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// boxEvals choose among boxes.
var boxEvals = []evaluator{
	{"NonMaxSuppression", buildNMS},
}

// buildNMS takes, per sample and class, the boxes by falling score (ties by index) that score above the threshold and do not
// overlap one already taken by more than the other threshold, up to a number. The result is [taken, 3]: sample, class, box.
func buildNMS(n *graph.Node, _ int64) (evalFunc, error) {
	center := n.AttrInt("center_point_box", 0) != 0
	return func(c *call) error {
		boxes, scores := c.in(0), c.in(1)
		for _, i := range []int{0, 1, 3, 4} {
			if t := c.in(i); t != nil && t.DType != tensor.Float32 {
				return badType(i, t.DType)
			}
		}
		batch, classes, count := scores.Shape[0], scores.Shape[1], scores.Shape[2]
		if !slices.Equal(boxes.Shape, []int{batch, count, 4}) {
			return fmt.Errorf("boxes %s for scores %s", boxes.Type(), scores.Type())
		}
		limit := 0
		if c.has(2) {
			var err error
			if limit, err = scalarInt(c.in(2)); err != nil {
				return err
			}
		}
		overlap, least, some := float32(0), float32(0), c.has(4)
		for i, dst := range []*float32{&overlap, &least} {
			if t := c.in(3 + i); t != nil {
				if t.Len() != 1 {
					return fmt.Errorf("input %d: one number expected, got %s", 3+i, t.Type())
				}
				*dst = t.F32()[0]
			}
		}
		if overlap < 0 || overlap > 1 {
			return fmt.Errorf("iou_threshold %g is not between 0 and 1", overlap)
		}
		var taken []int64
		corners := make([]box, count)
		order := make([]int, 0, count)
		for b := range batch {
			for i := range corners {
				corners[i] = boxOf(boxes.F32()[(b*count+i)*4:][:4], center)
			}
			for k := range classes {
				s := scores.F32()[(b*classes+k)*count:][:count]
				order = order[:0]
				for i, v := range s {
					if !some || v > least {
						order = append(order, i)
					}
				}
				slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(s[j], s[i]) })
				var kept []int
				for _, i := range order {
					if len(kept) >= limit {
						break
					}
					if !slices.ContainsFunc(kept, func(j int) bool { return corners[i].overlap(corners[j]) > overlap }) {
						kept = append(kept, i)
						taken = append(taken, int64(b), int64(k), int64(i))
					}
				}
			}
		}
		out, err := c.outAs(0, tensor.Int64, []int{len(taken) / 3, 3}, tensor.RowMajor)
		if err != nil {
			return err
		}
		copy(out.I64(), taken)
		return nil
	}, nil
}

// box is given by two opposite corners, in order.
type box struct{ y0, x0, y1, x1, area float32 }

// boxOf reads two corners in any order, or centre, width and height.
func boxOf(v []float32, center bool) box {
	if center {
		w, h := v[2]/2, v[3]/2
		v = []float32{v[1] - h, v[0] - w, v[1] + h, v[0] + w}
	}
	b := box{min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3]), 0}
	b.area = (b.y1 - b.y0) * (b.x1 - b.x0)
	return b
}

// overlap is the intersection over the union, 0 where a box is empty.
func (b box) overlap(o box) float32 {
	h, w := min(b.y1, o.y1)-max(b.y0, o.y0), min(b.x1, o.x1)-max(b.x0, o.x0)
	if h <= 0 || w <= 0 || b.area <= 0 || o.area <= 0 {
		return 0
	}
	both := h * w
	return both / (b.area + o.area - both)
}
