package observers

import (
	"math"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// MSE searches the range with the least expected squared quantization error, rounding and clipping together, for the numbers
// that the format and the scale of the range come to: real scale and zero point, as many levels on each side of zero as the policy has,
// those of floats and code books where they lie. NV blocks at run time have scales of their own: nothing is cut off of the tensor.
//
// The error is summed over the histogram, values spread evenly inside a bin (a bin is 2^-10 of its magnitude wide, less than
// a tenth of a step at eight bits). Candidates are 4,096 evenly spaced thresholds T on |x| up to the largest, the range
// being cut to minimum and maximum; with values on both sides of zero an asymmetric policy also tries both ends shrunk in
// proportion, and then moves one end at a time. The best is refined by a sixteenth of the spacing.
var MSE = &Method{
	Name: tqc.ObserverMSE,
	Doc:  "the range with the least squared error on the histogram",
	Range: func(st *State, cfg tqc.Config, _ float64) (Range, []tqc.Warning, error) {
		return leastSquares(st, cfg, func(_, _ *moments) float64 { return math.Inf(1) })
	},
}

// leastSquares searches the range with the least squared error, where limit says, of the values of both signs, what the error of a value
// that is clipped counts for at most.
func leastSquares(st *State, cfg tqc.Config, limit func(pos, neg *moments) float64) (Range, []tqc.Warning, error) {
	warnings, err := perTensor(st, cfg)
	if err != nil {
		return Range{}, nil, err
	}
	lo, hi := min(float64(st.extent.Min), 0), max(float64(st.extent.Max), 0)
	if lo == hi || int64(cfg.QMax)-int64(cfg.QMin) >= 1<<24 || cfg.Blocks == tqc.NV {
		return Range{lo, hi}, warnings, nil // only zeros, or a grid as fine as float32: clipping gains nothing
	}
	s := &mseSearch{cfg: cfg, scheme: cfg.Scheme(), numbers: numbersOf(cfg.Format), pos: newMoments(st.hist, 0, hi),
		neg:  newMoments(st.hist, 1, -lo),
		best: Range{lo, hi}, least: math.Inf(1), ahead: math.Inf(1)}
	defer s.pos.free()
	defer s.neg.free()
	s.limit = limit(s.pos, s.neg)
	s.run(lo, hi)
	return s.best, warnings, s.err
}

// mseThresholds is how many evenly spaced thresholds are tried.
const mseThresholds = 4096

type mseSearch struct {
	cfg      tqc.Config
	scheme   qmath.Scheme
	numbers  *numbers // nil for integers
	pos, neg *moments
	limit    float64 // of what a value that is clipped counts for
	best     Range
	least    float64
	ahead    float64 // the error of a range that is still to be tried: what has more is not the best either; +Inf where none was looked at
	last     quantizer
	err      error
}

func (s *mseSearch) run(lo, hi float64) {
	largest := max(-lo, hi)
	cut := func(t float64) Range { return Range{max(lo, -t), min(hi, t)} }
	s.scan(cut, largest)
	if s.scheme.Symmetric || lo == 0 || hi == 0 {
		return
	}
	s.scan(func(t float64) Range { return Range{float64(lo * t), float64(hi * t)} }, 1)
	for range 2 {
		from := s.best
		s.scan(func(t float64) Range { return Range{from.Lo, t} }, hi)
		from = s.best
		s.scan(func(t float64) Range { return Range{-t, from.Hi} }, -lo)
	}
}

// scan tries the ranges of mseThresholds thresholds up to largest, from the largest down, and then around the best. Errors fall on the way
// to the best, so that each is smaller than all before it: a look ahead at a few thresholds says where summing up one may stop.
func (s *mseSearch) scan(at func(t float64) Range, largest float64) {
	step := largest / mseThresholds
	best := 0
	const apart = 64
	for i := mseThresholds; i > 0; i -= apart {
		if q, err := s.quantizer(at(float64(float64(i) * step))); err == nil {
			s.ahead = min(s.ahead, s.error(q))
		}
	}
	for i := mseThresholds; i > 0; i-- {
		better, hopeless := s.try(at(float64(float64(i) * step)))
		if better {
			best = i
		}
		if hopeless {
			break
		}
	}
	s.ahead = math.Inf(1)
	if best == 0 {
		return
	}
	for k := -15; k < 16; k++ {
		if t := float64((float64(best) + float64(k)/16) * step); t < largest {
			s.try(at(t))
		}
	}
}

// try compares a range with the best so far. It reports whether it is better, and whether clipping alone is worse, which
// narrower ranges of the same family can only increase.
func (s *mseSearch) try(r Range) (better, hopeless bool) {
	q, err := s.quantizer(r)
	if err != nil {
		s.err = err
		return false, true
	}
	if q == s.last {
		return false, false
	}
	s.last = q
	pos, neg := float64(q.pos), float64(q.neg)
	if s.numbers != nil {
		pos, neg = s.numbers.pos[len(s.numbers.pos)-1], s.numbers.neg[len(s.numbers.neg)-1]
	}
	clip := s.pos.clipError(float64(pos*q.scale), s.limit) + s.neg.clipError(float64(neg*q.scale), s.limit)
	if clip > s.least {
		return false, !s.scheme.PowerOfTwo && clip > 2*s.least
	}
	if e := s.error(q); e < s.least && e <= s.ahead {
		s.least, s.best = e, r
		return true, false
	}
	return false, false
}

// quantizer is what a range comes to.
func (s *mseSearch) quantizer(r Range) (quantizer, error) {
	q, err := quantizerOf(r, s.scheme)
	if err == nil && s.cfg.Blocks != tqc.FreeScales {
		var scale float32
		scale, _, _, err = s.cfg.ScaleFor(r.Lo, r.Hi, 0)
		q.scale = float64(scale)
	}
	return q, err
}

// error is that of a quantizer. Sums only grow: one that is larger than what is known already is not finished, which leaves it larger.
func (s *mseSearch) error(q quantizer) float64 {
	most := min(s.least, s.ahead)
	if s.numbers != nil {
		pos := s.pos.errorTo(s.numbers.pos, q.scale, s.limit, 0, most)
		return pos + s.neg.errorTo(s.numbers.neg, q.scale, s.limit, pos, most)
	}
	pos := s.pos.error(q.scale, q.pos, s.limit, 0, most)
	return pos + s.neg.error(q.scale, q.neg, s.limit, pos, most)
}
