package round

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Damping is what is added to the diagonal of the moments, as a part of its mean, unless the caller says otherwise: it keeps directions
// that the samples hardly have from being used to make errors good (Frantar et al. 2022, section 3.3).
const Damping = 0.01

// Order is the order in which the weights of a row are rounded.
type Order uint8

const (
	Falling Order = iota // inputs with much energy first ("act-order"): their errors can still be made good by all others
	Natural              // as they lie
)

// Factor is the triangular factor of moments with damping: H + damp*mean(diag)*I = R R', R upper triangular in the order of rounding.
// Rounding needs R itself: the inverse of the moments, which the formulas of the literature have, is not formed.
type Factor struct {
	K int
	// Damp is the damping it took, as a part of the mean of the diagonal.
	Damp float64
	// place is the input at each position. Positions go against the order of rounding: the last is rounded first, which makes R
	// the ordinary lower Cholesky factor.
	place []int
	l     []float64 // K x K, lower, row by row, by position
	added []float64 // to the diagonal, by input
}

// ErrMoments is returned for moments with NaN, infinity or a negative diagonal.
var ErrMoments = errors.New("round: the moments are not those of finite inputs")

// NewFactor factorizes moments h (k x k, symmetric; only read). Inputs that are always zero (diagonal 0) stand alone: their weights
// are rounded to the nearest. damp is at least 0; it is doubled, from Damping on, until the factorization succeeds.
func NewFactor(h []float64, k int, damp float64, order Order, threads int) (*Factor, error) {
	if len(h) != k*k || k == 0 {
		return nil, fmt.Errorf("round: moments of %d numbers for %d inputs", len(h), k)
	}
	mean := 0.0
	for i := range k {
		if d := h[i*k+i]; !(d >= 0) || math.IsInf(d, 1) {
			return nil, fmt.Errorf("%w: %g on the diagonal at input %d of %d", ErrMoments, d, i, k)
		}
		mean += h[i*k+i] / float64(k)
	}
	f := &Factor{K: k, Damp: damp, place: make([]int, k), l: make([]float64, k*k), added: make([]float64, k)}
	for i := range f.place {
		f.place[i] = k - 1 - i
	}
	if order == Falling {
		slices.SortStableFunc(f.place, func(a, b int) int { return cmp.Compare(h[a*k+a], h[b*k+b]) })
	}
	for range 40 {
		for a, i := range f.place {
			row := f.l[a*k:][:k]
			for b, j := range f.place[:a+1] {
				row[b] = h[i*k+j]
			}
			clear(row[a+1:])
			if f.added[i] = f.Damp * mean; row[a]+f.added[i] == 0 {
				f.added[i] = 1
			}
			row[a] += f.added[i]
		}
		if cholesky(f.l, k, threads) {
			return f, nil
		}
		f.Damp = max(2*f.Damp, Damping)
	}
	return nil, fmt.Errorf("%w: no damping makes them positive definite", ErrMoments)
}

// cholesky replaces the lower half of a, n x n, by its Cholesky factor, block column by block column; false where a is not positive
// definite. The upper half is not touched.
func cholesky(a []float64, n, threads int) bool {
	across := make([]float64, block*n) // the block column, transposed
	for c := 0; c < n; c += block {
		w := min(block, n-c)
		if !corner(a[c*n+c:], n, w) {
			return false
		}
		below := n - c - w
		each(threads, (below+block-1)/block, func(s int) {
			rows := min(block, below-s*block)
			for j := range w {
				column(a[(c+w+s*block)*n+c:], n, rows, j, a[(c+j)*n+c:][:j+1])
			}
			for r := range rows {
				for j, v := range a[(c+w+s*block+r)*n+c:][:w] {
					across[j*below+s*block+r] = v
				}
			}
		})
		each(threads, (below+block-1)/block, func(s int) {
			first := c + w + s*block
			rows := min(block, n-first)
			multiplySub(a[first*n+c+w:], n, a[first*n+c:], n, across, below, rows, s*block+rows, w)
		})
	}
	return true
}

// corner is cholesky of the w x w matrix at the beginning of a, whose rows are n apart.
func corner(a []float64, n, w int) bool {
	for j := range w {
		row := a[j*n:][:j+1]
		before := row[j]
		row[j] -= dot(row[:j], row[:j])
		if !(row[j] > 1e-13*before) || math.IsInf(row[j], 1) { // what is left is rounding
			return false
		}
		row[j] = math.Sqrt(row[j])
		if j+1 < w {
			column(a[(j+1)*n:], n, w-j-1, j, row)
		}
	}
	return true
}

// column makes column j of so many rows, n apart, that of the factor whose row j is diagonal.
func column(a []float64, n, rows, j int, diagonal []float64) {
	i := 0
	for ; i+4 <= rows; i += 4 {
		for r, sum := range dots(a[i*n:], n, diagonal[:j]) {
			a[(i+r)*n+j] = (a[(i+r)*n+j] - sum) / diagonal[j]
		}
	}
	for ; i < rows; i++ {
		a[i*n+j] = (a[i*n+j] - dot(a[i*n:][:j], diagonal[:j])) / diagonal[j]
	}
}
