package observers

import (
	"cmp"
	"fmt"
	"iter"
	"math"

	"qwb/quantizer/tqc"
)

// Percentile keeps a share p of the values inside the range and clips the rest; p is its parameter, in (0, 1], DefaultPercentile where
// none is given. A symmetric policy takes that quantile of |x| and cuts the range to minimum and maximum;
// an asymmetric policy cuts off 1-p at each end.
//
// The quantile p of n values is the value of rank ceil(p*n), that is, the smallest value that at least p*n values do not
// exceed. It is taken over all values of all samples, zeros included, so it does not depend on how samples are batched (PPQ
// takes the mean of one quantile per batch). Its relative error is at most 2^-10; below 2^-20 of the largest value, the error
// is at most 2^-20 of the largest value.
var Percentile = &Method{
	Name: tqc.ObserverPercentile,
	Doc:  "the quantile that keeps a share of the values inside, 99.99 % by default",
	Range: func(st *State, cfg tqc.Config, share float64) (Range, []tqc.Warning, error) {
		share = cmp.Or(share, DefaultPercentile)
		if !(share > 0 && share <= 1) {
			return Range{}, nil, fmt.Errorf("percentile %g: only above 0 and up to 1", share)
		}
		warnings, err := perTensor(st, cfg)
		if err != nil {
			return Range{}, nil, err
		}
		n := st.Count()
		rank := quantileRank(share, n)
		lo, hi := float64(st.extent.Min), float64(st.extent.Max)
		if cfg.Policy.Has(tqc.Symmetric) {
			q := st.atRank(rank, st.hist.absolute().bins, 0, max(-lo, hi))
			return Range{max(lo, -q), min(hi, q)}, warnings, nil
		}
		return Range{st.atRank(n+1-rank, st.hist.bins, lo, hi), st.atRank(rank, st.hist.bins, lo, hi)}, warnings, nil
	},
}

// quantileRank is ceil(p*n), at least 1.
func quantileRank(p float64, n uint64) uint64 {
	r := uint64(math.Ceil(float64(p * float64(n))))
	return min(max(r, 1), n)
}

// Quantile returns the value of rank ceil(p*Count()), with the accuracy stated at Percentile; NaN where there is none.
func (st *State) Quantile(p float64) float64 {
	n := st.Count()
	if n == 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	return st.atRank(quantileRank(p, n), st.hist.bins, float64(st.extent.Min), float64(st.extent.Max))
}

// atRank returns the value of a rank, counted from 1 along bins, limited to [lo, hi], the exact extent. The first and the
// last value are exact, others the middle of their bin.
func (st *State) atRank(rank uint64, bins iter.Seq[Bin], lo, hi float64) float64 {
	if rank == st.Count() {
		return hi
	}
	var seen uint64
	for b := range bins {
		if seen += b.Count; seen < rank {
			continue
		}
		if rank == 1 {
			return clamp(b.Lo, lo, hi)
		}
		return clamp(b.Lo+(b.Hi-b.Lo)/2, lo, hi)
	}
	return hi
}

func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }
