package analysis

import "slices"

// Candidate is one of several configurations measured on the same samples, in the same order.
type Candidate struct {
	Losses []float64 // by sample, lower is better: Losses.PerSample
	Wrong  []float64 // by sample, 1 where the answer is wrong, else 0; nil without labels, then for every candidate
	// Tie orders candidates that cannot be told apart, less is better: a cost. 0 for all leaves them in order of their mean loss.
	Tie float64
}

// Place is where Rank puts a candidate.
type Place struct {
	Rank int // from 1; candidates with the same rank cannot be told apart from the best of that rank
	// Behind is the paired difference of the losses from the best of all: the candidate's minus the best one's.
	Behind Estimate
}

// Rank orders candidates by paired tests. The leader is the candidate with the fewest wrong answers; whoever cannot be told apart from it
// by its answers, and of those from the one with the least mean loss by its losses, has its rank; the others are ranked in the same way
// after them, so that ranks are 1, 1, 3, 4, 4 and so on. Without labels losses alone decide. Two candidates are told apart where the
// one-sided lower limit of their mean paired difference (Student's t; of answers as Guarded has it) lies above 0. Since any two may be
// compared, the risk of each comparison is ClaimRisk divided by the number of ordered pairs, and of tests of a pair (Bonferroni): equals
// are all told to be equal with probability 1 - ClaimRisk. best is the index of the one to take: of rank 1 that with the least Tie, of
// equals the one with the least mean loss, then the first. With fewer than two samples nothing is told apart; of are
// their blocks. There is at least one
// candidate, and the lists have the same length.
func Rank(all []Candidate, of Blocks) (places []Place, best int) {
	places = make([]Place, len(all))
	rest := make([]int, len(all))
	for i := range rest {
		rest[i] = i
	}
	risk := ClaimRisk / float64(max(len(all)*(len(all)-1), 1))
	if all[0].Wrong != nil {
		risk /= 2
	}
	first := true
	for rank := 1; len(rest) > 0; {
		tied := rest
		if all[rest[0]].Wrong != nil {
			tied = level(all, rest, risk, func(c *Candidate) []float64 { return c.Wrong },
				func(d []float64) Estimate { return Guarded(of.Of(d), 1) })
		}
		tied = level(all, tied, risk, func(c *Candidate) []float64 { return c.Losses }, of.Estimate)
		if first {
			first, best = false, cheapest(all, tied)
		}
		var others []int
		for _, i := range rest {
			places[i].Rank = rank
			if !slices.Contains(tied, i) {
				places[i].Rank = 0
				others = append(others, i)
			}
		}
		rank += len(tied)
		rest = others
	}
	for i := range all {
		places[i].Behind = NewEstimate(of.differences(all[best].Losses, all[i].Losses))
	}
	return places, best
}

// level returns those of the indices, in their order, that cannot be told apart from the one with the least mean.
func level(all []Candidate, indices []int, risk float64, values func(*Candidate) []float64, estimate func([]float64) Estimate) []int {
	leader := indices[0]
	for _, i := range indices {
		if mean(values(&all[i])) < mean(values(&all[leader])) {
			leader = i
		}
	}
	var tied []int
	for _, i := range indices {
		d := make([]float64, len(values(&all[i])))
		for k, x := range values(&all[i]) {
			d[k] = x - values(&all[leader])[k]
		}
		if i == leader || !(estimate(d).Lower(risk) > 0) {
			tied = append(tied, i)
		}
	}
	return tied
}

// cheapest returns the index with the least Tie, of equals with the least mean loss, then the first.
func cheapest(all []Candidate, indices []int) int {
	best := indices[0]
	for _, i := range indices {
		a, b := &all[i], &all[best]
		if a.Tie < b.Tie || a.Tie == b.Tie && mean(a.Losses) < mean(b.Losses) {
			best = i
		}
	}
	return best
}

func mean(values []float64) float64 { return NewEstimate(values).Mean }
