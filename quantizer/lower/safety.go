package lower

import (
	"math"

	"qwb/graph/tensor"
)

// Safety is what can be said about the sums of a step before any data is seen: whether they stay in their types whatever the
// codes are.
type Safety struct {
	Step StepID
	// Min and Max bound, by channel, the accumulator, bias included, and every partial sum of it. One entry serves all channels of
	// a product of two tensors.
	Min, Max []int64
	// Fits says that all of them are within int32.
	Fits bool
	// Pairs counts the pairs of neighbouring products of one channel that VPMADDUBSW adds in int16, and AtRisk, by channel, those
	// whose sum leaves int16 for some codes. Both are 0 where the weights are not constant or not int8.
	Pairs  int
	AtRisk []int
}

// Saturates returns how many pairs of all channels may saturate.
func (s *Safety) Saturates() int {
	n := 0
	for _, r := range s.AtRisk {
		n += r
	}
	return n
}

// prove computes the safety of the step just written. Factors that its sums cannot be scaled by are an error.
func (l *linear) prove(at StepID) error {
	s := Safety{Step: at, Fits: true}
	lo, hi := int64(l.x.QMin)-int64(l.x.ZeroPoint), int64(l.x.QMax)-int64(l.x.ZeroPoint)
	if w := l.op.Weights; w != nil {
		s.Min, s.Max = make([]int64, w.Channels), make([]int64, w.Channels)
		for c := range s.Min {
			above := w.above[c] // sums of the factors of either sign
			below := w.Sum[c] - int64(w.Terms)*int64(w.ZeroPoint[c]) - above
			s.Min[c] = above*lo + below*hi
			s.Max[c] = above*hi + below*lo
			if l.op.Bias != nil {
				s.Min[c] += min(l.op.Bias[c], 0)
				s.Max[c] += max(l.op.Bias[c], 0)
			}
		}
		w.above = nil // of all weights together it would be large
		if w.Codes.DType == tensor.Int8 && (l.x.DType() == tensor.Uint8 || l.x.DType() == tensor.Int8) {
			s.Pairs, s.AtRisk = l.pairs()
		}
	} else {
		s.Min, s.Max = l.dynamicBound(lo, hi)
	}
	bits, narrow := l.profile.Accumulator, false
	if bits == 0 || bits > 32 && !l.op.Wide {
		bits = 32
	}
	for c := range s.Min {
		s.Fits = s.Fits && s.Min[c] >= math.MinInt32 && s.Max[c] <= math.MaxInt32
		narrow = narrow || s.Min[c] < -1<<(bits-1) || s.Max[c] >= 1<<(bits-1)
	}
	if narrow && (!l.op.Wide || l.profile.Accumulator != 0) {
		l.warn(l.u.head(), "for some inputs the accumulators overflow %d bits", bits)
	}
	l.program.Safety = append(l.program.Safety, s)
	return l.wideFactors()
}

// mostWideShift is the largest exponent of a factor that scales sums of 64 bits: TFLite takes no larger one.
const mostWideShift = 7

// wideFactors refuses factors that no form for sums of 64 bits is defined for.
func (l *linear) wideFactors() error {
	if !l.op.Wide || l.profile.Float() {
		return nil
	}
	for _, q := range l.op.Scales {
		for c, m := range q.Multipliers {
			if m.Shift > mostWideShift {
				return l.refuse(l.u, "output channel %d: sums of 64 bits are scaled by less than 2^%d, not by %g", c, mostWideShift,
					math.Ldexp(float64(m.M), int(m.Shift)-31))
			}
		}
	}
	return nil
}

// dynamicBound bounds the sums of two tensors by the number of terms; a number that is not known gives an infinite bound.
func (l *linear) dynamicBound(lo, hi int64) (least, most []int64) {
	wlo, whi := int64(l.w.QMin)-int64(l.w.ZeroPoint), int64(l.w.QMax)-int64(l.w.ZeroPoint)
	shape := l.g.Value(l.n.Inputs[0]).Shape
	axis := len(shape) - 1
	if l.n.Gemm().TransA {
		axis = 0
	}
	if axis < 0 || !shape[axis].Known() {
		return []int64{math.MinInt64}, []int64{math.MaxInt64}
	}
	k := shape[axis].N
	return []int64{k * min(lo*whi, hi*wlo, lo*wlo, hi*whi, 0)}, []int64{k * max(lo*wlo, hi*whi, lo*whi, hi*wlo, 0)}
}

// pairs counts the pairs that may saturate: none of operators without pairs, as the products of a depthwise convolution stand in different
// channels, and those of a transposed one are not computed from bytes beside each other. The kernels read codes from 0 on: those of int8
// are moved up by 128.
func (l *linear) pairs() (pairs int, atRisk []int) {
	w := l.op.Weights
	least, most := int32(l.x.QMin), int32(l.x.QMax)
	if l.x.DType() == tensor.Int8 {
		least, most = least+128, most+128
	}
	atRisk = make([]int, w.Channels)
	if l.op.Depthwise(l.n) || l.n.Conv().Transposed {
		return 0, atRisk
	}
	var low, high [256]int32 // products of a code, by its byte
	for q := int32(-128); q < 128; q++ {
		low[uint8(q)], high[uint8(q)] = min(q*least, q*most), max(q*least, q*most)
	}
	at, codes := l.taps(), tensor.Of[int8](w.Codes)
	_, _, inner := w.Codes.Blocks(w.Axis)
	for c := range atRisk {
		own := codes[c*inner:]
		for p := 0; p+1 < len(at); p += 2 {
			a, b := uint8(own[at[p]]), uint8(own[at[p+1]])
			if low[a]+low[b] < math.MinInt16 || high[a]+high[b] > math.MaxInt16 {
				atRisk[c]++
			}
		}
	}
	return len(at) / 2, atRisk
}

// taps returns where the codes of a channel stand, from its first one on, in the order in which the channels-last kernels add: tap by tap,
// channel after channel.
func (l *linear) taps() []int {
	w := l.op.Weights
	outer, n, inner := w.Codes.Blocks(w.Axis)
	at, depth := make([]int, outer*inner), 1
	if l.n.Op == "Conv" { // from C/group x taps to taps x C/group
		depth = max(w.Codes.Shape[1], 1)
	}
	taps := len(at) / depth
	for p := range at {
		i := p%depth*taps + p/depth
		at[p] = i/max(inner, 1)*n*inner + i%max(inner, 1)
	}
	return at
}
