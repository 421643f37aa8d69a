package round

// Sweeps is how often Descend goes over a row at most. What is left to gain after so many is little.
const Sweeps = 8

// Descend moves the code of one weight after the other to where the quadratic form of the row is least, the others staying as they are,
// until a sweep moves none or sweeps is reached. It changes codes and returns the form of every row, which never grows.
//
// With g = H (w - q), moving weight i by d changes the form by d^2 H_ii - 2 d g_i: the best d is g_i/H_ii,
// here rounded to a step of the grid.
func (p *Problem) Descend(codes []int32, sweeps int) []float64 {
	loss := make([]float64, p.Rows())
	p.strips(func(first, rows int) {
		e, g := make([]float64, rows*p.K), make([]float64, rows*p.K)
		p.errors(e, codes, first, rows)
		multiplyAdd(g, p.K, e, p.K, p.H, p.K, rows, p.K, p.K)
		for r := range rows {
			row := g[r*p.K:][:p.K]
			form := dot(e[r*p.K:][:p.K], row)
			for range sweeps {
				gain := p.sweep(codes, first+r, row)
				if form -= gain; gain == 0 {
					break
				}
			}
			loss[first+r] = max(form, 0)
		}
	})
	return loss
}

// sweep goes over one row, whose H (w - q) is g, and returns by how much the form fell.
func (p *Problem) sweep(codes []int32, r int, g []float64) (gain float64) {
	for i := range p.K {
		h := p.H[i*p.K+i]
		grid, at := p.Grids.At(r, i), r*p.K+i
		if h <= 0 || 2*max(g[i], -g[i]) <= h*float64(grid.Scale) { // less than half a step
			continue
		}
		old := float64(grid.Dequantize(codes[at]))
		code := grid.Quantize(float32(old + g[i]/h))
		d := float64(grid.Dequantize(code)) - old
		less := 2*d*g[i] - d*d*h
		if code == codes[at] || !(less > 0) {
			continue
		}
		codes[at] = code
		gain += less
		for j, x := range p.H[i*p.K:][:p.K] {
			g[j] -= float64(d * x)
		}
	}
	return gain
}
