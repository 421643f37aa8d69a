package observers

import (
	"math"

	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Distortion is what quantizing a tensor does to its values, from its counts, those inside a bin spread evenly: sums of squares.
type Distortion struct {
	Clip   float64 // of what lies outside of the numbers that there are
	Round  float64 // of what lies between them
	Signal float64 // of the values themselves
	// Levels is how many numbers there are, and Used how many of them some value becomes.
	Levels, Used int
}

// Distortion returns what one scale and zero point under a policy do to the values that were observed.
func (st *State) Distortion(c tqc.Config, scale float32, zeroPoint int32) (d Distortion, err error) {
	if !st.HasBins() {
		return d, ErrNoBins
	}
	if _, err := ready(st); err != nil {
		return d, err
	}
	pos, neg := newMoments(st.hist, 0, max(float64(st.extent.Max), 0)), newMoments(st.hist, 1, max(-float64(st.extent.Min), 0))
	defer pos.free()
	defer neg.free()
	d.Signal = pos.all().xx + neg.all().xx
	codec := qmath.Codec{Format: c.Format, Scale: scale, ZeroPoint: zeroPoint, Rounding: c.Rounding}
	s := float64(scale)
	if n := numbersOf(c.Format); n != nil {
		d.sign(pos, n.pos[len(n.pos)-1]*s, pos.errorTo(n.pos, s, math.Inf(1), 0, math.Inf(1)))
		d.sign(neg, n.neg[len(n.neg)-1]*s, neg.errorTo(n.neg, s, math.Inf(1), 0, math.Inf(1)))
		d.Levels = len(n.pos) + len(n.neg) - 1
	} else {
		up, down := int(c.QMax)-int(zeroPoint), int(zeroPoint)-int(c.QMin)
		d.sign(pos, float64(up)*s, pos.error(s, up, math.Inf(1), 0, math.Inf(1)))
		d.sign(neg, float64(down)*s, neg.error(s, down, math.Inf(1), 0, math.Inf(1)))
		d.Levels = up + down + 1
	}
	d.Used = st.used(codec)
	return d, nil
}

// sign adds one sign, of which so much is lost in all.
func (d *Distortion) sign(m *moments, top, lost float64) {
	clip := 0.0
	if len(m.bins) > 1 && m.limit > 0 {
		clip = m.clipError(top, math.Inf(1))
	}
	d.Clip += clip
	d.Round += max(lost-clip, 0)
}

// used counts the codes that values become; the codes that a bin reaches follow each other where they are integers, and a bin is narrower
// than the distance of other numbers.
func (st *State) used(codec qmath.Codec) int {
	seen := map[int32]bool{}
	for b := range st.Bins() {
		lo, hi := codec.Quantize(float32(b.Lo)), codec.Quantize(float32(b.Hi))
		if seen[lo], seen[hi] = true, true; codec.Integer() {
			for k := lo; k < hi; k++ {
				seen[k] = true
			}
		}
	}
	return len(seen)
}

// Linear counts the values in n bins of equal width from lo to hi, those inside a bin of the state spread evenly.
func (st *State) Linear(n int, lo, hi float64) []float64 { return st.linear(n, lo, hi) }
