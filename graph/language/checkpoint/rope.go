package checkpoint

import (
	"cmp"
	"fmt"
	"math"

	"qwb/kernels/elementary"
)

// RopeScaling stretches the rotary frequencies for long contexts.
type RopeScaling struct {
	// Factor divides the frequencies: all of them, or where HighFactor or BetaFast is not zero only the low ones.
	Factor float64 `json:"factor"`
	// LowFactor and HighFactor are the numbers of turns within OriginalContext below which a frequency is divided and above
	// which it is kept; in between it is interpolated ("llama3" of Hugging Face's rope_scaling).
	LowFactor       float64 `json:"low_factor,omitempty"`
	HighFactor      float64 `json:"high_factor,omitempty"`
	OriginalContext int     `json:"original_context,omitempty"`
	// BetaFast and BetaSlow are the numbers of turns within OriginalContext of the pairs between which YaRN (Peng et al., arXiv
	// 2309.00071) goes from keeping a frequency to dividing it, linearly over the pairs. Attention is what cosines and sines are then
	// multiplied by; 0 elsewhere.
	BetaFast  float64 `json:"beta_fast,omitempty"`
	BetaSlow  float64 `json:"beta_slow,omitempty"`
	Attention float64 `json:"attention,omitempty"`
	// Factors, if there are any, are what each pair's frequency is divided by, and beside them only Attention is used: GGUF keeps no rule,
	// and LongRoPE (Ding et al., arXiv 2402.13753) finds them by search.
	Factors []float32 `json:"factors,omitempty"`
}

// YaRN's constants where a file gives none.
const (
	yarnFast = 32
	yarnSlow = 1
)

// YarnAttention is what cosines and sines are multiplied by under YaRN with a factor, unless a file says otherwise.
func YarnAttention(factor float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*math.Log(factor) + 1
}

// validate reports what cannot be, for a head of so many pairs. A nil receiver is valid.
func (s *RopeScaling) validate(pairs int) error {
	if s == nil {
		return nil
	}
	ok := s.Factor > 0 && s.LowFactor >= 0 && s.HighFactor >= s.LowFactor && s.OriginalContext >= 0 && s.BetaSlow >= 0 &&
		s.BetaFast >= s.BetaSlow && s.Attention >= 0 &&
		(s.Factors != nil || (s.BetaFast == 0) == (s.Attention == 0)) && (s.BetaFast == 0 || s.OriginalContext > 0 && s.HighFactor == 0)
	if s.Factors != nil {
		ok = ok && len(s.Factors) == pairs
		for _, f := range s.Factors {
			ok = ok && f > 0 && !math.IsInf(float64(f), 0)
		}
	}
	if !ok || math.IsInf(s.Factor, 0) || math.IsInf(s.BetaFast, 0) || math.IsInf(s.Attention, 0) {
		return fmt.Errorf("rope scaling %+v", *s)
	}
	return nil
}

// Turned is how many elements of a head rotary embedding turns.
func (c *Config) Turned() int { return cmp.Or(c.RotaryDim, c.HeadDim) }

// Frequencies returns the angles per position of the Turned()/2 pairs of a head, in float64: RopeTheta^(-2i/Turned()), scaled.
func (c *Config) Frequencies() []float64 {
	out := make([]float64, c.Turned()/2)
	low, high := c.yarnRange()
	for i := range out {
		f := elementary.Pow(c.RopeTheta, -float64(2*i)/float64(c.Turned()))
		switch s := c.Scaling; {
		case s != nil && s.Factors != nil:
			out[i] = f / float64(s.Factors[i])
		case s != nil && s.BetaFast > 0:
			divided := min(max((float64(i)-low)/(high-low), 0), 1)
			out[i] = divided*f/s.Factor + (1-divided)*f
		default:
			out[i] = s.apply(f)
		}
	}
	return out
}

// Local is the shape with the rotary embedding of layers with a window.
func (c *Config) Local() *Config {
	local := *c
	if c.LocalTheta != 0 {
		local.RopeTheta, local.Scaling = c.LocalTheta, nil
	}
	return &local
}

// Angle returns cosine and sine of the angle of a pair at a position, given its frequency, times what the scaling multiplies them by.
func (c *Config) Angle(position int, frequency float64) (cos, sin float64) {
	sin, cos = math.Sincos(float64(position) * frequency)
	if s := c.Scaling; s != nil && s.Attention != 0 {
		sin, cos = sin*s.Attention, cos*s.Attention
	}
	return cos, sin
}

// yarnRange returns the pairs, fractions not counted, between which YaRN goes from keeping frequencies to dividing them; high is above low.
func (c *Config) yarnRange() (low, high float64) {
	s := c.Scaling
	if s == nil || s.BetaFast == 0 {
		return 0, 1
	}
	pair := func(turns float64) float64 {
		return float64(c.Turned()) * math.Log(float64(s.OriginalContext)/(turns*2*math.Pi)) / (2 * math.Log(c.RopeTheta))
	}
	low, high = max(math.Floor(pair(s.BetaFast)), 0), min(math.Ceil(pair(s.BetaSlow)), float64(c.Turned()-1))
	return low, max(high, low+0.001)
}

// apply scales one frequency; a nil receiver keeps it.
func (s *RopeScaling) apply(f float64) float64 {
	if s == nil {
		return f
	}
	if s.HighFactor == 0 {
		return f / s.Factor
	}
	turns := float64(s.OriginalContext) * f / (2 * math.Pi)
	switch {
	case turns < s.LowFactor:
		return f / s.Factor
	case turns > s.HighFactor:
		return f
	}
	share := (turns - s.LowFactor) / (s.HighFactor - s.LowFactor)
	return (1-share)*f/s.Factor + share*f
}
