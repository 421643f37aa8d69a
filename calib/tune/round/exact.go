package round

import "math"

// ExactLength is how many weights a row may have for Exact to be worth its time: the kernels of depthwise convolutions have 9 or 25.
const ExactLength = 32

// Exact searches all codes of short rows for those with the least quadratic form under the damped moments, starting from codes, which it
// changes. In the triangular form the error of a row is a sum of squares that grows with every weight that is chosen: a branch that exceeds
// the best is cut, and codes are tried from the nearest outwards (C. P. Schnorr, M. Euchner, "Lattice basis reduction", 1994), all of the
// grid, not only the two neighbours. nodes bounds the work per row; it returns how many rows were searched to the end:
// their codes are the best there are. Of codes that are not below a row's limit nothing is wanted; nil: there are no limits.
func (f *Factor) Exact(p *Problem, codes []int32, nodes int, limits []float64) (proven int) {
	best := f.Loss(p, codes)
	done := make([]bool, p.Rows())
	p.strips(func(first, rows int) {
		s := search{f: f, p: p, e: make([]float64, f.K), code: make([]int32, f.K), best: make([]int32, f.K)}
		for r := first; r < first+rows; r++ {
			s.row, s.bound, s.nodes = r, best[r]*(1-1e-12), nodes
			if limits != nil {
				s.bound = min(s.bound, limits[r])
			}
			for a, i := range f.place {
				s.best[a] = codes[r*p.K+i]
			}
			s.descend(f.K-1, 0)
			for a, i := range f.place {
				codes[r*p.K+i] = s.best[a]
			}
			done[r] = s.nodes > 0
		}
	})
	for _, d := range done {
		if d {
			proven++
		}
	}
	return proven
}

// search is the state of Exact in one row; slices are by position.
type search struct {
	f          *Factor
	p          *Problem
	row, nodes int
	bound      float64
	e          []float64
	code, best []int32
}

// descend chooses the codes of position a and below, the squares above being sum.
func (s *search) descend(a int, sum float64) {
	if a < 0 {
		s.bound = sum
		copy(s.best, s.code)
		return
	}
	i, l := s.f.place[a], s.f.l[a*s.f.K+a]
	w, g := s.p.W[s.row*s.p.K+i], s.p.Grids.At(s.row, i)
	shift := 0.0
	for b := a + 1; b < s.f.K; b++ {
		shift += float64(s.e[b] * s.f.l[b*s.f.K+a])
	}
	want := w + shift/l
	nearest := g.Quantize(float32(want))
	// On either side the squares only grow with the distance.
	far := func(code int32) float64 {
		if code < g.QMin || code > g.QMax {
			return math.Inf(1)
		}
		return math.Abs(want - float64(g.Dequantize(code)))
	}
	up, down := nearest, nearest-1
	du, dd := far(up), far(down)
	for s.nodes > 0 {
		code, d := up, du
		if dd < du {
			code, d = down, dd
		}
		t := sum + float64(l*d)*float64(l*d)
		if !(t < s.bound) {
			return
		}
		if code == up {
			up++
			du = far(up)
		} else {
			down--
			dd = far(down)
		}
		s.nodes--
		s.code[a], s.e[a] = code, w-float64(g.Dequantize(code))
		s.descend(a-1, t)
	}
}
