package round

import (
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"qwb/graph"
)

// block is the number of rows and columns that are taken together.
const block = 64

// wide is how many columns a product takes at once: so few that gonum computes it on the goroutine that calls.
const wide = 3 * block

// multiplyAdd adds a*b to dst: a is m x k with rows lda apart, b is k x n, dst m x n; m is at most block.
func multiplyAdd(dst []float64, ldd int, a []float64, lda int, b []float64, ldb int, m, n, k int) {
	product(dst, ldd, a, lda, b, ldb, m, n, k, 1)
}

// multiplySub takes a*b off dst.
func multiplySub(dst []float64, ldd int, a []float64, lda int, b []float64, ldb int, m, n, k int) {
	product(dst, ldd, a, lda, b, ldb, m, n, k, -1)
}

// product adds the products of an element in the order of k, in whatever tiles.
func product(dst []float64, ldd int, a []float64, lda int, b []float64, ldb int, m, n, k int, factor float64) {
	for p := 0; p < k; p += block {
		for j := 0; j < n; j += wide {
			gonum.Implementation{}.Dgemm(blas.NoTrans, blas.NoTrans, m, min(wide, n-j), min(block, k-p), factor, a[p:], lda, b[p*ldb+j:], ldb,
				1, dst[j:], ldd)
		}
	}
}

// dot is the sum of products of two slices of one length, in their order.
func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
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
