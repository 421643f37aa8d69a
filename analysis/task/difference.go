package task

import (
	"math"
	"math/rand/v2"
)

// Additive is a scorer whose score is a weighted mean over samples: the sum of their values over the sum of their weights. The mean of
// a figure of each sample has weights of 1; an error rate counts errors and is weighted by lengths.
type Additive interface {
	Scorer
	// Terms are what a sample adds to the two sums. The weight is not negative.
	Terms(r Record) (value, weight float64)
}

// quotient is the score of an additive scorer; NaN where the weights add up to 0.
func quotient(s Additive, records []Record) float64 {
	var value, weight float64
	for _, r := range records {
		v, w := s.Terms(r)
		value, weight = value+v, weight+w
	}
	return value / weight
}

// mostGroups is how many subsets of the samples are scored for an error.
const mostGroups = 200

// Difference says how much worse the second of two runs over the same samples is, one value for each sample: their mean is the
// difference of the scores, positive where the second is worse, in percentage points for m.Percent, and their standard error (of
// analysis.NewEstimate) that of the difference, the samples being paired. For a mean over samples they are the differences of the
// samples themselves. For any other score they are jackknife pseudo-values (Efron, The Jackknife, the Bootstrap and Other Resampling
// Plans, 1982): n*score - (n-1)*score without the sample, their mean moved to the difference of the scores. More than 200 samples are
// left out in 200 groups, drawn at random but always the same ones, and the values of a group scaled so that the standard error is that
// of the groups. Where a score is undefined, with a sample left out too, the values are NaN. The lists have the same length and order.
func Difference(s Scorer, before, after []Record, m *Metric) []float64 {
	if c, ok := s.(chosen); ok {
		s = c.Scorer
	}
	n := len(before)
	sign := 1.0
	if m.Lower {
		sign = -1
	}
	if m.Percent {
		sign *= 100
	}
	out := make([]float64, n)
	if a, ok := s.(Additive); ok && evenly(a, before, after, sign, out) {
		return out
	}
	x, y := pseudo(s, before), pseudo(s, after)
	total := sign * (s.Score(before) - s.Score(after))
	var mean float64
	for i := range out {
		out[i] = sign * (x[i] - y[i])
		mean += out[i] / float64(n)
	}
	for i := range out {
		out[i] += total - mean
	}
	return out
}

// evenly fills in the differences of samples that all weigh the same; it reports whether they do.
func evenly(s Additive, before, after []Record, sign float64, out []float64) bool {
	var all float64
	for i := range out {
		x, w := s.Terms(before[i])
		y, v := s.Terms(after[i])
		if i == 0 {
			all = w
		}
		if w != all || v != all || all == 0 {
			return false
		}
		out[i] = sign * (x/w - y/v)
	}
	return true
}

// pseudo returns the pseudo-values of the score. Their mean is the score only where it is linear.
func pseudo(s Scorer, records []Record) []float64 {
	n := len(records)
	out := make([]float64, n)
	if n < 2 {
		for i := range out {
			out[i] = s.Score(records)
		}
		return out
	}
	whole := s.Score(records)
	if a, ok := s.(Additive); ok {
		var value, weight float64
		for _, r := range records {
			v, w := a.Terms(r)
			value, weight = value+v, weight+w
		}
		for i, r := range records {
			v, w := a.Terms(r)
			out[i] = float64(n)*whole - float64(n-1)*(value-v)/(weight-w)
		}
		return out
	}
	groups := min(n, mostGroups)
	group := shuffled(n)
	rest := make([]Record, 0, n)
	scale := math.Sqrt(float64(n-1) / float64(groups-1))
	for g := range groups {
		rest = rest[:0]
		for i, r := range records {
			if group[i]%groups != g {
				rest = append(rest, r)
			}
		}
		change := scale * float64(groups-1) * (whole - s.Score(rest))
		for i := range out {
			if group[i]%groups == g {
				out[i] = whole + change
			}
		}
	}
	return out
}

// shuffled is a permutation of 0 to n-1, the same one always: a Fisher-Yates shuffle by PCG.
func shuffled(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	g := rand.NewPCG(0, 0)
	for i := n - 1; i > 0; i-- {
		j := int(g.Uint64() % uint64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}
