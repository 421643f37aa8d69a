package round

import "fmt"

// Shift is what is added to weights before they are rounded, where the inputs of the quantized network are not those of the float network.
// With x the quantized and x + d the float inputs, a row w and codes with numbers q, the output errs by
//
//	w.(x + d) - q.x = (w - q).x + w.d
//
// The sum of squares is least, over real q, at
//
//	w' = w + w D H^-1     with D = sum d x', H = sum x x'
//
// and (w - q).x + w.d has, up to a constant, the form (w' - q)' H (w' - q): rounding goes on from w' under the same H. That is the
// correction of GPTAQ (Li et al. 2025), which folds it into the rounding of one weight after the other, and the ridge regression of ERQ
// (Zhong et al. 2024, section 3.2), whose penalty is the damping of the factor here. The shift is w' - w. Where samples are few it also
// learns what is peculiar to them, and a part of it may be better: GPTAQ's authors advise 0.25.
//
// Where the operator has a bias that takes the mean error off afterwards, H and D are taken of the inputs without their means.
// cross is D, K x K: row i has the sums of d_i times x. w has rows of K; it is not changed.
func (f *Factor) Shift(w, cross []float64, threads int) ([]float64, error) {
	k := f.K
	if len(cross) != k*k || len(w)%k != 0 {
		return nil, fmt.Errorf("round: %d weights and cross moments of %d numbers for %d inputs", len(w), len(cross), k)
	}
	out := make([]float64, len(w))
	rows := len(w) / k
	strips(rows, threads, func(first, n int) {
		d, y, across := make([]float64, n*k), make([]float64, n*k), make([]float64, block*k)
		multiplyAdd(d, k, w[first*k:], k, cross, k, n, k, k)
		for r := range n {
			for a, i := range f.place {
				y[r*k+a] = d[r*k+i]
			}
		}
		solve(y, n, across, f.l, k)
		for r := range n {
			for a, i := range f.place {
				out[(first+r)*k+i] = y[r*k+a]
			}
		}
	})
	return out, nil
}

// solve replaces each of n rows y of k numbers by z with z L L' = y. across is room for a block of rows of L'.
func solve(y []float64, n int, across, l []float64, k int) {
	for c := 0; c < k; c += block { // z L' = y, from the first column on
		w := min(block, k-c)
		for a := c; a < k; a++ {
			for b, x := range l[a*k+c:][:min(w, a-c+1)] {
				across[b*k+a] = x
			}
		}
		for r := range n {
			row := y[r*k+c:][:w]
			for i := range w {
				row[i] /= across[i*k+c+i]
				for j, x := range across[i*k+c:][i+1 : w] {
					row[i+1+j] -= float64(row[i] * x)
				}
			}
		}
		multiplySub(y[c+w:], k, y[c:], k, across[c+w:], k, n, k-c-w, w)
	}
	for c := (k - 1) / block * block; c >= 0; c -= block { // z L = y, from the last
		w := min(block, k-c)
		for r := range n {
			row := y[r*k+c:][:w]
			for i := w - 1; i >= 0; i-- {
				row[i] /= l[(c+i)*k+c+i]
				for j, x := range l[(c+i)*k+c:][:i] {
					row[j] -= float64(row[i] * x)
				}
			}
		}
		multiplySub(y, k, y[c:], k, l[c*k:], k, n, c, w)
	}
}
