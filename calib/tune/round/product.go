package round

import (
	"sync"
	"sync/atomic"

	"qwb/graph"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// block is the number of rows and columns that are taken together.
const block = 64

// table has the products; every one gives the same bits.
var table = sync.OnceValue(func() *kernels.Table { return kernels.Select(cpu.Detect()) })

// multiplyAdd adds a*b to dst: a is m x k with rows lda apart, b is k x n, dst m x n. Each sum is added up in the order of k.
func multiplyAdd(dst []float64, ldd int, a []float64, lda int, b []float64, ldb int, m, n, k int) {
	table().AddProduct(dst, ldd, a, lda, b, ldb, m, n, k, 1)
}

// multiplySub takes a*b off dst.
func multiplySub(dst []float64, ldd int, a []float64, lda int, b []float64, ldb int, m, n, k int) {
	table().AddProduct(dst, ldd, a, lda, b, ldb, m, n, k, -1)
}

// dot is the sum of products of two slices of one length, in their order.
func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// dot4 is the sum of products of two slices of one length: of every fourth, then of the four.
func dot4(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		s0 += float64(a[0] * b[0])
		s1 += float64(a[1] * b[1])
		s2 += float64(a[2] * b[2])
		s3 += float64(a[3] * b[3])
	}
	return (s0 + s1) + (s2 + s3) + dot(a, b)
}

// dots are the sums of products of x and of four rows ld apart, each in the order of x.
func dots(rows []float64, ld int, x []float64) (s [4]float64) {
	a, b, c, d := rows[:len(x)], rows[ld:][:len(x)], rows[2*ld:][:len(x)], rows[3*ld:][:len(x)]
	var s0, s1, s2, s3 float64
	for i, v := range x {
		s0 += float64(a[i] * v)
		s1 += float64(b[i] * v)
		s2 += float64(c[i] * v)
		s3 += float64(d[i] * v)
	}
	return [4]float64{s0, s1, s2, s3}
}

// each calls f(0) ... f(n-1), so many at a time as threads says. A panic of f is one of the caller.
func each(threads, n int, f func(i int)) {
	if threads = min(threads, n); threads < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wait graph.Group
	for range threads {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wait.Wait()
}
