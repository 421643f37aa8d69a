package round

// Round rounds the weights of each row one after the other: weight i becomes the code nearest to
//
//	w_i + 1/R_ii sum over j before i of R_ji (w_j - q_j)
//
// which is the value that meets the output best, given the codes before it and free choice of the weights after it: with H = R R' the form
// is the sum over i of (R_ii (w_i - q_i) + sum over j before i of R_ji (w_j - q_j))^2. Codes are clamped to the grid, and what that costs
// is made good by the weights that follow, too. p.H is not read. Besides the codes it returns the form of every row,
// under the damped moments.
func (f *Factor) Round(p *Problem) (codes []int32, loss []float64) {
	codes, loss = make([]int32, len(p.W)), make([]float64, p.Rows())
	p.strips(func(first, rows int) {
		s := make([]float64, rows*f.K) // the sums so far, by position
		e := make([]float64, rows*block)
		for end := f.K; end > 0; {
			begin := max(0, (end-1)/block*block)
			for r := range rows {
				loss[first+r] += f.roundBlock(p, codes, first+r, s[r*f.K:][:f.K], e[r*block:], begin, end)
			}
			multiplyAdd(s, f.K, e, block, f.l[begin*f.K:], f.K, rows, begin, end-begin)
			end = begin
		}
	})
	return codes, loss
}

// roundBlock rounds one row at the positions from begin to end, writes their errors to e and returns their squares of the form.
func (f *Factor) roundBlock(p *Problem, codes []int32, r int, s, e []float64, begin, end int) (loss float64) {
	for a := end - 1; a >= begin; a-- {
		i, l := f.place[a], f.l[a*f.K:]
		w := p.W[r*p.K+i]
		q, v := p.Grids.nearest(r, i, w+s[a]/l[a])
		codes[r*p.K+i] = q
		err := w - v
		e[a-begin] = err
		left := float64(l[a]*err) + s[a]
		loss += float64(left * left)
		if err == 0 {
			continue
		}
		row := l[begin:a]
		sums := s[begin:a][:len(row)]
		for b, x := range row {
			sums[b] += float64(err * x)
		}
	}
	return loss
}

// Loss is the quadratic form of every row under the damped moments.
func (f *Factor) Loss(p *Problem, codes []int32) []float64 {
	loss := make([]float64, p.Rows())
	p.strips(func(first, rows int) {
		e, s := make([]float64, rows*f.K), make([]float64, rows*f.K)
		for r := range rows {
			for a, i := range f.place {
				e[r*f.K+a] = p.W[(first+r)*p.K+i] - p.Value(codes, first+r, i)
			}
		}
		for begin := 0; begin < f.K; begin += block {
			w := min(block, f.K-begin)
			multiplyAdd(s, f.K, e[begin:], f.K, f.l[begin*f.K:], f.K, rows, begin+w, w) // the upper half of l is zero
		}
		for r := range rows {
			loss[first+r] = dot(s[r*f.K:][:f.K], s[r*f.K:][:f.K])
		}
	})
	return loss
}
