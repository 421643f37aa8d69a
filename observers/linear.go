package observers

import (
	"iter"
	"math"
)

// linear counts the values of a state in n bins of equal width over [lo, hi], as numpy.histogram and torch.histc do: a value on a border
// counts in the upper bin, hi in the last. The values of one bin of the state are taken as evenly spread, in whole values; the smallest and
// the largest of all are where they are. A count is therefore that of the values themselves, but for those within the width of the state's
// bin, 2^-10 of their magnitude, around each border.
func (st *State) linear(n int, lo, hi float64) []float64 {
	return spread(st.Bins(), n, lo, hi, float64(st.extent.Min), float64(st.extent.Max))
}

// linearAbs is linear of |x|.
func (st *State) linearAbs(n int, lo, hi float64) []float64 {
	top := st.largest()
	return spread(func(yield func(Bin) bool) {
		for b := range st.hist.absolute().bins {
			if b.Lo != b.Hi {
				b.Hi = min(b.Hi, top)
			}
			if !yield(b) {
				return
			}
		}
	}, n, lo, hi, math.Inf(-1), top)
}

// largest is the largest |x|, smallest about the smallest: the lower end of its bin.
func (st *State) largest() float64 { return max(-float64(st.extent.Min), float64(st.extent.Max)) }

func (st *State) smallest() float64 {
	for b := range st.hist.absolute().bins {
		return b.Lo
	}
	return 0
}

// spread does what linear says; first and last are values that are there.
func spread(bins iter.Seq[Bin], n int, lo, hi, first, last float64) []float64 {
	counts := make([]float64, n)
	place := func(x float64) int { return min(max(int(float64((x-lo)/(hi-lo))*float64(n)), 0), n-1) }
	for b := range bins {
		c := float64(b.Count)
		if b.Lo == first && c > 0 {
			counts[place(first)]++
			c--
		}
		if b.Hi == last && c > 0 {
			counts[place(last)]++
			c--
		}
		done := 0.0
		for i, end := place(b.Lo), place(b.Hi); i < end; i++ {
			edge := lo + float64((hi-lo)*float64(i+1))/float64(n)
			below := float64(int64(float64(c*min((edge-b.Lo)/(b.Hi-b.Lo), 1)) + 0.5))
			counts[i] += below - done
			done = below
		}
		counts[place(b.Hi)] += c - done
	}
	return counts
}
