package round

import (
	"fmt"

	"qwb/kernels/qmath"
)

// Grids says which grid each weight of a matrix is rounded to: element (r, i) has List[Row[r]+Column[i]]. One scale for all is zeros in
// both; a scale by row is Row[r] = r; groups of g inputs are Row[r] = r*groups and Column[i] = i/g.
type Grids struct {
	List        []qmath.Grid
	Row, Column []int
	// Form, where its codes are places in a table, makes element (r, i) the scale of its grid, of any sign, times the table's number.
	Form *qmath.BlockForm
}

// PerRow gives row r the grid list[r], or list[0] to all where the list has one.
func PerRow(list []qmath.Grid, rows, k int) Grids {
	g := Grids{List: list, Row: make([]int, rows), Column: make([]int, k)}
	if len(list) > 1 {
		for r := range g.Row {
			g.Row[r] = r
		}
	}
	return g
}

// At is the grid of element (r, i).
func (g *Grids) At(r, i int) *qmath.Grid { return &g.List[g.Row[r]+g.Column[i]] }

// nearest is the code of element (r, i) nearest to w, and the number that it stands for.
func (g *Grids) nearest(r, i int, w float64) (code int32, value float64) {
	grid := g.At(r, i)
	if g.Form != nil {
		q := g.Form.Nearest(float32(w), grid.Scale, 0)
		return int32(q), float64(float32(grid.Scale * g.Form.Value(q)))
	}
	code, v := grid.Nearest(float32(w))
	return code, float64(v)
}

// Problem is a matrix to be rounded: W has rows of K weights, all of which read the same inputs, whose moments are H (K x K, symmetric).
type Problem struct {
	W       []float64
	K       int
	Grids   Grids
	H       []float64
	Threads int
	reads   []float64 // W H, once it is known
}

// Rows is the number of rows.
func (p *Problem) Rows() int { return len(p.W) / max(p.K, 1) }

// Check says what does not fit together.
func (p *Problem) Check() error {
	switch rows := p.Rows(); {
	case p.K <= 0 || rows*p.K != len(p.W):
		return fmt.Errorf("round: %d weights in rows of %d", len(p.W), p.K)
	case len(p.H) != p.K*p.K:
		return fmt.Errorf("round: moments of %d numbers for rows of %d weights", len(p.H), p.K)
	case len(p.Grids.Row) != rows || len(p.Grids.Column) != p.K:
		return fmt.Errorf("round: grids of %d x %d for weights of %d x %d", len(p.Grids.Row), len(p.Grids.Column), rows, p.K)
	}
	return nil
}

// Nearest is every weight's nearest code.
func (p *Problem) Nearest() []int32 {
	codes := make([]int32, len(p.W))
	for r := range p.Rows() {
		for i := range p.K {
			codes[r*p.K+i], _ = p.Grids.nearest(r, i, p.W[r*p.K+i])
		}
	}
	return codes
}

// Value is the number that the code of element (r, i) stands for.
func (p *Problem) Value(codes []int32, r, i int) float64 {
	grid := p.Grids.At(r, i)
	if f := p.Grids.Form; f != nil {
		return float64(float32(grid.Scale * f.Value(uint8(codes[r*p.K+i]))))
	}
	return float64(grid.Dequantize(codes[r*p.K+i]))
}

// errors writes w - q of rows first to first+rows, each K long.
func (p *Problem) errors(dst []float64, codes []int32, first, rows int) {
	for r := range rows {
		for i := range p.K {
			dst[r*p.K+i] = p.W[(first+r)*p.K+i] - p.Value(codes, first+r, i)
		}
	}
}

// Loss is the quadratic form of every row: the sum of squared errors of its output.
func (p *Problem) Loss(codes []int32) []float64 {
	e := make([]float64, len(p.W))
	p.errors(e, codes, 0, p.Rows())
	return Forms(e, p.H, p.K, p.Threads)
}

// Squares is the quadratic form of every row of weights: the sum of squares of its output.
func (p *Problem) Squares() []float64 {
	if p.reads == nil {
		return Forms(p.W, p.H, p.K, p.Threads)
	}
	out := make([]float64, p.Rows())
	for r := range out {
		out[r] = dot4(p.W[r*p.K:][:p.K], p.reads[r*p.K:][:p.K])
	}
	return out
}

// Forms is x h x' of every row x of k numbers, for h of k x k, symmetric: twice the sums below the diagonal, by blocks of it.
func Forms(rows, h []float64, k, threads int) []float64 {
	out := make([]float64, len(rows)/k)
	strips(len(out), threads, func(first, n int) {
		e, g := rows[first*k:][:n*k], make([]float64, n*k)
		for c := 0; c < k; c += block {
			w := min(block, k-c)
			multiplyAdd(g, k, e[c:], k, h[c*k:], k, n, c, w)
			table().AddProduct(g[c:], k, e[c:], k, h[c*k+c:], k, n, w, w, 0.5)
		}
		for r := range n {
			out[first+r] = 2 * dot4(e[r*k:][:k], g[r*k:][:k])
		}
	})
	return out
}

// strips calls f for the rows in pieces that share a pass over the moments.
func (p *Problem) strips(f func(first, rows int)) { strips(p.Rows(), p.Threads, f) }

// strips calls f for n rows in pieces: of two blocks where all threads have as many of them, as moments are read anew for each.
func strips(n, threads int, f func(first, rows int)) {
	size := block
	if pair := 2 * block; n%(pair*max(threads, 1)) == 0 {
		size = pair
	}
	each(threads, (n+size-1)/size, func(i int) { f(i*size, min(size, n-i*size)) })
}
