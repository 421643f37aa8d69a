package round

import (
	"slices"

	"qwb/kernels/qmath"
)

// Rescaled is how often scales are fitted to codes and codes to scales in turn. Two turns more take half a percent off the error of outputs
// and nothing measurable off the divergence of a model (stories15M in five types).
const Rescaled = 2

// Scales returns for each grid of p the scale with the least quadratic form for these codes, all grids of a row together: least squares
// over one number for each grid of a row, which must be no other row's; a grid has neighbouring columns. A grid whose codes stand for 0
// keeps its scale. damp is added to the diagonal of p.H, as a part of its mean.
func (p *Problem) Scales(codes []int32, damp float64) []float64 {
	out := make([]float64, len(p.Grids.List))
	for i, g := range p.Grids.List {
		out[i] = float64(g.Scale)
	}
	added := 0.0
	for i := range p.K {
		added += damp * p.H[i*p.K+i] / float64(p.K)
	}
	if p.reads == nil {
		p.reads = make([]float64, len(p.W))
		p.strips(func(first, rows int) {
			multiplyAdd(p.reads[first*p.K:], p.K, p.W[first*p.K:], p.K, p.H, p.K, rows, p.K, p.K)
		})
	}
	n := slices.Max(p.Grids.Column) + 1
	starts := make([]int, n+1)
	for i, g := range p.Grids.Column {
		starts[g+1] = i + 1
	}
	p.strips(func(first, rows int) {
		s := leastScales{p: p, added: added, n: n, starts: starts, unit: make([]float64, rows*p.K), sums: make([]float64, rows*p.K),
			a: make([]float64, rows*n*n), b: make([]float64, rows*n)}
		s.equations(codes, first, rows)
		for r := range rows {
			s.solve(out[p.Grids.Row[first+r]:][:n], s.a[r*n*n:][:n*n], s.b[r*n:][:n])
		}
	})
	return out
}

// leastScales is the memory of Scales for some rows of n grids.
type leastScales struct {
	p      *Problem
	added  float64
	n      int
	starts []int     // of the columns of each grid
	unit   []float64 // what the codes stand for at a scale of 1
	sums   []float64 // units of a grid times H
	a, b   []float64 // normal equations of each row, the lower half
}

// equations makes the normal equations of rows, grid by grid.
func (s *leastScales) equations(codes []int32, first, rows int) {
	p, k, n := s.p, s.p.K, s.n
	for r := range rows {
		for i := range k {
			s.unit[r*k+i] = p.unit(codes[(first+r)*k+i], p.Grids.At(first+r, i))
		}
	}
	for g := range n {
		from, to := s.starts[g], s.starts[g+1]
		for r := range rows {
			clear(s.sums[r*k:][:to])
		}
		multiplyAdd(s.sums, k, s.unit[from:], k, p.H[from*k:], k, rows, to, to-from)
		for r := range rows {
			unit, sums, a := s.unit[r*k:][:to], s.sums[r*k:][:to], s.a[(r*n+g)*n:][:n]
			for h := range g + 1 {
				a[h] = dot4(sums[s.starts[h]:s.starts[h+1]], unit[s.starts[h]:s.starts[h+1]])
			}
			b := 0.0
			for i, u := range unit[from:to] {
				at := (first+r)*k + from + i
				a[g] += float64(float64(s.added*u) * u)
				b += float64(u * (p.reads[at] + float64(s.added*p.W[at])))
			}
			s.b[r*n+g] = b
		}
	}
}

// solve solves the equations of one row; where that cannot be done the scales stay.
func (s *leastScales) solve(scales, a, b []float64) {
	for g := range s.n {
		if a[g*s.n+g] == 0 {
			a[g*s.n+g], b[g] = 1, scales[g]
		}
	}
	if !corner(a, s.n, s.n) {
		return
	}
	for g := range s.n { // L y = b
		b[g] = (b[g] - dot(a[g*s.n:][:g], b[:g])) / a[g*s.n+g]
	}
	for g := s.n - 1; g >= 0; g-- { // L' s = y
		for h := g + 1; h < s.n; h++ {
			b[g] -= float64(a[h*s.n+g] * b[h])
		}
		b[g] /= a[g*s.n+g]
	}
	copy(scales, b)
}

// Of is the problem of some rows of p, with grids of the same list.
func (p *Problem) Of(rows []int) *Problem {
	q := &Problem{K: p.K, Grids: p.Grids, H: p.H, Threads: p.Threads}
	q.Grids.Row = make([]int, len(rows))
	for i, r := range rows {
		q.Grids.Row[i] = p.Grids.Row[r]
		q.W = append(q.W, p.W[r*p.K:][:p.K]...)
		if p.reads != nil {
			q.reads = append(q.reads, p.reads[r*p.K:][:p.K]...)
		}
	}
	return q
}

// unit is what a code stands for at a scale of 1.
func (p *Problem) unit(code int32, g *qmath.Grid) float64 {
	if p.Grids.Form != nil {
		return float64(p.Grids.Form.Value(uint8(code)))
	}
	return float64(code - g.ZeroPoint)
}
