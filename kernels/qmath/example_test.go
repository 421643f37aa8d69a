package qmath_test

import (
	"fmt"

	"qwb/kernels/qmath"
)

// One output of a small layer, y = sum(x[k]*w[k]) + b, in float and in integers.
func Example_dotProduct() {
	x := []float32{0.9, -0.4, 2.1, 0.3}
	w := []float32{0.5, -1.2, 0.25, 0.8}
	b := float32(0.1)

	// 1. Ranges, as calibration observed them, become scales and zero points.
	affine := qmath.Scheme{QMin: 0, QMax: 255}                        // activations: uint8, asymmetric
	symmetric := qmath.Scheme{Symmetric: true, QMin: -127, QMax: 127} // weights: int8, symmetric
	grid := func(lo, hi float64, s qmath.Scheme) qmath.Grid {
		scale, zero, _, _ := qmath.ScaleFromRange(lo, hi, s)
		return qmath.Grid{Scale: scale, ZeroPoint: zero, QMin: s.QMin, QMax: s.QMax}
	}
	gx, gw, gy := grid(-0.4, 2.1, affine), grid(-1.2, 0.5, symmetric), grid(-1, 2, affine)
	bias := qmath.BiasScale(gx.Scale, gw.Scale)
	qb, _ := qmath.QuantizeBias(b, bias)

	// 2. Integers only: one accumulator of 32 bits.
	acc := qb
	for k := range x {
		acc += (gx.Quantize(x[k]) - gx.ZeroPoint) * gw.Quantize(w[k])
	}

	// 3. One real factor takes the accumulator to the grid of the output.
	factor := float64(bias) / float64(gy.Scale)
	qy := min(max(int32(qmath.HalfEven.Round(float64(acc)*factor))+gy.ZeroPoint, gy.QMin), gy.QMax)

	// The same by simulation: quantize, dequantize, compute in float.
	float, sim := b, float32(qb)*bias
	for k := range x {
		float += x[k] * w[k]
		sim += gx.Fake(x[k]) * gw.Fake(w[k])
	}

	fmt.Printf("scales    x %.6f  w %.6f  y %.6f\n", gx.Scale, gw.Scale, gy.Scale)
	fmt.Printf("integers  bias %d  accumulator %d  factor %.6f  y %d\n", qb, acc, factor, qy)
	fmt.Printf("results   float %.4f  integers %.4f  simulation %.4f\n", float, gy.Dequantize(qy), gy.Fake(sim))
	// Output:
	// scales    x 0.009804  w 0.009449  y 0.011765
	// integers  bias 1079  accumulator 19361  factor 0.007874  y 237
	// results   float 1.7950  integers 1.7882  simulation 1.7882
}
