package checkpoint

import (
	"fmt"
	"math"
)

// WithEpsilon is a model that computes the same with another epsilon of its norms. RMSNorm (Zhang and Sennrich 2019) of c*x with an epsilon
// of c*c*e is that of x with e, so that everything that is added to the residual stream is multiplied by c: the embedding, the output of
// attention and that of the feed-forward part. A shared classifier becomes a matrix of its own. It is m where the epsilon is that already.
//
// Errors: an epsilon that is not above 0, what the family has beside Llama's parts, and matrices that are quantized. As With, it needs m
// open and is not to be closed itself.
func (m *Model) WithEpsilon(eps float32) (*Model, error) {
	if m.NormEps == eps {
		return m, nil
	}
	if !(eps > 0) || !(m.NormEps > 0) {
		return nil, fmt.Errorf("norms with an epsilon of %g cannot have one of %g", m.NormEps, eps)
	}
	if !m.Plain() {
		return nil, fmt.Errorf("the epsilon of the norms is part of what the %s family has beside Llama's parts", m.Family)
	}
	factor := float32(math.Sqrt(float64(eps) / float64(m.NormEps)))
	scaled := map[Part]*Tensor{}
	for p, t := range m.tensors {
		if p.Role != Embedding && p.Role != Output && p.Role != Down {
			continue
		}
		if !t.Floats() {
			return nil, fmt.Errorf("an epsilon of %g in place of %g multiplies %s, which is quantized", eps, m.NormEps, p)
		}
		s := *t
		s.factor = factor
		scaled[p] = &s
	}
	n := m.With(scaled)
	n.NormEps = eps
	if m.Tied {
		c := *m.Tensor(Embedding, -1)
		c.Part = Part{Role: Classifier, Layer: c.Layer}
		n.Tied, n.tensors[c.Part] = false, &c
	}
	return n, nil
}
