package checkpoint

import (
	"fmt"
	"math"
)

// Pairing says which elements of a head rotary embedding turns together.
type Pairing uint8

const (
	Interleaved Pairing = iota // 2i and 2i+1: llama2.c, GGUF of Llama
	Halves                     // i and i + HeadDim/2: Hugging Face, GGUF of Qwen2
)

func (p Pairing) String() string {
	if p == Halves {
		return "halves"
	}
	return "interleaved"
}

// Config is the shape of a model. Its parts, for one token's vector x of Dim elements, are, but for Switches,
//
//	x += Output * attention(RMSNorm(x)), with Heads query heads and KVHeads heads of keys and values, HeadDim each
//	x += Down * (silu(Gate * RMSNorm(x)) * (Up * RMSNorm(x))), with Hidden elements in between
//
// Layers times, and then Classifier * RMSNorm(x), with Vocab elements.
type Config struct {
	Family  Family `json:"family"`
	Dim     int    `json:"dim"`
	Hidden  int    `json:"hidden"`
	Layers  int    `json:"layers"`
	Heads   int    `json:"heads"`
	KVHeads int    `json:"kv_heads"` // divides Heads; fewer than Heads is grouped-query attention
	HeadDim int    `json:"head_dim"` // Dim / Heads unless a file says otherwise
	Vocab   int    `json:"vocab"`
	Context int    `json:"context"` // positions that the model was made for

	NormEps   float32      `json:"norm_eps"`
	RopeTheta float64      `json:"rope_theta"`
	Pairing   Pairing      `json:"pairing"` // of the rows of Query and Key
	Scaling   *RopeScaling `json:"rope_scaling,omitempty"`

	Switches

	Tied bool  `json:"tied"` // the classifier is the embedding
	BOS  int   `json:"bos"`  // id that begins a text
	EOS  []int `json:"eos"`  // ids that end one
}

const (
	maxDim     = 1 << 20 // of every dimension
	maxElement = 1 << 40 // of every matrix
)

// Validate reports what about the shape cannot be.
func (c *Config) Validate() error {
	for _, d := range []struct {
		name  string
		value int
	}{
		{"dim", c.Dim}, {"hidden", c.Hidden}, {"layers", c.Layers}, {"heads", c.Heads}, {"kv_heads", c.KVHeads},
		{"head_dim", c.HeadDim}, {"vocab", c.Vocab}, {"context", c.Context},
	} {
		if d.value < 1 || d.value > maxDim*16 {
			return fmt.Errorf("%s is %d", d.name, d.value)
		}
	}
	switch {
	case c.Layers > 1<<12:
		return fmt.Errorf("%d layers", c.Layers)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d query heads cannot share %d heads of keys and values", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("heads of %d elements have no pairs for rotary embedding", c.HeadDim)
	case c.Dim > maxDim || c.Heads*c.HeadDim > maxDim || c.Hidden > maxDim:
		return fmt.Errorf("vectors of %d, %d and %d elements", c.Dim, c.Heads*c.HeadDim, c.Hidden)
	case int64(max(c.Vocab, c.Hidden)) > maxElement/int64(c.Dim):
		return fmt.Errorf("matrices of %d x %d elements", max(c.Vocab, c.Hidden), c.Dim)
	case !(c.NormEps >= 0) || math.IsInf(float64(c.NormEps), 0):
		return fmt.Errorf("the epsilon of the norms is %g", c.NormEps)
	case !(c.RopeTheta > 0) || math.IsInf(c.RopeTheta, 0):
		return fmt.Errorf("the base of rotary embedding is %g", c.RopeTheta)
	}
	if c.Windows != nil && len(c.Windows) != c.Layers {
		return fmt.Errorf("windows of %d layers, there are %d", len(c.Windows), c.Layers)
	}
	if err := c.validateExperts(); err != nil {
		return err
	}
	if t := c.LocalTheta; !(t >= 0) || math.IsInf(t, 0) {
		return fmt.Errorf("the base of rotary embedding in windows is %g", t)
	}
	for l, w := range c.Windows {
		if w < 0 {
			return fmt.Errorf("the window of layer %d is %d", l, w)
		}
	}
	if n := c.RotaryDim; n < 0 || n > c.HeadDim || n%2 != 0 {
		return fmt.Errorf("rotary embedding of %d of %d elements of a head", n, c.HeadDim)
	}
	if s := c.EmbedScale; s-s != 0 || s < 0 {
		return fmt.Errorf("the embedding is multiplied with %g", s)
	}
	return c.Scaling.validate(c.Turned() / 2)
}

// validateExperts reports what about experts cannot be.
func (c *Config) validateExperts() error {
	if c.Experts == 0 && c.ExpertsUsed == 0 {
		return nil
	}
	if c.Experts < 0 || c.Experts*c.Layers > 1<<20 || c.ExpertsUsed < 1 || c.ExpertsUsed > c.Experts {
		return fmt.Errorf("%d of %d experts in %d layers", c.ExpertsUsed, c.Experts, c.Layers)
	}
	if c.ExpertHidden < 1 || c.SharedHidden < 0 || max(c.ExpertHidden, c.SharedHidden) > maxDim {
		return fmt.Errorf("experts of %d elements, one for all tokens of %d", c.ExpertHidden, c.SharedHidden)
	}
	for i, l := range c.Dense {
		if l < 0 || l >= c.Layers || i > 0 && l <= c.Dense[i-1] {
			return fmt.Errorf("layers without experts are %d", c.Dense)
		}
	}
	return nil
}

// QueryDim is how many elements the queries of a token have: those of all heads.
func (c *Config) QueryDim() int { return c.Heads * c.HeadDim }

// KVDim is how many elements the keys of a token have, and the values.
func (c *Config) KVDim() int { return c.KVHeads * c.HeadDim }

// Parameters counts the elements of all matrices and vectors, a tied classifier not twice.
func (c *Config) Parameters() int64 {
	var n int64
	for _, p := range c.Parts() {
		rows, cols := c.Shape(p.Role)
		n += int64(rows) * int64(cols)
	}
	return n
}
