package round

import (
	"slices"

	"qwb/kernels/qmath"
)

// Rescaled is how often scales are fitted to codes and codes to scales in turn. What more rounds gain is little.
const Rescaled = 4

// Scales returns for each grid of p the scale with the least quadratic form for these codes, all grids of a row together: least squares
// over one number for each grid of a row, which must be no other row's. A grid whose codes stand for 0 keeps its scale. damp is added to
// the diagonal of p.H, as a part of its mean.
func (p *Problem) Scales(codes []int32, damp float64) []float64 {
	out := make([]float64, len(p.Grids.List))
	for i, g := range p.Grids.List {
		out[i] = float64(g.Scale)
	}
	added := 0.0
	for i := range p.K {
		added += damp * p.H[i*p.K+i] / float64(p.K)
	}
	n := slices.Max(p.Grids.Column) + 1
	p.strips(func(first, rows int) {
		s := leastScales{p: p, added: added, n: n, unit: make([]float64, p.K), sums: make([]float64, n*p.K), a: make([]float64, n*n),
			b: make([]float64, n)}
		for r := first; r < first+rows; r++ {
			s.row(out[p.Grids.Row[r]:][:n], codes, r)
		}
	})
	return out
}

// leastScales is the memory of Scales for one row of n grids.
type leastScales struct {
	p     *Problem
	added float64
	n     int
	unit  []float64 // what the codes stand for at a scale of 1
	sums  []float64 // by grid: its units times H
	a, b  []float64 // normal equations
}

func (s *leastScales) row(scales []float64, codes []int32, r int) {
	p, k := s.p, s.p.K
	clear(s.sums)
	for i := range k {
		s.unit[i] = p.unit(codes[r*k+i], p.Grids.At(r, i))
		if s.unit[i] == 0 {
			continue
		}
		to := s.sums[p.Grids.Column[i]*k:][:k]
		for j, h := range p.H[i*k:][:k] {
			to[j] += float64(s.unit[i] * h)
		}
		to[i] += float64(s.unit[i] * s.added)
	}
	clear(s.a)
	for g := range s.n {
		sums := s.sums[g*k:][:k]
		s.b[g] = dot(sums, p.W[r*k:][:k])
		for i, h := range sums {
			s.a[g*s.n+p.Grids.Column[i]] += float64(h * s.unit[i])
		}
		if s.a[g*s.n+g] == 0 {
			s.a[g*s.n+g], s.b[g] = 1, scales[g]
		}
	}
	if !corner(s.a, s.n, s.n) {
		return
	}
	for g := range s.n { // L y = b
		s.b[g] = (s.b[g] - dot(s.a[g*s.n:][:g], s.b[:g])) / s.a[g*s.n+g]
	}
	for g := s.n - 1; g >= 0; g-- { // L' s = y
		for h := g + 1; h < s.n; h++ {
			s.b[g] -= float64(s.a[h*s.n+g] * s.b[h])
		}
		s.b[g] /= s.a[g*s.n+g]
	}
	copy(scales, s.b)
}

// unit is what a code stands for at a scale of 1.
func (p *Problem) unit(code int32, g qmath.Grid) float64 {
	if p.Grids.Form != nil {
		return float64(p.Grids.Form.Value(uint8(code)))
	}
	return float64(code - g.ZeroPoint)
}
