package task

import (
	"math"
	"slices"
)

// The average precision of Pascal VOC (Everingham et al., The Pascal Visual Object Classes Challenge, 2010 and 2015, as the challenge's
// voc_eval computes it): an overlap of more than 0.5, boxes counted in pixels with both edges.
var (
	vocMAP = boxMetric("voc-map", "mean average precision of boxes by the rules of Pascal VOC since 2010",
		boxRule{thresholds: []float64{0.5}, match: vocMatch, area: vocArea})
	voc07MAP = boxMetric("voc07-map", "mean average precision of boxes by the rules of Pascal VOC 2007",
		boxRule{thresholds: []float64{0.5}, match: vocMatch, area: voc07Area})
)

// vocMatch gives each detection the label that it overlaps most; if that is taken it is wrong, if that is difficult it is left out.
func vocMatch(found, labels []box, threshold float64, hit, out []bool) {
	taken := make([]bool, len(labels))
	for i := range found {
		best, match := math.Inf(-1), -1
		for k := range labels {
			if o := vocOverlap(&found[i], &labels[k]); o > best {
				best, match = o, k
			}
		}
		switch {
		case match < 0 || !(best > threshold):
		case labels[match].apart:
			out[i] = true
		case !taken[match]:
			taken[match], hit[i] = true, true
		}
	}
}

func vocOverlap(d, l *box) float64 {
	w := max(min(d.x2, l.x2)-max(d.x1, l.x1)+1, 0)
	h := max(min(d.y2, l.y2)-max(d.y1, l.y1)+1, 0)
	i := float64(w * h)
	return i / (float64((d.x2-d.x1+1)*(d.y2-d.y1+1)) + float64((l.x2-l.x1+1)*(l.y2-l.y1+1)) - i)
}

// vocArea is the area under precision over recall, precision being the best at that recall or a larger one.
func vocArea(recall, precision []float64) float64 {
	r := append(append([]float64{0}, recall...), 1)
	p := append(append([]float64{0}, precision...), 0)
	for i := len(p) - 2; i >= 0; i-- {
		p[i] = math.Max(p[i], p[i+1])
	}
	var area float64
	for i := 1; i < len(r); i++ {
		area += float64((r[i] - r[i-1]) * p[i])
	}
	return area
}

// voc07Area is the mean of the best precision at recalls of at least 0, 0.1 to 1.
func voc07Area(recall, precision []float64) float64 {
	var area float64
	for i := range 11 {
		at := float64(i) * 0.1
		if k := slices.IndexFunc(recall, func(r float64) bool { return r >= at }); k >= 0 {
			area += slices.Max(precision[k:]) / 11
		}
	}
	return area
}
