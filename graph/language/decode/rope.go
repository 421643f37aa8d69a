package decode

import (
	"qwb/graph/language/checkpoint"
)

// rotary turns the pairs of elements of queries and keys by angles that grow with the position (Su et al., arXiv 2104.09864).
type rotary struct {
	shape    *checkpoint.Config
	freqs    []float64
	halves   bool
	cos, sin []float32 // by position, as many as frequencies
}

func newRotary(c *checkpoint.Config) *rotary {
	return &rotary{shape: c, freqs: c.Frequencies(), halves: c.Pairing == checkpoint.Halves}
}

// reach computes the tables up to a position.
func (r *rotary) reach(positions int) {
	for p := len(r.cos) / len(r.freqs); p < positions; p++ {
		for _, f := range r.freqs {
			x, y := r.shape.Angle(p, f)
			r.cos, r.sin = append(r.cos, float32(x)), append(r.sin, float32(y))
		}
	}
}

// turn turns the heads in x, of each the first elements, twice as many as there are frequencies, at a position.
func (r *rotary) turn(x []float32, position int) {
	half := len(r.freqs)
	cos, sin := r.cos[position*half:][:half], r.sin[position*half:][:half]
	step, apart := 2, 1
	if r.halves {
		step, apart = 1, half
	}
	for ; len(x) > 0; x = x[r.shape.HeadDim:] {
		for i, c := range cos {
			a, b := x[i*step], x[i*step+apart]
			x[i*step] = float32(a*c) - float32(b*sin[i])
			x[i*step+apart] = float32(a*sin[i]) + float32(b*c)
		}
	}
}
