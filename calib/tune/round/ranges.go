package round

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"qwb/kernels/elementary"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Part is a list of numbers that share one scale, as a channel, a group or all of a weight do.
type Part struct {
	Values []float32
	// Importance is what the error of each value counts, at least 0; nil: 1 each. With the mean square of the input that a weight is
	// multiplied by it makes the sum of squares the expected squared error of the output, inputs taken as independent of each other.
	Importance []float64
}

// Range looks for the scale and zero point with the least
//
//	sum of Importance * |value - what is left of it|^power
//
// for the integers of a config. It starts with the range of the values (qmath.ScaleFromRange), and where a symmetric scheme has one
// integer more on the negative side, with the scale that uses it too (the largest magnitude over 2^(b-1), where that is of a negative
// value); these are shrunk in even steps down to a tenth, the zero point of an asymmetric scheme being any that cuts on either side. The
// best are refined: for power 2 by least squares of the scale for the codes at hand in turn with rounding, else by sixteenths of the
// spacing; zero points by single steps. Scales that have to be powers of two are tried one after the other.
//
// A tie goes to what is tried first, the wider range. Values that are not finite are an error, and so is a power of 0 or less. A part
// without a value other than 0, or where none counts, keeps the range of the values.
func Range(c tqc.Config, p Part, power float64) (qmath.Grid, error) {
	return NewRanger(c, power).Range(p)
}

// Ranger is Range for many parts.
type Ranger struct {
	c     tqc.Config
	power float64
	table []float64
}

// NewRanger returns a Ranger, which goroutines may share.
func NewRanger(c tqc.Config, power float64) *Ranger {
	r := &Ranger{c: c, power: power}
	if power != 2 && power > 0 {
		r.table = powerTable(power)
	}
	return r
}

// Range is Range for one part.
func (r *Ranger) Range(p Part) (qmath.Grid, error) {
	s := rangeSearch{c: r.c, scheme: r.c.Scheme(), part: p, power: r.power, table: r.table}
	if err := s.start(); err != nil {
		return qmath.Grid{}, err
	}
	if s.done {
		return s.best, nil
	}
	if s.scheme.PowerOfTwo {
		s.octaves()
	} else {
		s.shrink()
	}
	if s.best != s.wide && RangeError(s.best, p, r.power) > RangeError(s.wide, p, r.power) { // the table is not exact
		return s.wide, nil
	}
	return s.best, nil
}

// RangeError is the sum that Range minimises, for a given grid.
func RangeError(g qmath.Grid, p Part, power float64) float64 {
	s := rangeSearch{part: p, power: power, least: math.Inf(1)}
	return s.error(g)
}

// powerTable has x^power for x from 0 to 1/2 in tableSteps even steps, the last one twice: errors in steps of the grid.
func powerTable(power float64) []float64 {
	t := make([]float64, tableSteps+2)
	for i := range t {
		t[i] = elementary.Pow(min(float64(i), tableSteps)/(2*tableSteps), power)
	}
	return t
}

const tableSteps = 2048

// FullRange is the scale of a symmetric signed scheme under which the largest magnitude gets the lowest integer, where that is one more
// than the highest in magnitude; else, and where the largest magnitude is of a positive value, which would be cut off, ok is false.
func FullRange(c tqc.Config, values []float32) (g qmath.Grid, ok bool) {
	scheme := c.Scheme()
	if !scheme.Symmetric || scheme.PowerOfTwo || scheme.Divisor != 0 || int64(scheme.QMin) != -int64(scheme.QMax)-1 {
		return g, false
	}
	lo, hi := extent(values)
	if !(lo < -hi) || math.IsInf(lo, 0) {
		return g, false
	}
	scale := float32(max(lo/float64(scheme.QMin), hi/float64(scheme.QMax)))
	return qmath.Grid{Scale: scale, QMin: c.QMin, QMax: c.QMax, Rounding: c.Rounding}, scale >= 0x1p-126
}

// KeepGain makes up for what rounding to a grid takes from a part's length. The least squared error clips, and what is left of a part then
// is shorter than the part along its own direction; small in one operator, it multiplies over many in a row. The scale is multiplied by
//
//	sum(h v^2) / sum(h v q)     q what is left of v, h its Importance
//
// where that is above 1, which restores the length for the codes at hand (R. Banner, Y. Nahshan, D. Soudry, "Post Training 4-bit
// Quantization of Convolutional Networks for Rapid-Deployment", 2019, section 4, restores mean and length of each channel so). A scale that
// has to be a power of two stays.
func KeepGain(c tqc.Config, g qmath.Grid, p Part) qmath.Grid {
	if c.Policy.Has(tqc.PowerOf2) {
		return g
	}
	var vv, vq float64
	for i, v := range p.Values {
		h := 1.0
		if p.Importance != nil {
			h = p.Importance[i]
		}
		vv += float64(h * float64(v) * float64(v))
		vq += float64(h * float64(v) * float64(g.Fake(v)))
	}
	if vq > 0 && vq < vv {
		if s := float32(float64(g.Scale) * vv / vq); qmath.Representable(s) {
			g.Scale = s
		}
	}
	return g
}

const (
	// rangeWork is how many values are rounded in the even steps of one part, within limits: short rows have many steps, since where
	// their few values fall between the codes is luck.
	rangeWork             = 1 << 16
	leastSteps, mostSteps = 80, 2048
	lowestShare           = 0.1 // of the whole range
	refined               = 3   // of the best steps
	leastSquareRounds     = 16
	zeroPointsTried       = 5
	octavesBelow          = 8
	chunk                 = 128 // values whose error is summed before it is held against the least
)

type rangeSearch struct {
	c      tqc.Config
	scheme qmath.Scheme
	part   Part
	power  float64
	lo, hi float64
	wide   qmath.Grid // of the whole range
	best   qmath.Grid
	least  float64
	done   bool
	table  []float64 // of powers; nil: they are computed
	ends   []int     // places of the largest magnitudes
	buffer [chunk]float32
}

// endsKept is how many of the largest magnitudes are looked at before all values are rounded.
const endsKept = 8

// findEnds finds the largest magnitudes.
func (s *rangeSearch) findEnds() {
	size := func(i int) float32 { return max(s.part.Values[i], -s.part.Values[i]) }
	for i := range s.part.Values {
		if len(s.ends) == endsKept {
			if size(i) <= size(s.ends[endsKept-1]) {
				continue
			}
			s.ends = s.ends[:endsKept-1]
		}
		at, _ := slices.BinarySearchFunc(s.ends, size(i), func(j int, x float32) int { return cmp.Compare(x, size(j)) })
		s.ends = slices.Insert(s.ends, at, i)
	}
}

// hopeless reports whether what a grid cuts off the largest magnitudes alone is more than the least error: more by so much that the order
// of sums does not matter.
func (s *rangeSearch) hopeless(g qmath.Grid) bool {
	sum := 0.0
	for _, i := range s.ends {
		v := s.part.Values[i]
		q := g.Quantize(v)
		d := float64(v) - float64(g.Dequantize(q))
		if q > g.QMin && q < g.QMax || (d > 0) != (v > 0) {
			continue // not cut off
		}
		d = elementary.Pow(math.Abs(d), s.power)
		if s.part.Importance != nil {
			d *= s.part.Importance[i]
		}
		sum += d
	}
	return sum > s.least*1.001
}

// start checks the part and takes its range.
func (s *rangeSearch) start() error {
	if !(s.power > 0) || math.IsInf(s.power, 0) {
		return fmt.Errorf("round: the error to the power of %g", s.power)
	}
	if s.part.Importance != nil && len(s.part.Importance) != len(s.part.Values) {
		return fmt.Errorf("round: %d values, %d importances", len(s.part.Values), len(s.part.Importance))
	}
	counts := s.part.Importance == nil
	for i, v := range s.part.Values {
		if v-v != 0 {
			return fmt.Errorf("round: value %d is %g", i, v)
		}
		if s.part.Importance != nil {
			h := s.part.Importance[i]
			if !(h >= 0) || math.IsInf(h, 0) {
				return fmt.Errorf("round: importance %d is %g", i, h)
			}
			counts = counts || h > 0 && v != 0
		}
	}
	s.lo, s.hi = extent(s.part.Values)
	scale, zp, out, err := qmath.ScaleFromRange(s.lo, s.hi, s.scheme)
	if err != nil {
		return fmt.Errorf("round: %w", err)
	}
	s.wide = qmath.Grid{Scale: scale, ZeroPoint: zp, QMin: s.c.QMin, QMax: s.c.QMax, Rounding: s.c.Rounding}
	s.best, s.least = s.wide, math.Inf(1)
	s.least = s.error(s.wide)
	s.done = out != qmath.Ordinary || !counts || s.least == 0
	return nil
}

// extent is the range of values widened to contain 0.
func extent(values []float32) (lo, hi float64) {
	for _, v := range values {
		lo, hi = min(lo, float64(v)), max(hi, float64(v))
	}
	return lo, hi
}

// error sums the error of a grid; it stops, with what it has, where that is more than the least so far.
func (s *rangeSearch) error(g qmath.Grid) float64 {
	sum := 0.0
	h := s.part.Importance
	var unit, inverse float64
	if s.table != nil {
		unit, inverse = elementary.Pow(float64(g.Scale), s.power), 2*tableSteps/float64(g.Scale)
	}
	for at := 0; at < len(s.part.Values) && sum <= s.least; at += chunk {
		x := s.part.Values[at:min(at+chunk, len(s.part.Values))]
		q := s.buffer[:len(x)]
		g.FakeSlice(q, x)
		for i, v := range x {
			d := math.Abs(float64(v) - float64(q[i]))
			switch at := d * inverse; {
			case s.power == 2:
				d *= d
			case s.table != nil && at <= tableSteps:
				k := int(at)
				d = float64(unit * (s.table[k] + float64((at-float64(k))*(s.table[k+1]-s.table[k]))))
			default:
				d = elementary.Pow(d, s.power)
			}
			if h != nil {
				d = float64(d * h[at+i])
			}
			sum += d
		}
	}
	return sum
}

// try compares a grid with the best so far.
func (s *rangeSearch) try(g qmath.Grid) bool {
	if g.Scale < 0x1p-126 || g.Scale-g.Scale != 0 {
		return false
	}
	e := s.error(g)
	if !(e < s.least) {
		return false
	}
	s.best, s.least = g, e
	return true
}

// at is the wide grid with another scale and zero point.
func (s *rangeSearch) at(scale float64, zp int32) qmath.Grid {
	g := s.wide
	g.Scale, g.ZeroPoint = float32(scale), zp
	return g
}

// zeroPoints lists what zero points are tried with a scale: the one of a symmetric scheme, else between the one under which the lowest
// value is kept and the one under which the highest is.
func (s *rangeSearch) zeroPoints(scale float64) []int32 {
	if s.scheme.Symmetric {
		return []int32{s.wide.ZeroPoint}
	}
	clamp := func(z float64) int32 {
		return int32(min(max(s.scheme.Rounding.Round(z), float64(s.c.QMin)), float64(s.c.QMax)))
	}
	low, high := clamp(float64(s.c.QMin)-s.lo/scale), clamp(float64(s.c.QMax)-s.hi/scale)
	if low > high {
		low, high = high, low
	}
	n := min(int(high-low)+1, zeroPointsTried)
	list := make([]int32, n)
	for i := range list {
		list[i] = low + int32(i)*(high-low)/int32(max(n-1, 1))
	}
	return list
}

// octaves tries powers of two from the one of the whole range down, and one more above it, which an asymmetric range may need.
func (s *rangeSearch) octaves() {
	for k := range octavesBelow {
		scale := math.Ldexp(float64(s.wide.Scale), -k)
		for _, z := range s.zeroPoints(scale) {
			s.try(s.at(scale, z))
		}
	}
	s.moveZeroPoint()
}

// shrink tries even steps of the scale, and refines the best of them.
func (s *rangeSearch) shrink() {
	if g, ok := FullRange(s.c, s.part.Values); ok {
		s.try(g)
	}
	steps := min(max(rangeWork/len(s.part.Values), leastSteps), mostSteps)
	whole := float64(s.wide.Scale)
	spacing := whole * (1 - lowestShare) / float64(steps)
	s.findEnds()
	// The best steps, the best last: each was the best of all before it.
	top := []qmath.Grid{s.best}
	for i := 1; i <= steps; i++ {
		scale := whole - float64(float64(i)*spacing)
		if s.scheme.Symmetric && s.hopeless(s.at(scale, s.wide.ZeroPoint)) {
			break // smaller scales cut off more
		}
		for _, z := range s.zeroPoints(scale) {
			if s.try(s.at(scale, z)) {
				top = append(top, s.best)
			}
		}
	}
	for i := len(top) - 1; i >= max(len(top)-refined, 0); i-- {
		if s.power == 2 {
			s.leastSquares(top[i])
		} else {
			s.nearby(top[i], spacing)
		}
	}
	s.moveZeroPoint()
}

// nearby tries scales around one, by sixteenths of the spacing.
func (s *rangeSearch) nearby(g qmath.Grid, spacing float64) {
	for k := -15; k < 16; k++ {
		if scale := float64(g.Scale) + float64(float64(k)/16*spacing); k != 0 && scale > 0 {
			s.try(s.at(scale, g.ZeroPoint))
		}
	}
}

// leastSquares sets the scale to the best one for the codes, sum(h v c) / sum(h c^2) with c = code - zero point, and rounds anew, as long
// as that changes anything. In real numbers the error falls with every step.
func (s *rangeSearch) leastSquares(g qmath.Grid) {
	for range leastSquareRounds {
		var vc, cc float64
		for i, v := range s.part.Values {
			c, h := float64(g.Quantize(v)-g.ZeroPoint), 1.0
			if s.part.Importance != nil {
				h = s.part.Importance[i]
			}
			vc += float64(float64(h*float64(v)) * c)
			cc += float64(float64(h*c) * c)
		}
		next := g
		next.Scale = float32(vc / cc)
		if !(next.Scale >= 0x1p-126) || next.Scale == g.Scale {
			return
		}
		g = next
		s.try(g)
	}
}

// moveZeroPoint moves the zero point of the best grid by single steps as long as that helps.
func (s *rangeSearch) moveZeroPoint() {
	for better := !s.scheme.Symmetric; better; {
		better = false
		for _, d := range []int32{-1, 1} {
			g := s.best
			if g.ZeroPoint += d; g.ZeroPoint >= g.QMin && g.ZeroPoint <= g.QMax {
				better = s.try(g) || better
			}
		}
	}
}
