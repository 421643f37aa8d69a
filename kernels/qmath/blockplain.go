package qmath

import "math"

// The quantizers of ggml for blocks, without importance: what ggml-quants.c computes, in its order and in float32, so that the bytes are
// those of llama-quantize built without fused multiply-add. They leave D and M unrounded.

// tiny is the magnitude below which ggml takes the elements of a group for zeros.
const tiny = 1e-15

// extreme is the first element of the largest magnitude.
func extreme(x []float32) (v float32) {
	for _, a := range x {
		if Abs32(a) > Abs32(v) {
			v = a
		}
	}
	return v
}

// inverseOf is 1/d, 0 where that is no number.
func inverseOf(d float32) float32 {
	if r := 1 / d; r-r == 0 {
		return r
	}
	return 0
}

// plainLargest: the largest magnitude becomes the lowest code, others are truncated after half a step is added (Q5_0).
func plainLargest(f *BlockForm, b *Block, x []float32) {
	b.D = extreme(x) / float32(-f.Zero)
	inverse := inverseOf(b.D)
	for i, v := range x {
		b.Codes[i] = uint8(clampInt(int32(float32(v*inverse)+(float32(f.Zero)+0.5)), 0, f.Levels-1))
	}
}

// plainSpan: codes from the least element to the greatest (Q4_1, Q5_1).
func plainSpan(f *BlockForm, b *Block, x []float32) {
	least, most := x[0], x[0]
	for _, v := range x { // not min and max, which prefer one of the two zeros
		if v < least {
			least = v
		}
		if v > most {
			most = v
		}
	}
	b.D, b.M = (most-least)/float32(f.Levels-1), least
	inverse := inverseOf(b.D)
	for i, v := range x {
		b.Codes[i] = uint8(clampInt(int32(float32((v-least)*inverse)+0.5), 0, f.Levels-1))
	}
}

// fitted are the sums of a scale by least squares: of weight * element * code and weight * code^2.
type fitted struct{ xl, ll float32 }

func (s *fitted) add(w, x, l float32) {
	s.xl += float32(float32(w*x) * l)
	s.ll += float32(float32(w*l) * l)
}

func (s fitted) scale() float32 {
	if s.ll > 0 {
		return s.xl / s.ll
	}
	return 0
}

// gains reports whether the error with s is below that of a scale whose product with its own xl is best.
func (s fitted) gains(best float32) bool { return s.ll > 0 && float32(s.xl*s.xl) > float32(best*s.ll) }

// signedScale is the scale of a group of Q6_K: of 19 divisors around the largest magnitude the one whose codes fit best.
func signedScale(f *BlockForm, codes []uint8, x []float32) float32 {
	m := extreme(x)
	if Abs32(m) < tiny {
		clear(codes)
		return 0
	}
	round := func(inverse, v float32) int { return clampInt(nearestEven(float32(inverse*v)), -f.Zero, f.Zero-1) }
	try := func(inverse float32) (s fitted) {
		for _, v := range x {
			s.add(float32(v*v), v, float32(round(inverse, v)))
		}
		return s
	}
	keep := func(inverse float32) {
		for i, v := range x {
			codes[i] = uint8(round(inverse, v) + f.Zero)
		}
	}
	inverse := float32(-f.Zero) / m
	keep(inverse)
	s := try(inverse)
	scale := s.scale()
	best := float32(scale * s.xl)
	for i := -9; i <= 9; i++ {
		if i == 0 {
			continue
		}
		inverse := -(float32(f.Zero) + float32(float32(0.1)*float32(i))) / m
		if s := try(inverse); s.gains(best) {
			keep(inverse)
			scale = s.scale()
			best = float32(scale * s.xl)
		}
	}
	return scale
}

// movedScale is the scale of a group of Q3_K: codes are moved one by one as long as that makes the fit better, five times at most.
func movedScale(f *BlockForm, codes []uint8, x []float32) float32 {
	m := extreme(x)
	if Abs32(m) < tiny {
		clear(codes)
		return 0
	}
	inverse := float32(-f.Zero) / m
	var l [16]int
	var s fitted
	for i, v := range x {
		l[i] = clampInt(nearestEven(float32(inverse*v)), -f.Zero, f.Zero-1)
		s.add(float32(v*v), v, float32(l[i]))
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, old := float32(v*v), float32(l[i])
			t := fitted{s.xl - float32(float32(w*v)*old), s.ll - float32(float32(w*old)*old)}
			if !(t.xl > 0) {
				continue
			}
			to := clampInt(nearestEven(float32(v*t.ll)/t.xl), -f.Zero, f.Zero-1)
			if to == l[i] {
				continue
			}
			t.add(w, v, float32(to))
			if t.ll > 0 && float32(float32(t.xl*t.xl)*s.ll) > float32(float32(s.xl*s.xl)*t.ll) {
				l[i], s, changed = to, t, true
			}
		}
		if !changed {
			break
		}
	}
	for i := range x {
		codes[i] = uint8(l[i] + f.Zero)
	}
	return s.scale()
}

// signedFactors makes the integer factors of scales with a sign, the largest magnitude becoming the lowest, and the codes. What codes are
// where the factor is 0 stays.
func signedFactors(f *BlockForm, b *Block, x, scales []float32) {
	inverse := float32(f.Lo) / extreme(scales)
	for g, s := range scales {
		b.Scales[g] = int8(clampInt(nearestEven(float32(inverse*s)), f.Lo, f.Hi))
	}
	b.D = 1 / inverse
	f.recode(b, x)
}

// recode writes the codes nearest to x under the stored factors; a group whose scale is 0 keeps its own.
func (f *BlockForm) recode(b *Block, x []float32) {
	stored := *b
	stored.D, stored.M = FP16.Round(b.D), FP16.Round(b.M)
	for g := range f.Groups() {
		scale, least := stored.Factors(g)
		if scale == 0 {
			continue
		}
		for i := g * f.Group; i < (g+1)*f.Group; i++ {
			b.Codes[i] = f.Nearest(x[i], scale, least)
		}
	}
}

func plainThirds(f *BlockForm, b *Block, x []float32) {
	var scales [16]float32
	for g := range scales {
		scales[g] = movedScale(f, b.Codes[g*f.Group:][:f.Group], x[g*f.Group:][:f.Group])
	}
	if extreme(scales[:]) == 0 {
		for g := range b.Scales {
			b.Scales[g] = int8(f.Lo)
		}
		return
	}
	signedFactors(f, b, x, scales[:])
}

func plainSixths(f *BlockForm, b *Block, x []float32) {
	var scales [16]float32
	for g := range scales {
		scales[g] = signedScale(f, b.Codes[g*f.Group:][:f.Group], x[g*f.Group:][:f.Group])
	}
	if Abs32(extreme(scales[:])) < tiny {
		f.Reset(b)
		return
	}
	signedFactors(f, b, x, scales[:])
}

// tries are the divisors that are tried for a group with a minimum: Levels-1 + first + 0.1*k for k from 0 to steps.
type tries struct {
	first    float32
	steps    int
	absolute bool // errors count by their magnitude and weights are that of the element; else squares, with the root mean square added
}

// lineScale is scale and minimum of a group whose numbers are scale*code - least, least not below 0.
func lineScale(f *BlockForm, codes []uint8, x []float32) (scale, least float32) {
	var weights [32]float32
	f.lineWeights(weights[:], x)
	lo, hi := x[0], x[0]
	sumW := weights[0]
	sumX := float32(sumW * x[0])
	for i, v := range x[1:] {
		lo, hi = min(lo, v), max(hi, v)
		sumW += weights[i+1]
		sumX += float32(weights[i+1] * v)
	}
	lo = min(lo, 0)
	most := float32(f.Levels - 1)
	inverse := most / (hi - lo)
	if hi == lo || inverse-inverse != 0 {
		clear(codes)
		return 0, -lo
	}
	round := func(inverse, v float32) float32 {
		return float32(clampInt(nearestEven(float32(inverse*(v-lo))), 0, f.Levels-1))
	}
	lossOf := func(l []float32, scale, lo float32) (sum float32) {
		for i, v := range x {
			d := float32(scale*l[i]) + lo - v
			if f.tries.absolute {
				d = Abs32(d)
			} else {
				d = float32(d * d)
			}
			sum += float32(weights[i] * d)
		}
		return sum
	}
	var buffer [32]float32
	l := buffer[:len(x)]
	keep := func() {
		for i, v := range l {
			codes[i] = uint8(v)
		}
	}
	for i, v := range x {
		l[i] = round(inverse, v)
	}
	keep()
	scale = 1 / inverse
	best := lossOf(l, scale, lo)
	for k := range f.tries.steps + 1 {
		inverse := (f.tries.first + float32(float32(0.1)*float32(k)) + most) / (hi - lo)
		var sumL, sumLL, sumXL float32
		for i, v := range x {
			l[i] = round(inverse, v)
			w := float32(weights[i] * l[i])
			sumL += w
			sumLL += float32(w * l[i])
			sumXL += float32(w * v)
		}
		det := float32(sumW*sumLL) - float32(sumL*sumL)
		if !(det > 0) {
			continue
		}
		s := (float32(sumW*sumXL) - float32(sumX*sumL)) / det
		m := (float32(sumLL*sumX) - float32(sumL*sumXL)) / det
		if m > 0 {
			m, s = 0, sumXL/sumLL
		}
		if e := lossOf(l, s, m); e < best {
			best, scale, lo = e, s, m
			keep()
		}
	}
	return scale, -lo
}

func (f *BlockForm) lineWeights(weights, x []float32) {
	mean := float32(0)
	if !f.tries.absolute {
		for _, v := range x {
			mean += float32(v * v)
		}
		mean = float32(math.Sqrt(float64(mean / float32(len(x)))))
	}
	for i, v := range x {
		weights[i] = mean + Abs32(v)
	}
}

func plainMinima(f *BlockForm, b *Block, x []float32) {
	var scales, mins [16]float32
	for g := range f.Groups() {
		scales[g], mins[g] = lineScale(f, b.Codes[g*f.Group:][:f.Group], x[g*f.Group:][:f.Group])
	}
	b.D = factors(b.Scales[:f.Groups()], scales[:], f.Hi)
	b.M = factors(b.Mins[:f.Groups()], mins[:], f.MaxMin)
	f.recode(b, x)
}

// factors makes integers of numbers that are not below 0, and returns what they are multiples of.
func factors(to []int8, numbers []float32, top int) float32 {
	most := float32(0)
	for _, v := range numbers[:len(to)] {
		most = max(most, v)
	}
	if most == 0 {
		return 0
	}
	inverse := float32(top) / most
	if inverse-inverse != 0 {
		return 0
	}
	for g := range to {
		to[g] = int8(clampInt(nearestEven(float32(inverse*numbers[g])), 0, top))
	}
	return most / float32(top)
}

// plainTable: the scale of a group is the best of those under which the largest magnitude gets the numbers around the lowest of the table.
func plainTable(f *BlockForm, b *Block, x []float32) {
	var scales [16]float32
	n := f.Groups()
	for g := range n {
		scales[g] = tableScale(f, x[g*f.Group:][:f.Group])
	}
	d, factor := scales[0], float32(1)
	if f.Lo != f.Hi {
		d = -extreme(scales[:n]) / float32(-f.Lo)
	}
	inverse := inverseOf(d)
	for g := range n {
		if f.Lo != f.Hi {
			b.Scales[g] = int8(clampInt(nearestEven(float32(inverse*scales[g])), f.Lo, f.Hi))
			factor = float32(b.Scales[g])
		}
		inverse := inverseOf(float32(d * factor))
		for i := g * f.Group; i < (g+1)*f.Group; i++ {
			b.Codes[i] = f.place(float32(inverse * x[i]))
		}
	}
	b.D = d
}

func tableScale(f *BlockForm, x []float32) float32 {
	m := extreme(x)
	if Abs32(m) < tiny {
		return 0
	}
	try := func(inverse float32) (s fitted) {
		for _, v := range x {
			q := f.Table[f.place(float32(inverse*v))]
			w := float32(v * v)
			s.xl += float32(float32(w*q) * v)
			s.ll += float32(float32(w*q) * q)
		}
		return s
	}
	s := try(1 / (-m / f.Table[0]))
	scale := s.scale()
	best := float32(scale * s.xl)
	for k := -7; k <= 7; k++ {
		if s := try((float32(k) + f.Table[0]) / m); s.gains(best) {
			scale = s.scale()
			best = float32(scale * s.xl)
		}
	}
	return scale
}
