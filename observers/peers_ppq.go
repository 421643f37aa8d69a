package observers

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"

	"qwb/quantizer/tqc"
)

// ppqPercentile is TorchPercentileObserver of PPQ 0.6.6 on the CPU, the default of its platforms: the values of rank floor(n*(1-p))+1 and
// floor(n*p)+1. PPQ takes the mean of these over the batches; this is what it finds where all data are one batch.
var ppqPercentile = &Method{
	Name: "ppq/percentile",
	Doc:  "PPQ, percentile (its default): the quantiles at 0.01 % and 99.99 % of the values, all in one batch",
	Range: func(st *State, cfg tqc.Config, share float64) (Range, []tqc.Warning, error) {
		share = cmp.Or(share, DefaultPercentile)
		if err := checkShare(share); err != nil {
			return Range{}, nil, err
		}
		warnings, err := perTensor(st, cfg)
		if err != nil {
			return Range{}, nil, err
		}
		n, lo, hi := float64(st.Count()), float64(st.extent.Min), float64(st.extent.Max)
		first := uint64(float64(n*(1-share))) + 1
		last := min(uint64(float64(n*share)), st.Count()-1) + 1
		return Range{st.atRank(min(first, st.Count()), st.hist.bins, lo, hi), st.atRank(last, st.hist.bins, lo, hi)}, warnings, nil
	},
}

const (
	ppqBins     = 4096
	ppqDropped  = 8     // int(0.002 * bins): the lowest bins count nothing, the next one counts 1
	ppqEpsilon  = 1e-30 // added to what a logarithm is taken of
	ppqMSEBins  = 2048
	ppqInterval = 8 // bins from one lower end to the next
)

// ppqKL is TorchHistObserver of PPQ 0.6.6: 4,096 bins of |x|, and the thresholds at multiples of half the codes. It is for symmetric
// policies.
var ppqKL = &Method{
	Name: "ppq/kl",
	Doc:  "PPQ, kl: 32 thresholds by Kullback-Leibler divergence on 4,096 bins",
	Range: func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error) {
		codes, warnings, err := searched(st, cfg, parameter, ppqBins)
		if err != nil {
			return Range{}, nil, err
		}
		if !cfg.Policy.Has(tqc.Symmetric) {
			return Range{}, nil, fmt.Errorf("kl of PPQ is for symmetric schemes only")
		}
		top := st.largest()
		if top == 0 {
			return st.cut(0), warnings, nil
		}
		levels := 1 << (bits.Len(uint(codes-1)) - 1)
		hist := st.linearAbs(ppqBins, 0, top)
		clear(hist[:ppqDropped])
		hist[ppqDropped] = 1
		best, least := 0, math.Inf(1)
		for n := levels; n <= ppqBins; n += levels {
			if d := ppqDivergence(hist, n, levels); d < least {
				best, least = n, d
			}
		}
		return Range{-float64(top*float64(best)) / ppqBins, float64(top*float64(best)) / ppqBins}, warnings, nil
	},
}

// ppqDivergence compares the first n bins with what levels codes make of them.
func ppqDivergence(hist []float64, n, levels int) float64 {
	total, inside, d, ratio := sum(hist), sum(hist[:n]), 0.0, n/levels
	for level := range levels {
		part := hist[level*ratio : (level+1)*ratio]
		filled := 0.0
		for _, v := range part {
			if v > 0 {
				filled++
			}
		}
		for i, v := range part {
			q := 0.0
			if v > 0 {
				q = sum(part) / filled / inside
			}
			if level*ratio+i == n-1 {
				v += total - inside
			}
			d += float64(v / total * (math.Log10(float64(v/total)+ppqEpsilon) - math.Log10(q+ppqEpsilon)))
		}
	}
	return d
}

// ppqMSE is TorchMSEObserver of PPQ 0.6.6: 2,048 bins, the codes a whole number of them apart; an asymmetric policy also moves the lower
// end by 8 bins at a time. Its range may reach beyond the largest value.
var ppqMSE = &Method{
	Name: "ppq/mse",
	Doc:  "PPQ, mse: the least squared error among a few steps on 2,048 bins",
	Range: func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error) {
		levels, warnings, err := searched(st, cfg, parameter, ppqMSEBins)
		if err != nil {
			return Range{}, nil, err
		}
		symmetric := cfg.Policy.Has(tqc.Symmetric)
		lo, hi := float64(st.extent.Min), float64(st.extent.Max)
		if symmetric {
			lo, hi = 0, st.largest()
		}
		if lo == hi {
			return Range{lo, hi}, warnings, nil
		}
		s := ppqSearch{levels: levels, least: math.Inf(1)}
		if s.hist = st.linearAbs(ppqMSEBins, lo, hi); !symmetric {
			s.hist = st.linear(ppqMSEBins, lo, hi)
		}
		width := (hi - lo) / ppqMSEBins
		s.try(0, ppqMSEBins/levels+1)
		for start := 0; start < ppqMSEBins && float64(float64(start)*width)+lo <= 0 && (start == 0 || !symmetric); start += ppqInterval {
			for step := 1; step <= ppqMSEBins/levels && start+levels*step <= ppqMSEBins+levels; step++ {
				s.try(start, step)
			}
		}
		end := float64(float64(s.start+levels*s.step) * width)
		if symmetric {
			return Range{-end, end}, warnings, nil
		}
		return Range{float64(float64(s.start)*width) + lo, end + lo}, warnings, nil
	},
}

type ppqSearch struct {
	hist        []float64
	levels      int
	least       float64
	start, step int // of the best
}

// try is compute_mse_loss of codes that begin at bin start, step bins apart.
func (s *ppqSearch) try(start, step int) {
	loss, end := 0.0, start+s.levels*step
	for i, n := range s.hist {
		var e float64
		switch left, right := (i-start)%step, step-(i-start)%step-1; {
		case i < start:
			e = float64(start-i-1) + 0.5
		case i > end:
			e = float64(i-end) + 0.5
		case left == right:
			e = float64(left) + 0.25
		default:
			e = float64(min(left, right)) + 0.5
		}
		if loss += float64(n * float64(e*e)); loss >= s.least {
			return
		}
	}
	s.least, s.start, s.step = loss, start, step
}
