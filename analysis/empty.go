package analysis

import (
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
)

// empty are the samples in which an output has no signal although it has one in others: by sample; nil where there are none. A ratio to
// nothing says nothing, and one of them would be the mean of all, so that they are left out of it.
type empty []bool

// faintReach is half a step of 8 bits: where an output reaches less far than this share of what it reaches in other samples, codes of its
// whole range are those of zero.
const faintReach = 1.0 / 512

// emptyOf finds the samples that reach less far than faintReach of the farthest one.
func emptyOf(reach []float64) (e empty) {
	farthest := 0.0
	for _, x := range reach {
		farthest = max(farthest, x)
	}
	for i, x := range reach {
		if x < faintReach*farthest {
			if e == nil {
				e = make(empty, len(reach))
			}
			e[i] = true
		}
	}
	return e
}

// count is how many samples are empty.
func (e empty) count() (n int) {
	for _, x := range e {
		if x {
			n++
		}
	}
	return n
}

// has reports whether a sample is empty.
func (e empty) has(sample int) bool { return e != nil && e[sample] }

// views is how many of so many samples are viewed and not empty.
func (e empty) views(samples int) (n float64) {
	for k := range samples {
		if viewed(k) && !e.has(k) {
			n++
		}
	}
	return n
}

// weight is what a figure of a sample is multiplied by so that the mean over all samples is that over those that are not empty.
func (e empty) weight(sample int) float64 {
	switch {
	case e == nil:
		return 1
	case e[sample]:
		return 0
	}
	return float64(len(e)) / float64(len(e)-e.count())
}

// emptyAt finds the samples in which the output of group i is empty.
func emptyAt(results []*sampleResult, i int) empty {
	reach := make([]float64, len(results))
	for k, s := range results {
		reach[k] = s.reach[i]
	}
	return emptyOf(reach)
}

// reachOf is the largest magnitude of a float tensor, infinities left out; of others 1.
func reachOf(t *tensor.Tensor) float64 {
	if t.DType != tensor.Float32 {
		return 1
	}
	lo, hi, _ := rows().NewMeter().MinMax(t.F32())
	return float64(max(-lo, hi, 0))
}

// empties finds the empty samples of every output.
func (j *Judge) empties(t *tally) []empty {
	list := make([]empty, len(j.logits))
	for k := range list {
		reach := make([]float64, len(t.reach))
		for i := range reach {
			reach[i] = t.reach[i][k]
		}
		list[k] = emptyOf(reach)
	}
	return list
}

// reaches says how far the signal of each output reaches in a float run: the largest value, or of class scores the largest difference of
// two in a row. Integers, and scores that nobody saw, are never empty.
func (j *Judge) reaches(sums []sum, f *Verdict) {
	for k, l := range j.logits {
		s := &sums[k]
		switch {
		case j.integer(k):
			s.reach = 1
		case l.node == graph.NoNode:
			s.reach = s.top
		case k < len(f.scores) && f.scores[k] != nil:
			s.reach = l.reach(f.scores[k])
		default:
			s.reach = 1
		}
	}
}

// reach is the largest difference of two finite scores in a row.
func (l logits) reach(t *tensor.Tensor) (far float64) {
	outer, n, inner, ok := l.blocks(t)
	if !ok || !t.DType.IsFloat() {
		return 1
	}
	x := t.ToRowMajor().F32()
	for o := range outer {
		for i := range inner {
			lo, hi := math.Inf(1), math.Inf(-1)
			for c := range n {
				if v := float64(x[o*n*inner+i+c*inner]); !math.IsInf(v, 0) {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
			far = max(far, hi-lo)
		}
	}
	return far
}
