package qmath

import "math"

// Search looks for factors with which the sum of importance times squared error is least, starting from a block that Quantize made of x,
// and writes the nearest codes; without any that are better the block stays. importance has a number of at least 0 for each element; nil,
// or none above 0: all count alike.
//
// The scale and minimum of every group come first, in real numbers: from divisors around that of the largest magnitude by least squares in
// turn with rounding. Then D and M are tried around those that make the largest of them the last integer, and integers, D and M are
// improved in turn as long as that lowers the sum.
func (f *BlockForm) Search(b *Block, x []float32, importance []float64) {
	s := blockSearch{f: f, x: x, w: importance, least: math.Inf(1)}
	counts := false
	for _, w := range importance {
		counts = counts || w > 0
	}
	if !counts {
		s.w = nil
	}
	if s.least = s.loss(b); s.least == 0 {
		return
	}
	s.best = *b
	var scales, mins [16]float64
	for g := range f.Groups() {
		scales[g], mins[g] = s.group(g)
	}
	for _, shrink := range [...]float64{1, 0.97, 0.94, 1.03, 0.9} {
		s.improve(s.factors(scales[:f.Groups()], mins[:f.Groups()], shrink))
	}
	*b = s.best
}

type blockSearch struct {
	f     *BlockForm
	x     []float32
	w     []float64
	best  Block
	least float64
}

// loss is the sum for the codes of a block.
func (s *blockSearch) loss(b *Block) (sum float64) {
	for g := range s.f.Groups() {
		scale, least := b.Factors(g)
		for i := g * s.f.Group; i < (g+1)*s.f.Group; i++ {
			d := float64(s.x[i]) - float64(float32(scale*s.f.Value(b.Codes[i]))-least)
			sum += float64(d*d) * weightOf(s.w, i)
		}
	}
	return sum
}

// nearest is the sum of a group for nearest codes; more than most need not be whole.
func (s *blockSearch) nearest(g int, scale, least float32, most float64) (sum float64) {
	for i := g * s.f.Group; i < (g+1)*s.f.Group && sum <= most; i++ {
		v := float32(0)
		if scale != 0 {
			v = float32(scale * s.f.Value(s.f.Nearest(s.x[i], scale, least)))
		}
		d := float64(s.x[i]) - float64(v-least)
		sum += float64(d*d) * weightOf(s.w, i)
	}
	return sum
}

// line are the sums of a scale and a minimum by least squares.
type line struct{ w, x, v, xv, vv float64 }

func (l *line) add(w, x, v float64) {
	l.w += w
	l.x += float64(w * x)
	l.v += float64(w * v)
	l.xv += float64(float64(w*x) * v)
	l.vv += float64(float64(w*v) * v)
}

// solve returns scale and minimum; ok is false where nothing is known of the scale.
func (l *line) solve(f *BlockForm) (scale, least float64, ok bool) {
	if f.MaxMin != 0 {
		if det := float64(l.w*l.vv) - float64(l.v*l.v); det > 1e-12*l.w*l.vv {
			scale, least = (float64(l.w*l.xv)-float64(l.x*l.v))/det, (float64(l.v*l.xv)-float64(l.x*l.vv))/det
			if f.MaxMin < 0 || least >= 0 {
				return scale, least, scale > 0
			}
		}
	}
	if !(l.vv > 0) {
		return 0, 0, false
	}
	return l.xv / l.vv, 0, f.MaxMin == 0 || l.xv > 0
}

const (
	groupTries  = 20 // divisors of a group
	groupRounds = 4  // of least squares and rounding
)

// group returns scale and minimum of a group in real numbers, both 0 where there is nothing.
func (s *blockSearch) group(g int) (scale, least float64) {
	f, from := s.f, g*s.f.Group
	x := s.x[from:][:f.Group]
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if f.MaxMin > 0 || lo == hi {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	best := math.Inf(1)
	try := func(d, m float64) {
		for range groupRounds {
			if a := math.Abs(d); !(a > 1e-30 && a < 1e30) {
				return
			}
			e := s.nearest(g, float32(d), float32(m), best)
			if !(e < best) {
				return
			}
			best, scale, least = e, d, m
			var l line
			for i, v := range x {
				l.add(weightOf(s.w, from+i), float64(v), float64(f.Value(f.Nearest(v, float32(d), float32(m)))))
			}
			next, nextM, ok := l.solve(f)
			if !ok {
				return
			}
			d, m = next, nextM
		}
	}
	first, last := float64(f.Value(0)), float64(f.Value(uint8(f.Levels-1)))
	for k := range groupTries {
		part := 1.1 - 0.6*float64(k)/groupTries // of the whole span
		if f.MaxMin != 0 {
			middle := float64(lo)
			if f.MaxMin < 0 {
				middle += float64((1 - part) / 2 * float64(hi-lo))
			}
			try(part*float64(hi-lo)/(last-first), -middle)
			continue
		}
		m := float64(extreme(x)) * part
		try(m/first, 0)
		try(m/last, 0)
	}
	return scale, least
}

// factors makes a block with D and M such that the largest of the scales and minima are the last integers, times shrink, and nearest codes.
func (s *blockSearch) factors(scales, mins []float64, shrink float64) *Block {
	f := s.f
	b := new(Block)
	f.Reset(b)
	var top, topM float64
	for g, v := range scales {
		if math.Abs(v) > math.Abs(top) {
			top = v
		}
		topM = max(topM, mins[g])
	}
	last := f.Hi
	if f.Lo < 0 {
		last = f.Lo
	}
	b.D = FP16.Round(float32(top * shrink / float64(last)))
	switch {
	case f.MaxMin < 0:
		b.M = FP16.Round(float32(-mins[0]))
	case f.MaxMin > 0:
		b.M = FP16.Round(float32(topM * shrink / float64(f.MaxMin)))
	}
	for g := range scales {
		if f.Hi > 1 && b.D != 0 {
			b.Scales[g] = int8(clampInt(nearestEven(float32(scales[g]/float64(b.D))), f.Lo, f.Hi))
		}
		if f.MaxMin > 0 && b.M != 0 {
			b.Mins[g] = int8(clampInt(nearestEven(float32(mins[g]/float64(b.M))), 0, f.MaxMin))
		}
	}
	return b
}

// improve takes a block of factors into account, and what becomes of it by better integers, D and M in turn.
func (s *blockSearch) improve(b *Block) {
	for range groupRounds {
		if b.D-b.D != 0 || b.M-b.M != 0 || b.D == 0 {
			return
		}
		if s.f.Hi > 1 {
			for g := range s.f.Groups() {
				s.integers(b, g)
			}
		}
		for g := range s.f.Groups() {
			scale, least := b.Factors(g)
			for i := g * s.f.Group; scale != 0 && i < (g+1)*s.f.Group; i++ {
				b.Codes[i] = s.f.Nearest(s.x[i], scale, least)
			}
		}
		e := s.loss(b)
		if !(e < s.least) {
			return
		}
		s.least, s.best = e, *b
		if !s.refit(b) {
			return
		}
	}
}

// integers moves the integers of a group by one as long as that is better.
func (s *blockSearch) integers(b *Block, g int) {
	scale, least := b.Factors(g)
	best := s.nearest(g, scale, least, math.Inf(1))
	for better := true; better; {
		better = false
		for _, d := range [...][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}} {
			to, toM := int(b.Scales[g])+d[0], int(b.Mins[g])+d[1]
			if to < s.f.Lo || to > s.f.Hi || toM < 0 || toM > max(s.f.MaxMin, 0) || s.f.MaxMin == 0 && d[0] == 0 {
				continue
			}
			e := s.nearest(g, float32(b.D*float32(to)), float32(b.M*float32(toM)), best)
			if e < best {
				best, better = e, true
				b.Scales[g], b.Mins[g] = int8(to), int8(toM)
			}
		}
	}
}

// refit sets D and M to the best for the integers and codes at hand. It reports whether one changed.
func (s *blockSearch) refit(b *Block) bool {
	var dd, dm, mm, xd, xm float64
	for g := range s.f.Groups() {
		scale, least := float64(b.Scales[g]), float64(b.Mins[g])
		for i := g * s.f.Group; i < (g+1)*s.f.Group; i++ {
			w, x := weightOf(s.w, i), float64(s.x[i])
			p, q := scale*float64(s.f.Value(b.Codes[i])), -least
			dd += float64(w * p * p)
			dm += float64(w * p * q)
			mm += float64(w * q * q)
			xd += float64(w * x * p)
			xm += float64(w * x * q)
		}
	}
	d, m := float64(b.D), float64(b.M)
	if det := float64(dd*mm) - float64(dm*dm); det > 1e-12*dd*mm {
		d, m = (float64(xd*mm)-float64(xm*dm))/det, (float64(xm*dd)-float64(xd*dm))/det
	} else if dd > 0 {
		d = (xd - float64(m*dm)) / dd
	}
	if s.f.MaxMin > 0 && m < 0 {
		return false
	}
	old, oldM := b.D, b.M
	b.D, b.M = FP16.Round(float32(d)), FP16.Round(float32(m))
	return b.D != old || b.M != oldM
}
