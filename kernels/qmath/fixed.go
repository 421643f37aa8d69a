package qmath

import "math"

// Fixed is a fixed point: a number x stands as the nearest integer to x/Step, ties to even, limited to -Limit..Limit. The zero value is no
// fixed point.
type Fixed struct {
	Step  float64
	Limit int32 // at most MaxFixed
}

// MaxFixed is the largest limit: two products of such integers add up to less than 2^31.
const MaxFixed = math.MaxInt16

// NotFinite is the code of NaN and of infinite numbers; no number has it.
const NotFinite = math.MinInt16

// FixedFor returns the fixed point whose step is the smallest power of two that takes numbers of magnitude up to largest within
// -within..within; within is at most limit. Beyond largest there is room up to limit. A largest of 0, or none that is finite,
// gives a step of 1.
func FixedFor(largest float32, within, limit int32) Fixed {
	f := Fixed{Step: 1, Limit: limit}
	if x := float64(largest); x > 0 && !math.IsInf(x, 0) {
		f.Step = ceilPowerOfTwo(x / float64(within))
	}
	return f
}

// magic, added to a float64 of magnitude below 2^51, leaves no bits behind the point.
const magic = 3 << 51

// magic32 is the same of a float32 below 2^22; the last bits of the sum are the integer.
const magic32 = 3 << 22

// within writes the integers of src to dst where none is beyond the limit; else it reports false and what it wrote is wrong. A product by a
// power of two is exact, but for one that is too small to be anything but 0.
func (f Fixed) within(dst []int16, src []float32) bool {
	m, _ := math.Frexp(f.Step)
	top := float32(float64(f.Limit) * f.Step)
	if m != 0.5 || f.Step < 0x1p-100 || f.Step > 0x1p100 {
		return false
	}
	by, largest := float32(1/f.Step), uint32(0)
	dst = dst[:len(src)]
	for i, v := range src {
		largest = max(largest, math.Float32bits(v)&^(1<<31))
		dst[i] = int16(math.Float32bits(float32(v*by) + magic32))
	}
	return largest <= math.Float32bits(top)
}

// Codes writes the integers of src to dst. It says how many numbers had to be limited, and whether all are finite.
func (f Fixed) Codes(dst []int16, src []float32) (limited uint64, finite bool) {
	if f.within(dst, src) {
		return 0, true
	}
	finite, limit, by := true, float64(f.Limit), f.Step
	multiply := false
	if m, _ := math.Frexp(f.Step); m == 0.5 && f.Step > 0x1p-1000 { // the same, sooner
		by, multiply = 1/f.Step, true
	}
	dst = dst[:len(src)]
	for i, v := range src {
		q := float64(v)
		if multiply {
			q = float64(q * by)
		} else {
			q /= by
		}
		q = float64(q+magic) - magic
		switch {
		case q >= -limit && q <= limit:
			dst[i] = int16(q)
		case v-v != 0:
			dst[i], finite = NotFinite, false
		case q < 0:
			dst[i] = int16(-f.Limit)
			limited++
		default:
			dst[i] = int16(f.Limit)
			limited++
		}
	}
	return limited, finite
}
