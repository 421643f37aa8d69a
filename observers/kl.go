package observers

import (
	"fmt"
	"math"

	"qwb/quantizer/tqc"
)

// KL searches the threshold at which the distribution of the values and that of their quantized form differ least in the
// Kullback-Leibler divergence (Migacz, "8-bit Inference with TensorRT", GTC 2017).
//
// All 2,048 evenly spaced thresholds T on |x| up to the largest are tried, the range being [-T, T] cut to minimum and
// maximum. For each, qmath makes scale and zero point (T/127 for symmetric int8, not T/128), and the values other than zero,
// which every grid represents, are counted in bins of a quarter of a step. The reference P is the bins inside, what lies
// outside added to the outermost ones. The candidate Q gives each bin to the code it rounds to and spreads what a code
// received over those of its bins that are not empty in P. Both are smoothed as in MXNet, TVM and ONNX Runtime: an empty
// bin gets 0.0001 of a count; here the others give it in proportion to what they hold, so that none turns negative.
//
// Migacz counts once, in bins as wide for every threshold. The number of bins a threshold is judged by then grows with it,
// which favours small ones, and with an outlier far away nothing is left to compare: all values share a few bins.
// Quarter steps treat all thresholds alike, and the fixed grid is fine enough for the smallest. Two things follow. Few
// values scatter over many bins and look unlike anything smooth: (bins - codes) / 2n, both counted where they are not empty,
// is what that adds on average (the bias of the plug-in estimate, Miller 1955), and it is taken off. And a threshold at
// which one bin holds more than half of the values is passed over, because quarter steps do not show what rounding does to
// them; if all are, the range is that of minmax.
var KL = &Method{
	Name: tqc.ObserverKL,
	Doc:  "the threshold with the least Kullback-Leibler divergence",
	Range: func(st *State, cfg tqc.Config, _ float64) (Range, []tqc.Warning, error) {
		warnings, err := perTensor(st, cfg)
		if err != nil {
			return Range{}, nil, err
		}
		if !cfg.Integer() {
			return Range{}, nil, ErrIntegers
		}
		if codes := int64(cfg.QMax) - int64(cfg.QMin) + 1; codes > klCodes {
			return Range{}, nil, fmt.Errorf("kl compares distributions of at most %d codes, not %d: use minmax, percentile or mse", klCodes, codes)
		}
		lo, hi := float64(st.extent.Min), float64(st.extent.Max)
		scheme := cfg.Scheme()
		s := newKLSearch(st, scheme.Symmetric)
		defer s.free()
		best, least := Range{lo, hi}, math.Inf(1)
		var last quantizer
		for i := klThresholds; i > 0; i-- {
			t := float64(max(-lo, hi)*float64(i)) / klThresholds
			r := Range{max(lo, -t), min(hi, t)}
			q, err := quantizerOf(Range{min(r.Lo, r.Hi), max(r.Lo, r.Hi)}, scheme)
			if err != nil {
				return Range{}, nil, err
			}
			if q == last {
				continue
			}
			last = q
			if s.atLeast(q) > least {
				continue
			}
			if d, ok := s.divergence(q); ok && d < least {
				best, least = r, d
			}
		}
		return best, warnings, nil
	},
}

const (
	klThresholds = 2048
	klCodes      = 1024
	klPerCode    = 4
	klSmoothing  = 1e-4
	klRounding   = 1e-6 // more than what rounding does to a divergence
	klEmpty      = 1e-9 // less than this part of a count is rounding error of the running sums
)

// klSearch counts the values at quarter steps of a quantizer.
type klSearch struct {
	sides [2]*moments // positive (symmetric: |x|), negative
	fold  bool        // symmetric: the codes of both signs are compared as one
	bins  [2][]klBin
	zero  []klBin // of the code of zero, both sides
}

// klBin is a bin that is not empty: the code it rounds to, the count, and what lies outside of the range, in the outermost.
type klBin struct {
	code       int
	n, outside float64
}

func newKLSearch(st *State, symmetric bool) *klSearch {
	lo, hi := max(-float64(st.extent.Min), 0), max(float64(st.extent.Max), 0)
	if !symmetric {
		return &klSearch{sides: [2]*moments{newMoments(st.hist, 0, hi), newMoments(st.hist, 1, lo)}}
	}
	return &klSearch{fold: true, sides: [2]*moments{newMoments(st.hist.absolute(), 0, max(lo, hi)), newMoments(newHistogram(), 1, 0)}}
}

func (s *klSearch) free() {
	for _, m := range s.sides {
		m.free()
	}
}

// levels is how many levels of a quantizer lie on each side.
func (s *klSearch) levels(q quantizer) [2]int {
	if s.fold {
		return [2]int{q.pos, 0}
	}
	return [2]int{q.pos, q.neg}
}

// atLeast is a figure that the divergence under a quantizer is not below: that of P and Q with the bins of the outermost codes taken
// together, and so all others (merging bins never adds to a divergence, Kullback and Leibler 1951), less the most that few values
// can add. What lies outside makes it large, so that a threshold far too small needs no counting.
func (s *klSearch) atLeast(q quantizer) float64 {
	var total, inside, outerP, outerQ float64
	bins := 0
	for side, n := range s.levels(q) {
		m := s.sides[side]
		all := m.all().n
		in := m.countBelow(float64(float64(klPerCode*n) * q.scale / klPerCode))
		inner := m.countBelow(float64(float64(klPerCode*n-klPerCode/2) * q.scale / klPerCode))
		total, inside = total+all, inside+in
		outerP, outerQ = outerP+all-inner, outerQ+in-inner
		bins += klPerCode * n
	}
	// Smoothing takes from P's outer bins what their share of all empty bins is at most, and fills Q's, of which there are four.
	p := outerP / total * (1 - klSmoothing*float64(bins)/total)
	o := (outerQ + klPerCode*klSmoothing) / inside
	if !(p > o && p < 1) {
		return math.Inf(-1)
	}
	d := float64(p*math.Log(p/o)) + float64((1-p)*math.Log((1-p)/(1-o)))
	return d - float64(bins)*(klPerCode-1)/(2*klPerCode)/total - klRounding
}

// divergence compares P and Q under a quantizer; false if that cannot be judged.
func (s *klSearch) divergence(q quantizer) (float64, bool) {
	var k klSum
	var rest [2][]klBin
	s.zero = s.zero[:0]
	for side, n := range s.levels(q) {
		if outside := s.count(side, n, q.scale); n == 0 && outside > 0 {
			return 0, false // a whole side would be lost
		}
		k.bins += klPerCode * n
		zero := run(s.bins[side], 0)
		s.zero, rest[side] = append(s.zero, zero...), s.bins[side][len(zero):]
	}
	k.code(s.zero)
	for _, bins := range rest {
		for len(bins) > 0 {
			one := run(bins, bins[0].code)
			k.code(one)
			bins = bins[len(one):]
		}
	}
	return k.result()
}

// run is the bins at the front that round to a code.
func run(bins []klBin, code int) []klBin {
	n := 0
	for n < len(bins) && bins[n].code == code {
		n++
	}
	return bins[:n]
}

// count makes the bins of one side inside n levels and returns how many values lie beyond. The code of zero has half a code's bins on each
// side; the outermost code ends with the range.
func (s *klSearch) count(side, n int, scale float64) (outside float64) {
	m, bins, last := s.sides[side], s.bins[side][:0], 0.0
	width, end, reached := scale/klPerCode, klPerCode*n, 0
	for i := 1; i <= end; i++ {
		edge := float64(float64(i)*scale) / klPerCode
		b := m.find(edge)
		at := b.below.n
		if b.density > 0 {
			at += float64(b.density * (edge - floorOf(edge)))
		}
		if at-last >= klEmpty {
			bins = append(bins, klBin{code: (i + klPerCode/2 - 1) / klPerCode, n: at - last})
			last, reached = at, i
		}
		if next := -b.density; next > edge+width { // bins that end before the next value have none
			i = max(i, int(min(next/width-1, float64(end))))
		}
	}
	if outside = m.all().n - last; outside < klEmpty {
		outside = 0
	} else if n > 0 {
		if reached < end {
			bins = append(bins, klBin{code: n})
		}
		bins[len(bins)-1].outside = outside
	}
	s.bins[side] = bins
	return outside
}

// klSum adds up the sum of p*log(p/q) over smoothed and normalized P and Q.
type klSum struct {
	bins             int
	filledP, filledQ int
	codes            int     // codes that are not empty in P
	largest          float64 // of the bins
	total, inside    float64 // mass of P and of Q
	plogp            float64 // sum of p*log(p)
	cross, unmatched float64 // sum of p*log(q) where q > 0; sum of p where q = 0
}

// code adds the bins of one code.
func (k *klSum) code(bins []klBin) {
	var p, q float64
	for _, b := range bins {
		q += b.n
		c := b.n + b.outside
		p += c
		k.largest = max(k.largest, c)
		if c != 1 { // whose logarithm is 0
			k.plogp += float64(c * math.Log(c))
		}
	}
	filled := len(bins)
	k.total += p
	k.inside += q
	k.filledP += filled
	if filled > 0 {
		k.codes++
	}
	if q > 0 {
		if each := q / float64(filled); each != 1 {
			k.cross += float64(p * math.Log(each))
		}
		k.filledQ += filled
	} else {
		k.unmatched += p
	}
}

// result is the divergence; false if there is nothing to compare or the bins are too coarse.
func (k *klSum) result() (float64, bool) {
	emptyP, emptyQ := float64(k.bins-k.filledP), float64(k.bins-k.filledQ)
	keepP := 1 - float64(klSmoothing*emptyP)/k.total // what smoothing leaves of a bin that is not empty
	keepQ := 1 - float64(klSmoothing*emptyQ)/k.inside
	if !(keepP > 0 && keepQ > 0) || 2*k.largest > k.total {
		return 0, false
	}
	logTotal, logInside, logEps := math.Log(k.total), math.Log(k.inside), math.Log(klSmoothing)
	d := k.plogp + float64(k.total*(math.Log(keepP)-logTotal)) - k.cross -
		float64((k.total-k.unmatched)*(math.Log(keepQ)-logInside)) - float64(k.unmatched*(logEps-logInside))
	d = float64(keepP*d) + float64(float64(klSmoothing*emptyP)*(logInside-logTotal))
	noise := float64(k.filledP-k.codes) / 2
	return (d - noise) / k.total, true
}
