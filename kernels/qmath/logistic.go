package qmath

// mlasLogistic is ONNX Runtime's logistic function on processors with FMA: the rational approximation of Eigen on [-18, 18],
// every step a fused multiply-add.
func mlasLogistic(x float32) float32 {
	v := min(max(x, -18), 18)
	v2 := v * v
	p := FMA(v2, 4.37031012579801e-11, 1.15627324459942e-07)
	for _, c := range [...]float32{6.08574864600143e-05, 8.51377133304701e-03, 2.48287947061529e-01} {
		p = FMA(p, v2, c)
	}
	q := FMA(v2, 6.10247389755681e-13, 5.76102136993427e-09)
	for _, c := range [...]float32{6.29106785017040e-06, 1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01} {
		q = FMA(q, v2, c)
	}
	return min(max(float32(p*v)/q+0.5, 0), 1)
}
