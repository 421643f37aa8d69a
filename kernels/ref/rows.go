package ref

import (
	"math"

	"qwb/kernels/elementary"
)

// Lanes is how many partial sums the sum of a row has.
const Lanes = 16

// Sum is the sum of x in float64: element i is added to lane i%Lanes, then FoldLanes.
func Sum(x []float32) float64 {
	var sums [Lanes]float64
	for i, v := range x {
		sums[i%Lanes] += float64(v)
	}
	return FoldLanes(&sums)
}

// SumSquares is the sum of (x[i]-mean)^2, each operation rounded to float64, in the order of Sum.
func SumSquares(x []float32, mean float64) float64 {
	var sums [Lanes]float64
	for i, v := range x {
		d := float64(v) - mean
		sums[i%Lanes] += float64(d * d)
	}
	return FoldLanes(&sums)
}

// FoldLanes adds the upper half of the lanes to the lower half until one is left, which it returns.
func FoldLanes(sums *[Lanes]float64) float64 {
	for n := Lanes / 2; n > 0; n /= 2 {
		for i := range n {
			sums[i] += sums[i+n]
		}
	}
	return sums[0]
}

// Softmax is dst[i] = e[i] / sum(e), e[i] = exp(src[i]-max). In Float64 all of it is float64, rounded once. Otherwise the
// difference and e are float32, e by Exp for FMA32 and rounded from float64 for Float32, and the sum is rounded to float32
// after Sum; the result is then within (|src[i]-max|/2 + 3) * 2^-23 of the exact one, relative. A row that contains NaN or
// +Inf, or nothing but -Inf, gives NaN.
//
// elementary.Exp is the platform's in builds with assembly: it may differ in its last bits between processor families.
func Softmax(ar Arith, dst, src []float32) {
	peak := largest(src)
	if ar == Float64 {
		var sums [Lanes]float64
		for i, x := range src {
			sums[i%Lanes] += elementary.Exp(float64(x) - float64(peak))
		}
		sum := FoldLanes(&sums)
		for i, x := range src {
			dst[i] = float32(elementary.Exp(float64(x)-float64(peak)) / sum)
		}
		return
	}
	for i, x := range src {
		dst[i] = ar.exp(x - peak)
	}
	sum := float32(Sum(dst))
	for i := range dst {
		dst[i] /= sum
	}
}

// LogSoftmax is dst[i] = src[i] - (max + log(sum)) in float64, rounded once, the sum as in Softmax.
func LogSoftmax(ar Arith, dst, src []float32) {
	peak := largest(src)
	var sums [Lanes]float64
	for i, x := range src {
		if ar == Float64 {
			sums[i%Lanes] += elementary.Exp(float64(x) - float64(peak))
		} else {
			sums[i%Lanes] += float64(ar.exp(x - peak))
		}
	}
	shift := float64(peak) + math.Log(FoldLanes(&sums))
	for i, x := range src {
		dst[i] = float32(float64(x) - shift)
	}
}

func largest(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = Larger(top, v)
	}
	return top
}

// exp is Exp for FMA32, else the exponential function in float64, rounded.
func (ar Arith) exp(x float32) float32 {
	if ar == FMA32 {
		return Exp(x)
	}
	return float32(elementary.Exp(float64(x)))
}

// LayerNorm is Normalize with the mean of src and 1 / sqrt(var+eps); mean and variance are Sum and SumSquares divided by the
// number of elements. scale and bias may be nil.
func LayerNorm(dst, src, scale, bias []float32, eps float64) {
	n := float64(len(src))
	mean := Sum(src) / n
	Normalize(dst, src, scale, bias, mean, 1/math.Sqrt(SumSquares(src, mean)/n+eps))
}

// RMSNorm is Normalize with mean 0 and 1 / sqrt(m+eps), m the mean of the squares. scale may be nil.
func RMSNorm(dst, src, scale []float32, eps float64) {
	Normalize(dst, src, scale, nil, 0, 1/math.Sqrt(SumSquares(src, 0)/float64(len(src))+eps))
}

// Normalize is dst[i] = (src[i]-mean) * inv * scale[i] + bias[i], each operation rounded to float64, the result to float32.
// scale and bias may be nil.
func Normalize(dst, src, scale, bias []float32, mean, inv float64) {
	for i, x := range src {
		y := float64((float64(x) - mean) * inv)
		if scale != nil {
			y = float64(y * float64(scale[i]))
		}
		if bias != nil {
			y += float64(bias[i])
		}
		dst[i] = float32(y)
	}
}
