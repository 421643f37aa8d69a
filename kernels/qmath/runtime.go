package qmath

import "math"

// RunTimeScale returns scale and zero point of numbers from lo to hi as an engine finds them at run time, in float32 throughout: ONNX
// DynamicQuantizeLinear for any integers, with
//
//	scale = (hi - lo) / (QMax - QMin)    zero point = half-even(clamp(QMin - lo/scale))    after widening the range to contain 0
//
// and for symmetric schemes scale = max(|lo|, |hi|) / QMax. A power of two is rounded up. Numbers that are all 0 have scale 1. A
// scale below the smallest normal float32 is raised to it; infinite numbers count as the largest float32. lo and hi are not NaN.
func RunTimeScale(lo, hi float32, s Scheme) (scale float32, zeroPoint int32) {
	if s.Symmetric || s.PowerOfTwo {
		scale, zeroPoint, _, err := ScaleFromRange(float64(lo), float64(hi), s) // one division, exact but for its last rounding
		if err != nil {
			return 1, 0
		}
		return scale, zeroPoint
	}
	lo, hi = max(min(lo, 0), -math.MaxFloat32), min(max(hi, 0), math.MaxFloat32)
	width := min(hi-lo, math.MaxFloat32)
	if scale = width / float32(int64(s.QMax)-int64(s.QMin)); width == 0 {
		scale = 1
	}
	scale = max(scale, smallestNormal)
	at := min(max(float32(s.QMin)-lo/scale, float32(s.QMin)), float32(s.QMax))
	return scale, int32(math.RoundToEven(float64(at)))
}

// The scales of blocks of OCP Microscaling Formats 1.0 and NVFP4. A block of zeros has scale 1.

// MXScale is the scale of a block of a format whose largest magnitude is most, a power of two from 2^-127 to 2^127:
//
//	2^(floor(log2(most)) - e), with 2^e the largest power of two in the format (OCP 6.3; what lies beyond the format's largest number
//	saturates)
//	2^ceil(log2(most / QMax)) with ceil: nothing saturates
//
// most is finite, not negative, and not NaN.
func MXScale(most float32, f Format, ceil bool) float32 {
	if most == 0 {
		return 1
	}
	if ceil {
		return DecodeE8M0(EncodeE8M0(float64(most)/float64(f.QMax), Up, true))
	}
	_, e := math.Frexp(float64(f.QMax))
	return DecodeE8M0(EncodeE8M0(math.Ldexp(float64(most), 1-e), Down, true))
}

// NVLargest is what the largest magnitude of a tensor is divided by for the float32 of NVFP4: 6 of E2M1 times 448 of E4M3.
const NVLargest = 6 * 448

// NVGlobal is the float32 of a tensor whose largest magnitude is most: most / 2688, 1 for zeros.
func NVGlobal(most float32) float32 {
	if most == 0 {
		return 1
	}
	return max(most/NVLargest, smallestNormal)
}

// NVScale is the scale of a block whose largest magnitude is most: the E4M3 number nearest to most / (6*global), held to what E4M3 has
// from 2^-9 to 448, times global. code is that number's code.
func NVScale(most, global float32) (scale float32, code uint8) {
	v := float32(1)
	if most != 0 {
		v = min(max(most/float32(6*global), 0x1p-9), 448)
	}
	code = uint8(E4M3FN.Encode(float64(v), true))
	return float32(E4M3FN.Decode(uint16(code)) * global), code
}
