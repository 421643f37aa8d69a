package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Every instruction set adds products in the order of k with one rounding each, in tiles of all sizes, and touches nothing beside its sums.
func TestAddProduct(t *testing.T) {
	f := cpu.Detect()
	narrow := f
	narrow.AVX512, narrow.AVX512VNNI = false, false
	r := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		return x
	}
	for _, s := range [][3]int{{1, 1, 1}, {8, 16, 64}, {64, 48, 64}, {9, 17, 65}, {70, 150, 130}, {0, 5, 5}, {5, 0, 5}, {5, 5, 0}} {
		m, n, k := s[0], s[1], s[2]
		lda, ldb, ldd := k+3, n+2, n+1
		a, b, dst := numbers(m*lda+1), numbers(k*ldb+1), numbers(m*ldd+1)
		for _, factor := range []float64{1, -1, 0.5} {
			want := append([]float64(nil), dst...)
			for i := range m {
				for p := range k {
					for j := range n {
						want[i*ldd+j] = math.FMA(factor*a[i*lda+p], b[p*ldb+j], want[i*ldd+j])
					}
				}
			}
			for name, features := range map[string]cpu.Features{"all": f, "AVX2": narrow, "none": {}} {
				got := append([]float64(nil), dst...)
				kernels.Select(features).AddProduct(got, ldd, a, lda, b, ldb, m, n, k, factor)
				assert.Equal(t, want, got, fmt.Sprint(name, s, factor))
			}
		}
	}
}

func BenchmarkAddProduct(b *testing.B) {
	const m, n, k = 64, 2048, 2048
	a, x, dst := make([]float64, m*k), make([]float64, k*n), make([]float64, m*n)
	t := kernels.Select(cpu.Detect())
	for b.Loop() {
		t.AddProduct(dst, n, a, k, x, n, m, n, k, 1)
	}
	b.ReportMetric(float64(b.N)*m*n*k/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
