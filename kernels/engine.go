package kernels

import "qwb/kernels/ref"

// product is a sum of products over packed panels for a set of output positions arranged in lines: within a line, rows lie
// lda apart in a and ldd apart in dst. It is what Gemm and Conv share.
type product struct {
	row    Row
	packed []float32 // panels of k x NR
	k, n   int
	segs   []segment // together k elements
	ep     Epilogue

	a, dst   []float32
	lda, ldd int
	lines    int
	perLine  int                         // rows in each line
	start    func(line int) (a, dst int) // where the line begins
	column   int                         // first column in dst and bias
}

const (
	blockRows = 224     // rows that share a pass over the weights: their part of a stays in the second-level cache
	blockK    = 384     // length of a pass over the sum: a panel's part stays in the first-level cache
	pieceWork = 1 << 19 // multiplications worth a piece of their own
)

// run computes the product. Cutting it into pieces, blocks and tiles does not change a single bit: the sums are split only
// along k, and there each one is carried on from dst.
func (p *product) run(par Parallel) {
	if p.lines == 0 || p.perLine == 0 || p.n == 0 {
		return
	}
	tilesPerLine := (p.perLine + p.row.MR - 1) / p.row.MR
	tiles, panels := p.lines*tilesPerLine, (p.n+p.row.NR-1)/p.row.NR
	blocks := p.blocks()

	// Pieces: first along rows (blockRows at most), then along columns while there are few.
	rowPieces := max(1, (p.lines*p.perLine+blockRows-1)/blockRows)
	work := p.lines * p.perLine * p.n * max(p.k, 1)
	colPieces := min(panels, max(1, min(maxPieces, work/pieceWork)/rowPieces))
	rowPieces = min(rowPieces, tiles)
	par.run(rowPieces*colPieces, func(i int) {
		r, c := i%rowPieces, i/rowPieces
		p.piece(blocks, tilesPerLine, part(tiles, rowPieces, r), part(tiles, rowPieces, r+1), part(panels, colPieces, c), part(panels, colPieces, c+1))
	})
}

// block is a part of the sum over k.
type block struct {
	segs    []segment
	from, n int
}

// blocks cuts the segments into passes of about blockK elements. Sums in float64 are not cut, since dst cannot carry them.
func (p *product) blocks() []block {
	if p.row.Arith == ref.Float64 || p.k <= blockK+blockK/2 {
		return []block{{p.segs, 0, p.k}}
	}
	count := (p.k + blockK - 1) / blockK
	var out []block
	seg, used, from := 0, 0, 0
	for i := range count {
		b := block{from: from, n: part(p.k, count, i+1) - from}
		for left := b.n; left > 0; {
			s := p.segs[seg]
			take := min(left, s.n-used)
			b.segs = append(b.segs, segment{s.off + used, take})
			left, used = left-take, used+take
			if used == s.n {
				seg, used = seg+1, 0
			}
		}
		from += b.n
		out = append(out, b)
	}
	return out
}

// piece computes tiles [tile0, tile1) of panels [panel0, panel1).
func (p *product) piece(blocks []block, tilesPerLine, tile0, tile1, panel0, panel1 int) {
	var t tile
	t.lda, t.ldd = p.lda, p.ldd
	nr := p.row.NR
	lo, hi := p.ep.Limits()
	everything := Epilogue{}
	for bi, b := range blocks {
		t.segs, t.load = b.segs, min(bi, 1)
		last := bi == len(blocks)-1
		if t.lo, t.hi = everything.Limits(); last {
			t.lo, t.hi = lo, hi
		}
		for panel := panel0; panel < panel1; panel++ {
			t.panel = p.packed[(panel*p.k+b.from)*nr:][:b.n*nr]
			t.cols = min(nr, p.n-panel*nr)
			col := p.column + panel*nr
			if t.bias = nil; last && p.ep.Bias != nil {
				t.bias = p.ep.Bias[col:][:t.cols]
			}
			for i := tile0; i < tile1; i++ {
				line, at := i/tilesPerLine, i%tilesPerLine
				first := part(p.perLine, tilesPerLine, at)
				t.rows = part(p.perLine, tilesPerLine, at+1) - first
				a, d := p.start(line)
				t.a, t.dst = p.a[a+first*p.lda:], p.dst[d+first*p.ldd+col:]
				p.row.tile(&t)
			}
		}
	}
}

// pack writes panels of k x nr; column j of the product takes its p-th weight from at(p, j). Missing columns are zero.
func pack(dst []float32, k, n, nr int, at func(p, j int) float32) {
	for j0, i := 0, 0; j0 < n; j0 += nr {
		for p := range k {
			for j := range nr {
				if dst[i] = 0; j0+j < n {
					dst[i] = at(p, j0+j)
				}
				i++
			}
		}
	}
}

// packedLen is the length that pack fills.
func packedLen(k, n, nr int) int { return (n + nr - 1) / nr * nr * k }

// resize returns s with length n, reallocated where it is too short. Its elements are not cleared.
func resize(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
