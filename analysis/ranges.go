package analysis

import (
	"fmt"
	"slices"
)

// Where a run has more parts than samples, a part has a range of the groups of each of its samples. A group costs about what follows it, so
// that the first ranges are the shortest. What is not of one group alone stands in the first range: the run of the whole quantized network,
// what tensors hold. Every range runs the network once in float; that is counted in the first range, as one run does it once.

// cut cuts the groups into so many ranges of about the same cost.
func (a *analyzer) cut(ranges int) {
	behind, after := make([]float64, a.g.NumNodes()), 0.0 // by node: its work and that of all behind it
	for _, id := range slices.Backward(a.order) {
		after += a.work.of[id]
		behind[id] = after
	}
	total := 0.0
	for i := range a.groups {
		total += behind[a.groups[i].node]
	}
	a.cuts = make([]int, ranges+1)
	sum, r := 0.0, 1
	for i := range a.groups {
		for ; r < ranges && sum >= total*float64(r)/float64(ranges); r++ {
			a.cuts[r] = i
		}
		sum += behind[a.groups[i].node]
	}
	for ; r <= ranges; r++ {
		a.cuts[r] = len(a.groups)
	}
}

// span is where a range of groups begins and ends; all groups where there are no ranges.
func (a *analyzer) span(r int) (from, to int) {
	if a.cfg.Deal.Ranges < 2 {
		return 0, len(a.groups)
	}
	return a.cuts[r], a.cuts[r+1]
}

// join adds a range of a sample to the first one.
func (a *analyzer) join(all **sampleResult, more *sampleResult, r int) error {
	x, n := *all, len(a.groups)
	if x == nil || more == nil || len(x.layers) != n || len(more.layers) != n || len(x.reach) != n || len(more.reach) != n {
		return fmt.Errorf("merge: range %d of a sample is of another network", r)
	}
	from, to := a.span(r)
	copy(x.layers[from:to], more.layers[from:to])
	copy(x.reach[from:to], more.reach[from:to])
	x.forwards, x.work = x.forwards+more.forwards, x.work+more.work
	return nil
}
