package language

import "math"

// ratio estimates the mean of something over the tokens of sequences, and how far that mean is from the one over all sequences of
// their kind. Tokens of one sequence are alike, so the sequences count as the sample and not the tokens: with x the sum over the n
// tokens of a sequence and k sequences,
//
//	mean = sum(x) / sum(n),   error = sqrt(k/(k-1) * sum((x - mean*n)^2)) / sum(n)
//
// which is the standard error of a ratio of two sums to first order. Where x is a difference of two models on the same sequence the
// error is a paired one.
type ratio struct {
	k                int
	n, x, nn, nx, xx float64
}

func (r *ratio) add(x float64, tokens int) {
	n := float64(tokens)
	r.k++
	r.n, r.x, r.nn, r.nx, r.xx = r.n+n, r.x+x, r.nn+n*n, r.nx+n*x, r.xx+x*x
}

// mean is 0 of nothing.
func (r *ratio) mean() float64 {
	if r.n == 0 {
		return 0
	}
	return r.x / r.n
}

// err is nil of fewer than two sequences, which say nothing about it.
func (r *ratio) err() *float64 {
	if r.k < 2 || r.n == 0 {
		return nil
	}
	m := r.mean()
	e := math.Sqrt(max(0, r.xx-2*m*r.nx+m*m*r.nn)*float64(r.k)/float64(r.k-1)) / r.n
	return &e
}
