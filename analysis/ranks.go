package analysis

import "math"

// rank says which places the operators may have by their NSR, given by operator and sample; b are the blocks of samples. Two are told apart
// where the paired difference has a lower limit above zero, by Student's t; the risk is shared among the comparisons that one operator
// takes part in, so that the places of each operator hold with ClaimRisk on either side (confidence sets for ranks: Mogstad, Romano, Shaikh
// and Wilhelm, Review of Economic Studies 91, 2024).
func rank(nsr [][]float64, b Blocks) [][2]int {
	places := make([][2]int, len(nsr))
	if len(nsr) == 0 {
		return places
	}
	times := math.Inf(1)
	if n := b.Count(len(nsr[0])); n > 1 {
		times = quantile(n-1, ClaimRisk/float64(max(len(nsr)-1, 1)))
	}
	for i := range nsr {
		above, below := 0, 0
		for k := range nsr {
			d := NewEstimate(b.differences(nsr[i], nsr[k]))
			switch { // NaN, the product of infinity and no error, tells nothing apart
			case d.Mean > times*d.Error:
				above++
			case d.Mean < -times*d.Error:
				below++
			}
		}
		places[i] = [2]int{1 + above, len(nsr) - below}
	}
	return places
}
