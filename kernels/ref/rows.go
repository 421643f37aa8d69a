package ref

import "math"

// Softmax is dst[i] = exp(src[i]-max) / sum(exp(src[j]-max)) in float64, the sum in memory order, rounded once. A row that
// contains NaN or +Inf, or nothing but -Inf, gives NaN. math.Exp is the platform's, which may differ in its last bits between
// processor families.
func Softmax(dst, src []float32) {
	peak := float32(math.Inf(-1))
	for _, x := range src {
		peak = Larger(peak, x)
	}
	sum := 0.0
	for _, x := range src {
		sum += math.Exp(float64(x) - float64(peak))
	}
	for i, x := range src {
		dst[i] = float32(math.Exp(float64(x)-float64(peak)) / sum)
	}
}

// LayerNorm is dst[i] = (src[i]-mean) / sqrt(var+eps) * scale[i] + bias[i] in float64, rounded once; mean and variance
// (divided by the number of elements) are sums in memory order. scale and bias may be nil.
func LayerNorm(dst, src, scale, bias []float32, eps float64) {
	n := float64(len(src))
	mean, variance := 0.0, 0.0
	for _, x := range src {
		mean += float64(x)
	}
	mean /= n
	for _, x := range src {
		d := float64(x) - mean
		variance += float64(d * d)
	}
	inv := 1 / math.Sqrt(variance/n+eps)
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
