package task

import (
	"math"
	"slices"
	"sort"
)

// COCO's average precision (cocodataset.org/#detection-eval, as pycocotools computes it): of all areas, at most 100 detections of a class
// in a picture, precision at 101 recalls.
var (
	cocoMAP = boxMetric("map", "mean average precision of boxes by COCO's rules, over intersections over union of 0.5 to 0.95",
		cocoRule(cocoThresholds()))
	coco50 = boxMetric("map50", "mean average precision of boxes by COCO's rules at an intersection over union of 0.5",
		cocoRule([]float64{0.5}))
)

// cocoLargest is the largest area that counts.
const cocoLargest = 1e5 * 1e5

func cocoRule(thresholds []float64) boxRule {
	return boxRule{thresholds: thresholds, most: 100, match: cocoMatch, area: cocoArea}
}

// cocoThresholds are 0.5, 0.55 to 0.95, as NumPy's linspace gives them.
func cocoThresholds() []float64 {
	first, last := 0.5, 0.95
	step := (last - first) / 9 // of floats, not of constants
	out := []float64{last}
	for i := range 9 {
		out = slices.Insert(out, i, first+float64(float64(i)*step))
	}
	return out
}

// cocoMatch gives each detection the label that it overlaps most and nobody has taken; what overlaps only a crowd is left out, and so is
// what overlaps nothing and has an impossible size. A crowd may be taken any number of times.
func cocoMatch(found, labels []box, threshold float64, hit, out []bool) {
	taken := make([]bool, len(labels))
	for i := range found {
		best, match := min(threshold, 1-1e-10), -1
		for k := range labels {
			l := &labels[k]
			if taken[k] && !l.apart {
				continue
			}
			if match >= 0 && !labels[match].apart && l.apart {
				break
			}
			if o := cocoOverlap(&found[i], l); o >= best {
				best, match = o, k
			}
		}
		if match >= 0 {
			taken[match] = true
			hit[i], out[i] = !labels[match].apart, labels[match].apart
		} else {
			size := float64((found[i].x2 - found[i].x1) * (found[i].y2 - found[i].y1))
			out[i] = size < 0 || size > cocoLargest
		}
	}
}

// cocoOverlap is intersection over union; of a crowd, intersection over the detection.
func cocoOverlap(d, l *box) float64 {
	// Sides as COCO has them: width and height, added again to the corner.
	dw, dh, lw, lh := d.x2-d.x1, d.y2-d.y1, l.x2-l.x1, l.y2-l.y1
	w := min(d.x1+dw, l.x1+lw) - max(d.x1, l.x1)
	h := min(d.y1+dh, l.y1+lh) - max(d.y1, l.y1)
	if w <= 0 || h <= 0 {
		return 0
	}
	i, area := float64(w*h), float64(dw*dh)
	if l.apart {
		return i / area
	}
	return i / (area + float64(lw*lh) - i)
}

// cocoArea is the mean precision at recalls of 0, 0.01 to 1; precision is the best at that recall or a larger one.
func cocoArea(recall, precision []float64) float64 {
	best := slices.Clone(precision)
	for i := len(best) - 2; i >= 0; i-- {
		best[i] = math.Max(best[i], best[i+1])
	}
	var sum float64
	for i := range 101 {
		at := float64(i) * 0.01
		if i == 100 {
			at = 1
		}
		if k := sort.SearchFloat64s(recall, at); k < len(best) {
			sum += best[k]
		}
	}
	return sum / 101
}
