package verify

import "qwb/graph/tensor"

// exactly is the range in which every integer is a float32.
const exactly = 1 << 24

// digit is one part of integers that are cut into digits: value = sum of digit.values * 2^digit.shift.
type digit struct {
	shift  int
	values []float32
}

// cut splits integers into digits of so many bits: each within [-2^(bits-1), 2^(bits-1)), but that what is within 2^bits is not
// split further; a single bit has a sign. Digits that are all zero are left out.
func cut(codes []int32, bits int) []digit {
	most := int32(0)
	for _, q := range codes {
		most = max(most, q, -q)
	}
	if isDigit(most, bits) {
		d := digit{values: make([]float32, len(codes))}
		for i, q := range codes {
			d.values[i] = float32(q)
		}
		return []digit{d}
	}
	rest := append([]int32(nil), codes...)
	var list []digit
	for shift := 0; ; shift += bits {
		d := digit{shift: shift, values: make([]float32, len(rest))}
		some, more := false, false
		half := int32(1) << (bits - 1)
		for i, q := range rest {
			low := (q+half)&(1<<bits-1) - half
			switch {
			case bits == 1: // -1, 0 or 1: two values alone do not reach both signs
				low = q % 2
			case q >= -1<<bits && q <= 1<<bits: // nothing is gained by another digit
				low = q
			}
			d.values[i], rest[i] = float32(low), (q-low)>>bits
			some, more = some || low != 0, more || rest[i] != 0
		}
		if some || !more && len(list) == 0 {
			list = append(list, d)
		}
		if !more {
			return list
		}
	}
}

// cutCodes cuts the codes of a tensor less a zero point.
func cutCodes(t *tensor.Tensor, zero int32, bits int) []digit {
	d := digit{values: make([]float32, t.Len())}
	most := int32(0)
	eachBlock(t, func(from int, codes []int32) {
		for k, q := range codes {
			q -= zero
			most = max(most, q, -q)
			d.values[from+k] = float32(q)
		}
	})
	if isDigit(most, bits) {
		return []digit{d}
	}
	rest := make([]int32, t.Len())
	t.IntegersAt(0, rest)
	for i := range rest {
		rest[i] -= zero
	}
	return cut(rest, bits)
}

// isDigit reports whether integers of at most the magnitude most are one digit of so many bits.
func isDigit(most int32, bits int) bool { return most <= 1<<bits && (bits > 1 || most <= 1) }

// eachBlock calls f with the codes of a tensor, some of them at a time.
func eachBlock(t *tensor.Tensor, f func(from int, codes []int32)) {
	var block [64]int32
	for from, n := 0, t.Len(); from < n; from += len(block) {
		codes := block[:min(len(block), n-from)]
		t.IntegersAt(from, codes)
		f(from, codes)
	}
}

// largest returns the largest magnitude of a digit.
func (d *digit) largest() float64 {
	most := float32(0)
	for _, v := range d.values {
		most = max(most, v, -v)
	}
	return float64(most)
}

// widths are the digits that are tried, widest first; 17 bits hold any code.
var widths = []int{17, 8, 4, 2, 1}

// factors cuts the right factor of a sum of products, and says how wide the digits of the left one may be, so that no sum leaves 24 bits.
// most gives the largest magnitude of a digit of the left factor by its width, sum the largest sum of magnitudes of one digit of the right
// one. ok is false where even single bits are too many.
func factors(most func(wide int) float64, right []int32, sum func(d *digit) float64) (wide int, b []digit, ok bool) {
	for _, wide = range widths[:2] {
		for _, bits := range widths {
			if wide == widths[0] && bits == 1 && most(wide) > 1<<9 {
				continue // the left one first
			}
			b = cut(right, bits)
			fits := true
			for i := range b {
				fits = fits && sum(&b[i])*most(wide) < exactly
			}
			if fits {
				return wide, b, true
			}
		}
	}
	return wide, b, false
}

// mostOf returns the largest magnitude of a digit of integers up to the magnitude reach.
func mostOf(reach int32) func(wide int) float64 {
	return func(wide int) float64 { return float64(min(reach, 1<<wide)) }
}
