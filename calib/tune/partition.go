package tune

import (
	"cmp"
	"math"
	"slices"
)

// partition cuts channels into k groups such that the sum over groups of (largest width)² times (sum of weights) is smallest: the squared
// error of rounding, where a group's step is as its widest channel needs it and each channel's error counts by its weight. Such groups are
// neighbours in the order of widths, so that dynamic programming finds them, in k n² steps. It returns the cost of 1 .. k groups, and by
// number of groups, from 1, the channels of each group in ascending order, narrow groups first.
func partition(width, weight []float64, k int) (cost []float64, groups [][][]int) {
	n := len(width)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(width[a], width[b]), a-b) })
	k = min(k, n)
	best := make([]float64, n+1) // of the first so many channels in the groups so far
	for i := range best {
		best[i] = math.Inf(1)
	}
	best[0] = 0
	var from [][]int // by number of groups: where the last one begins
	for range k {
		now, cut := make([]float64, n+1), make([]int, n+1)
		for end := range now {
			now[end] = math.Inf(1)
			sum := 0.0
			for begin := end - 1; begin >= 0; begin-- {
				sum += weight[order[begin]]
				w := width[order[end-1]]
				if c := best[begin] + float64(w*w)*sum; c < now[end] {
					now[end], cut[end] = c, begin
				}
			}
		}
		best, from = now, append(from, cut)
		cost = append(cost, now[n])
		list := make([][]int, len(from))
		end := n
		for g := len(from) - 1; g >= 0; g-- {
			list[g] = slices.Sorted(slices.Values(order[from[g][end]:end]))
			end = from[g][end]
		}
		groups = append(groups, list)
	}
	return cost, groups
}

// enough is how many groups are worth their operators: one more as long as that takes off a share of the error of at least least.
func enough(cost []float64, least float64) int {
	k := 1
	for k < len(cost) && cost[k] < (1-least)*cost[k-1] {
		k++
	}
	return k
}
