package round

// piece is how many positions of a block are rounded before their errors are multiplied for the rest of the block, all rows at once.
const piece = 16

// abreast is how many rows are rounded side by side: each number of a row waits for the one before it, and other rows fill the time.
const abreast = 8

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
			for to := end; to > begin; {
				from := max(begin, (to-1)/piece*piece)
				for r := 0; r < rows; r += abreast {
					f.roundBlock(p, codes, loss[first+r:][:min(abreast, rows-r)], first+r, s[r*f.K:], e[r*block+from-begin:], from, to)
				}
				if from > begin {
					multiplyAdd(s[begin:], f.K, e[from-begin:], block, f.l[from*f.K+begin:], f.K, rows, from-begin, to-from)
				}
				to = from
			}
			multiplyAdd(s, f.K, e, block, f.l[begin*f.K:], f.K, rows, begin, end-begin)
			end = begin
		}
	})
	return codes, loss
}

// roundBlock rounds rows from first on, one for each of loss, at the positions from begin to end, writes their errors to e and adds their
// squares of the form to loss.
func (f *Factor) roundBlock(p *Problem, codes []int32, loss []float64, first int, s, e []float64, begin, end int) {
	for a := end - 1; a >= begin; a-- {
		i, l, row := f.place[a], f.l[a*f.K+a], f.l[a*f.K+begin:a*f.K+a]
		for r := range loss {
			at, sum := (first+r)*p.K+i, s[r*f.K+a]
			w := p.W[at]
			q, v := p.Grids.nearest(first+r, i, w+sum/l)
			codes[at] = q
			err := w - v
			e[r*block+a-begin] = err
			left := float64(l*err) + sum
			loss[r] += float64(left * left)
			if err == 0 {
				continue
			}
			sums := s[r*f.K+begin:][:len(row)]
			for b, x := range row {
				sums[b] += float64(err * x)
			}
		}
	}
}

// Undamped takes off loss, the forms of rows under the damped moments, what damping adds for the numbers got that their codes stand for.
func (f *Factor) Undamped(loss []float64, p *Problem, got []float64) {
	for r := range loss {
		for i, w := range p.W[r*p.K:][:p.K] {
			e := w - got[r*p.K+i]
			loss[r] -= float64(float64(e*e) * f.added[i])
		}
	}
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
