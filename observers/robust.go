package observers

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"qwb/quantizer/tqc"
)

// DefaultRobust is how many typical values the error of a clipped value counts for at most.
const DefaultRobust = 3

// robustChannels is how many channels a tensor has at least for one in so many of them to tell what is ordinary.
const robustChannels = 10

// Robust is MSE where a value that is clipped counts as lost at worst, however far away it lay: its error counts for at most the square of
// a limit, which is k times the typical value, or what one in ten channels reaches, if that is more. k is the parameter, above 1,
// DefaultRobust where none is given. Where no value lies beyond the limit robust is MSE.
//
// The squared error lets a few values far away rule the range, though what a network computes seldom hangs on how far away they are: hot
// pixels in a dark picture, a spike in front of a saturating activation. A truncated square is the classical cure (Hinich and Talwar, "A
// Simple Method for Robust Regression", JASA 70, 1975). The typical value s is the root mean square of the values other than zero, which
// every grid represents, where each counts for at most k*s itself, so that the spikes do not make themselves typical: the fixed point of
// s = sqrt(mean(min(x^2, (k*s)^2))) (Huber's Proposal 2, Annals of Mathematical Statistics 35, 1964), reached from above. Channels of very
// different range, as depthwise convolutions have them, are no spikes: what one in ten channels reaches belongs to the network. Tensors
// with fewer than ten channels have the first limit alone.
var Robust = &Method{
	Name: tqc.ObserverRobust,
	Doc:  "the least squared error, where values far outside count as lost and no more",
	Range: func(st *State, cfg tqc.Config, k float64) (Range, []tqc.Warning, error) {
		if k = cmp.Or(k, DefaultRobust); !(k > 1) {
			return Range{}, nil, fmt.Errorf("robust %g: only above 1", k)
		}
		return leastSquares(st, cfg, func(pos, neg *moments) float64 {
			return max(float64(k*typical(pos, neg, k)), ordinary(st.Channels()))
		})
	},
}

// ordinary is the largest magnitude that one in robustChannels channels reaches, rounded to whole channels; 0 for fewer channels.
func ordinary(channels []Extent) float64 {
	n := len(channels)
	if n < robustChannels {
		return 0
	}
	reach := make([]float64, n)
	for i, c := range channels {
		reach[i] = max(float64(c.Max), -float64(c.Min), 0)
	}
	slices.Sort(reach)
	return reach[n-(n+robustChannels/2)/robustChannels]
}

// typicalSteps is how often the fixed point is approached, typicalNear how near two steps are when it is reached.
const (
	typicalSteps = 200
	typicalNear  = 1 - 0x1p-20
)

// typical is the root mean square of the values of both signs, no value counting for more than k times it. There is at least one value.
func typical(pos, neg *moments, k float64) float64 {
	n := pos.all().n + neg.all().n
	s := math.Sqrt((pos.all().xx + neg.all().xx) / n)
	for range typicalSteps {
		limit, power := float64(k*s), 0.0
		for _, m := range []*moments{pos, neg} {
			in := m.below(limit)
			power += in.xx + float64(float64(limit*limit)*(m.all().n-in.n))
		}
		next := math.Sqrt(power / n)
		if next >= float64(s*typicalNear) {
			return min(s, next)
		}
		s = next
	}
	return s
}
