package decode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"qwb/kernels/elementary"
)

// Sampling says how the next token is chosen from logits. The zero value takes the most likely one.
type Sampling struct {
	Temperature float64 // divides the logits; 0 takes the largest one, the first of several
	TopK        int     // only the so many most likely ones; 0: all
	TopP        float64 // only the most likely ones that together reach this probability, at least one; 0 or 1: all
	Seed        uint64
}

// Validate reports what cannot be sampled from a vocabulary of the given size.
func (s Sampling) Validate(vocab int) error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("a temperature of %g; it is 0 or more", s.Temperature)
	case s.TopK < 0 || s.TopK > vocab:
		return fmt.Errorf("top-k of %d in a vocabulary of %d", s.TopK, vocab)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("top-p of %g; it lies between 0 and 1", s.TopP)
	}
	return nil
}

// sampler chooses tokens one after the other.
type sampler struct {
	Sampling
	random *rand.Rand
	order  []candidate
}

type candidate struct {
	id     int
	weight float64
}

func newSampler(s Sampling) *sampler {
	return &sampler{Sampling: s, random: rand.New(rand.NewPCG(s.Seed, 0))}
}

// next chooses from the logits of all tokens.
func (s *sampler) next(logits []float32) int {
	best := Largest(logits)
	if s.Temperature == 0 {
		return best
	}
	most := float64(logits[best])
	order := grow(&s.order, len(logits))
	for i, x := range logits {
		order[i] = candidate{i, elementary.Exp((float64(x) - most) / s.Temperature)}
	}
	if s.TopK > 0 || s.TopP > 0 && s.TopP < 1 {
		slices.SortFunc(order, func(a, b candidate) int {
			switch {
			case a.weight > b.weight:
				return -1
			case a.weight < b.weight:
				return 1
			}
			return a.id - b.id
		})
		if s.TopK > 0 {
			order = order[:s.TopK]
		}
		if s.TopP > 0 && s.TopP < 1 {
			order = nucleus(order, s.TopP)
		}
	}
	r := s.random.Float64() * total(order)
	for _, c := range order {
		if r -= c.weight; r < 0 {
			return c.id
		}
	}
	return order[len(order)-1].id
}

// nucleus cuts candidates, the most likely first, after those that reach the share p of the whole.
func nucleus(order []candidate, p float64) []candidate {
	left := p * total(order)
	for i, c := range order {
		if left -= c.weight; left <= 0 {
			return order[:i+1]
		}
	}
	return order
}

func total(order []candidate) float64 {
	sum := 0.0
	for _, c := range order {
		sum += c.weight
	}
	return sum
}

// Largest returns the index of the largest element, the first of several; NaN is none, and 0 is returned of nothing else.
func Largest(x []float32) int {
	best, top := 0, float32(math.NaN())
	for i, v := range x {
		if v > top || top != top && v == v {
			best, top = i, v
		}
	}
	return best
}
