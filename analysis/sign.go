package analysis

import (
	"math"

	"qwb/kernels/elementary"
)

// SignTest is the chance that of better + worse coins at least better show heads: how likely pairs that differ speak so much for one side
// where there is no difference (one-sided sign test; of right and wrong answers McNemar's exact test). It is 1 where no pair differs.
func SignTest(better, worse int) float64 { return BinomialTail(better+worse, better, 0.5) }

// BinomialTail is the chance of at least k successes in n trials of chance p.
func BinomialTail(n, k int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	sum := 0.0
	for i := k; i <= n; i++ {
		sum += elementary.Exp(lg(n) - lg(i) - lg(n-i) + float64(float64(i)*math.Log(p)) + float64(float64(n-i)*math.Log1p(-p)))
	}
	return min(sum, 1)
}
