package observers

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Isotone picks the scale at which the most rows keep their largest value: the code of the largest L1 stays above that of
// the second largest L2, so that the class a softmax names survives quantization.
//
// With levels codes above zero, L1 > L2 >= 0 are told apart for certain if and only if
//
//	s < L1 - L2              (then a rounding boundary lies strictly between them wherever the grid falls), and
//	s > L2 / (levels - 1/2)  (then L2 stays below the top code, into which everything larger saturates).
//
// PPQ's test lets s up to 2*(L1 - L2) pass, at which codes tie (L1 = 1.4, L2 = 0.8, s = 1). The state holds the two ends as
// histograms; a scale is judged by the number of rows violating the one plus that violating the other, taken at the
// cautious ends of the bins. Of equally good scales the largest is taken, up to that of minmax: it clips least.
var Isotone = &Method{
	Name: tqc.ObserverIsotone,
	Doc:  "softmax outputs: the scale at which the most rows keep their largest value",
	Range: func(st *State, cfg tqc.Config, _ float64) (Range, []tqc.Warning, error) {
		warnings, err := perTensor(st, cfg)
		if err != nil {
			return Range{}, nil, err
		}
		if !cfg.Integer() {
			return Range{}, nil, ErrIntegers
		}
		if st.extent.Min < 0 {
			return Range{}, nil, ErrNegative
		}
		ordered, _ := st.Rows()
		if ordered == 0 {
			return Range{}, nil, ErrNoRows
		}
		scheme := cfg.Scheme()
		largest, zp, _, err := qmath.ScaleFromRange(0, float64(st.extent.Max), scheme)
		if err != nil {
			return Range{}, nil, err
		}
		levels := float64(scheme.QMax) - float64(zp)
		s, lost := st.rows.search(float64(largest), levels, scheme.PowerOfTwo)
		if lost > 0 {
			warnings = append(warnings, tqc.Warning{Text: fmt.Sprintf("%d of %d rows may lose their largest value", min(lost, ordered), ordered)})
		}
		divisor := levels
		if scheme.Symmetric && scheme.Divisor != 0 {
			divisor = scheme.Divisor
		}
		return Range{0, float64(s * divisor)}, warnings, nil
	},
}

// isotoneMargin keeps a scale off the end of an interval by more than float32 arithmetic can lose.
const isotoneMargin = 0x1p-20

// search returns the best scale up to largest and how many violations it has.
func (r *rows) search(largest, levels float64, powerOfTwo bool) (best float64, lost uint64) {
	// needs[i]: below it, Count rows saturate; bears[i]: above it, Count rows tie. Ascending, as bins are.
	type end struct {
		at float64
		n  uint64
	}
	var needs, bears []end
	candidates := []float64{largest}
	for b := range r.second.bins {
		needs = append(needs, end{float64(b.Hi / (levels - 0.5) * (1 + isotoneMargin)), b.Count})
	}
	for b := range r.gap.bins {
		bears = append(bears, end{float64(b.Lo * (1 - isotoneMargin)), b.Count})
	}
	if powerOfTwo {
		for s := largest / 2; s > 0 && len(candidates) < 64; s /= 2 {
			candidates = append(candidates, s)
		}
	} else {
		for _, e := range bears {
			if e.at > 0 && e.at < largest {
				candidates = append(candidates, e.at)
			}
		}
	}
	slices.SortFunc(candidates, func(a, b float64) int { return cmp.Compare(b, a) }) // the largest first
	var total, borne uint64
	for _, e := range bears {
		total += e.n
	}
	saturate := uint64(0)
	i, k := len(needs), len(bears)
	lost = math.MaxUint64
	for _, s := range candidates {
		for i > 0 && needs[i-1].at > s {
			i--
			saturate += needs[i].n
		}
		for k > 0 && bears[k-1].at >= s {
			k--
			borne += bears[k].n
		}
		if v := saturate + total - borne; v < lost {
			best, lost = s, v
		}
	}
	return best, lost
}
