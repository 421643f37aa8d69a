package verify

import (
	"cmp"
	"math"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// tally counts what is found at one tensor.
type tally struct {
	layer  *layer
	output int
	by     string // who expects
	counts
}

// counts are what a tally says of a tensor: plain data, which parts of a run hand on.
type counts struct {
	compared, different, ties int64
	backend, held             int64 // differences between backends, and comparisons
	most                      int64
	bound, distance           float64
	histogram                 map[int64]int64
	first, firstTie           *analysis.Divergence
	firstBackend              *analysis.Divergence
}

// add counts what another found at the same tensor, on samples behind those of t.
func (t *tally) add(o *counts) {
	t.compared, t.different, t.ties = t.compared+o.compared, t.different+o.different, t.ties+o.ties
	t.backend, t.held = t.backend+o.backend, t.held+o.held
	t.most, t.bound, t.distance = max(t.most, o.most), max(t.bound, o.bound), max(t.distance, o.distance)
	if t.histogram == nil {
		t.histogram = o.histogram
	} else {
		for d, n := range o.histogram {
			t.histogram[d] += n
		}
	}
	t.first, t.firstTie, t.firstBackend = cmp.Or(t.first, o.first), cmp.Or(t.firstTie, o.firstTie), cmp.Or(t.firstBackend, o.firstBackend)
}

// compare holds the integers, or real numbers, of a tensor against their exact values.
func (t *tally) compare(e *exact, got *tensor.Tensor) {
	if e.real {
		t.compareReal(e, got)
		return
	}
	n := 0
	if got.HasIntegers() {
		n = got.Len()
	}
	t.compared += int64(n)
	if n != len(e.value) {
		t.different += int64(n)
		if t.first == nil {
			d := t.at(e, 0, 0, 0)
			d.What, d.Expected, d.Got = "number of elements", analysis.Number(len(e.value)), analysis.Number(n)
			d.Exact, d.Accumulator, d.Multiplier = nil, nil, ""
			t.first = d
		}
		return
	}
	eachBlock(got, func(from int, codes []int32) {
		t.bound = max(t.bound, e.within(from)) // a sample of the bounds that are stated
		for k, v := range e.value[from:][:len(codes)] {
			if want := e.code(v); want != codes[k] {
				t.differs(e, from+k, want, codes[k])
			}
		}
	})
}

// differs counts one integer that is not the rounded exact value.
func (t *tally) differs(e *exact, i int, want, got int32) {
	d := int64(got) - int64(want)
	if t.histogram == nil {
		t.histogram = map[int64]int64{}
	}
	t.histogram[d]++
	t.most = max(t.most, d, -d)
	t.bound = max(t.bound, e.within(i))
	t.distance = max(t.distance, e.off(i, got))
	tie := e.allows(i, got)
	switch {
	case !tie:
		if t.different++; t.first == nil {
			t.first = t.at(e, i, want, got)
		}
	default:
		if t.ties++; t.firstTie == nil {
			t.firstTie = t.at(e, i, want, got)
			t.firstTie.Tie = true
		}
	}
}

// at describes element i.
func (t *tally) at(e *exact, i int, want, got int32) *analysis.Divergence {
	d := t.layer.divergence(t.output)
	d.What, d.Index, d.Expected, d.Got, d.ExpectedBy = "integer", i, analysis.Number(want), analysis.Number(got), t.by
	if i < len(e.value) {
		v := e.value[i] + float64(e.zero)
		d.Exact = &v
	}
	if e.acc != nil {
		a := e.acc(i)
		d.Accumulator = &a
	}
	if e.multiplier != nil {
		d.Multiplier = e.multiplier(i)
	}
	return &d
}

// compareReal holds float32 results to their bound. They are no integers: only differences beyond it count.
func (t *tally) compareReal(e *exact, got *tensor.Tensor) {
	x := got.F32()
	for i := range min(len(x), len(e.value)) {
		v := float64(x[i])
		if math.Abs(v-e.value[i]) <= e.within(i) || v != v && e.value[i] != e.value[i] {
			continue
		}
		if t.different++; t.first == nil {
			d := t.layer.divergence(t.output)
			d.What, d.Index, d.Expected, d.Got, d.ExpectedBy = "real number", i, analysis.Number(e.value[i]), analysis.Number(v), t.by
			if e.acc != nil {
				a := e.acc(i)
				d.Accumulator = &a
			}
			t.first = &d
		}
	}
}

// result is the tally as it is reported.
func (t *tally) result() analysis.TensorCheck {
	d := t.layer.divergence(t.output)
	r := analysis.TensorCheck{Node: d.Node, Op: d.Op, Tensor: d.Tensor, Compared: t.compared, Different: t.different, Ties: t.ties,
		Backend: t.backend, Bound: t.bound, Distance: t.distance}
	for k, n := range t.histogram {
		r.Histogram = append(r.Histogram, analysis.StepCount{Difference: k, Count: n})
	}
	arrange.Stable(r.Histogram, func(a, b analysis.StepCount) int { return int(a.Difference - b.Difference) })
	return r
}
