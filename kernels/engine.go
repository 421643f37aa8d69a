package kernels

import (
	"sync/atomic"

	"qwb/kernels/ref"
)

// places is where the rows of a product lie: images of planes of lines of positions, each level evenly spaced. Distances are
// in elements for the input, in positions for the output.
type places struct{ image, plane, line, pos int }

// at returns the offset of a position.
func (p places) at(image, plane, line, pos int) int {
	return image*p.image + plane*p.plane + line*p.line + pos*p.pos
}

// product is a sum of products over packed panels for a set of output positions. It is what Gemm and Conv share.
type product struct {
	row    Row
	packed []float32 // panels of k x NR
	k, n   int
	segs   []segment // together k elements
	ep     Epilogue
	column int // first column in dst, bias and what is added

	images, planes, lines, perLine int // how many of each in the one before
	a, dst                         []float32
	in, out                        places
	ldd, ldr                       int // elements between output positions in dst, and in what is added

	// left is, by piece of rows, how many pieces of columns are not done yet, if there are several and the epilogue waits for them.
	left []atomic.Int32

	blocks []block
	tiling
	rowPieces, colPieces int
}

const (
	blockRows = 224     // rows that share a pass over the weights
	blockRead = 1 << 19 // bytes of a that they may have in a pass: they stay in the second-level cache
	blockK    = 1024    // length of a pass over the sum: as much of a panel stays in the second-level cache too
	pieceWork = 1 << 18 // multiplications worth a piece of their own
	pieceRows = 14      // rows that a piece counts as at least: with few of them reading the weights takes the time
	evenly    = 6       // pieces that several threads can share evenly; a product of fewer pieces is cut further along its rows
	fewRows   = 24      // rows of a piece at least: each of them reads the weights again
)

// tiling cuts a plane into units of at most MR rows: several units in a line, or one or two lines in a unit.
type tiling struct {
	perLine  int // units in a line, if there are several
	pairs    bool
	perPlane int
	rows     int // of the first long units in a line; the others have one less
	long     int
}

// tileRows returns how many rows a tile has at most where rows of its operands are so many bytes apart. Rows a page apart all lie in
// one set of the first-level cache, which has 8 to 12 lines: more of them would drive each other out.
func tileRows(mr int, apart ...int) int {
	const page, lines = 4096, 10
	for _, bytes := range apart {
		if bytes > 0 && bytes%page == 0 {
			mr = min(mr, lines)
		}
	}
	return mr
}

func newTiling(lines, perLine, mr int) tiling {
	switch {
	case perLine > mr:
		units := (perLine + mr - 1) / mr
		rows := (perLine + units - 1) / units
		return tiling{perLine: units, perPlane: lines * units, rows: rows, long: perLine - units*(rows-1)}
	case 2*perLine <= mr && lines > 1:
		return tiling{pairs: true, perPlane: (lines + 1) / 2, rows: 2 * perLine}
	}
	return tiling{perPlane: lines, rows: perLine}
}

// run computes the product.
func (p *product) run(par Parallel, j *job) {
	if pieces := p.prepare(j); pieces > 0 {
		par.Run(pieces, j.productPiece)
	}
}

// prepare makes p the product of j and returns in how many pieces it is computed, 0 for no elements. Cutting it into pieces, blocks
// and tiles does not change a single bit: the sums are split only along k, and there each one is carried on from dst.
func (p *product) prepare(j *job) int {
	positions := p.images * p.planes * p.lines * p.perLine
	if positions == 0 || p.n == 0 {
		return 0
	}
	p.tiling = newTiling(p.lines, p.perLine, tileRows(p.row.MR, 4*p.in.pos, 4*p.out.pos*p.ldd))
	units, panels := p.images*p.planes*p.tiling.perPlane, (p.n+p.row.NR-1)/p.row.NR
	p.cutSums(j)

	p.cutPieces(positions, units, panels)
	if p.left = nil; p.ep.Done != nil && p.colPieces > 1 {
		j.left = resize(j.left, p.rowPieces)
		for i := range j.left {
			j.left[i].Store(int32(p.colPieces))
		}
		p.left = j.left
	}
	j.product = *p
	return p.rowPieces * p.colPieces
}

// cutPieces sets the pieces: rows that share a pass over the weights first, then panels while the pieces are large enough, and
// rows again where there are few panels.
func (p *product) cutPieces(positions, units, panels int) {
	perBlock := min(blockRows, max(4*p.row.MR, blockRead/(4*max(1, min(p.blocks[0].n, p.in.pos)))))
	p.rowPieces = min(units, (positions+perBlock-1)/perBlock)
	pieces := min(maxPieces, max(positions, pieceRows)*p.n*max(p.k, 1)/pieceWork)
	p.colPieces = max(1, min(panels, pieces/p.rowPieces))
	if each := (panels + p.colPieces - 1) / p.colPieces; p.colPieces > 1 {
		p.colPieces = (panels + each - 1) / each // the same number of panels in each, but for the last
	}
	if pieces = min(pieces, evenly); p.rowPieces*p.colPieces < pieces {
		p.rowPieces = max(p.rowPieces, min(units, positions/fewRows, (pieces+p.colPieces-1)/p.colPieces))
	}
}

// block is a part of the sum over k.
type block struct {
	segs    []segment
	from, n int
}

// cutSums cuts the segments into passes of about blockK elements, in memory of j. Sums in float64 are not cut, since dst
// cannot carry them.
func (p *product) cutSums(j *job) {
	p.blocks = j.blocks[:0]
	if p.row.Arith == ref.Float64 || p.k <= blockK {
		p.blocks = append(p.blocks, block{p.segs, 0, p.k})
		j.blocks = p.blocks
		return
	}
	count := (p.k + blockK - 1) / blockK
	cut := resize(j.cut, len(p.segs)+count)[:0] // every pass cuts one segment at most: it does not grow
	seg, used, from := 0, 0, 0
	for i := range count {
		b := block{from: from, n: part(p.k, count, i+1) - from}
		first := len(cut)
		for left := b.n; left > 0; {
			s := p.segs[seg]
			take := min(left, s.n-used)
			cut = append(cut, segment{s.off + used, take})
			left, used = left-take, used+take
			if used == s.n {
				seg, used = seg+1, 0
			}
		}
		b.segs = cut[first:]
		from += b.n
		p.blocks = append(p.blocks, b)
	}
	j.cut, j.blocks = cut, p.blocks
}

// piece computes piece i of the units and panels.
func (p *product) piece(i int, t *tile) {
	r, c := i/p.colPieces, i%p.colPieces // rows stay in the cache while columns change
	units, panels := p.images*p.planes*p.tiling.perPlane, (p.n+p.row.NR-1)/p.row.NR
	unit0, unit1 := part(units, p.rowPieces, r), part(units, p.rowPieces, r+1)
	panel0, panel1 := part(panels, p.colPieces, c), part(panels, p.colPieces, c+1)
	t.lda, t.ldd, t.strip.ldr = p.in.pos, p.out.pos*p.ldd, p.out.pos*p.ldr
	nr := p.row.NR
	lo, hi := p.ep.Limits()
	for bi, b := range p.blocks {
		t.segs, t.load = b.segs, min(bi, 1)
		last := bi == len(p.blocks)-1
		t.lo, t.hi = Epilogue{}.Limits()
		if last {
			t.lo, t.hi = lo, hi
		}
		for panel := panel0; panel < panel1; panel++ {
			t.panel = p.packed[(panel*p.k+b.from)*nr:][:b.n*nr]
			t.strip.ahead = p.after(bi, panel, panel0, panel1)
			t.cols = min(nr, p.n-panel*nr)
			col := p.column + panel*nr
			if t.bias = nil; last && p.ep.Bias != nil {
				t.bias = p.ep.Bias[col:][:t.cols]
			}
			p.units(t, unit0, unit1, col, last && p.ep.Add != nil)
		}
	}
	if p.ep.Done != nil && (p.left == nil || p.left[r].Add(-1) == 0) {
		p.ep.Done(p.firstRow(unit0), p.firstRow(unit1))
	}
}

// firstRow returns the number of the first row of a unit, all rows before it belonging to units before it.
func (p *product) firstRow(unit int) int {
	perPlane := p.tiling.perPlane
	first := unit / perPlane * p.lines * p.perLine
	switch unit %= perPlane; {
	case p.tiling.perLine > 0:
		line, at := unit/p.tiling.perLine, unit%p.tiling.perLine
		return first + line*p.perLine + at*p.tiling.rows - max(0, at-p.tiling.long)
	case p.tiling.pairs:
		return first + 2*unit*p.perLine
	}
	return first + unit*p.perLine
}

// after returns the part of the panels that is read after this block of this panel.
func (p *product) after(bi, panel, panel0, panel1 int) []float32 {
	if panel++; panel == panel1 && bi+1 < len(p.blocks) {
		panel, bi = panel0, bi+1
	}
	if panel == panel1 {
		return p.packed[:0]
	}
	b, nr := p.blocks[bi], p.row.NR
	return p.packed[(panel*p.k+b.from)*nr:][:b.n*nr]
}

// units computes units [from, to) of all images for the panel in t.
func (p *product) units(t *tile, from, to, col int, add bool) {
	perPlane := p.tiling.perPlane
	for from < to {
		plane, unit := from/perPlane, from%perPlane
		count := min(perPlane-unit, to-from)
		image := plane / p.planes
		plane %= p.planes
		switch tl := &p.tiling; {
		case tl.perLine > 0:
			line, at := unit/tl.perLine, unit%tl.perLine
			count = min(count, tl.perLine-at)
			first := at*tl.rows - max(0, at-tl.long)
			if long := min(count, tl.long-at); long > 0 {
				p.strip(t, image, plane, line, first, tl.rows, long, false, col, add)
				first += long * tl.rows
			}
			if short := count - max(0, min(count, tl.long-at)); short > 0 {
				p.strip(t, image, plane, line, first, tl.rows-1, short, false, col, add)
			}
		case tl.pairs:
			pairs := min(count, p.lines/2-unit)
			if pairs > 0 {
				p.strip(t, image, plane, 2*unit, 0, tl.rows, pairs, true, col, add)
			}
			if pairs < count { // the last line of an odd number
				p.strip(t, image, plane, p.lines-1, 0, p.perLine, 1, true, col, add)
			}
		default:
			p.strip(t, image, plane, unit, 0, p.perLine, count, true, col, add)
		}
		from += count
	}
}

// strip computes count tiles of so many rows from a position on: one after the other in a line or, with lines, each the
// whole of the next line or two.
func (p *product) strip(t *tile, image, plane, line, first, rows, count int, lines bool, col int, add bool) {
	s := t.strip
	t.rows, s.count = rows, count
	half := (rows + 1) / 2
	stepIn, stepOut, secondIn, secondOut := rows*p.in.pos, rows*p.out.pos, half*p.in.pos, half*p.out.pos
	if lines {
		n := rows / p.perLine
		stepIn, stepOut = n*p.in.line, n*p.out.line
		if n == 2 {
			secondIn, secondOut = p.in.line, p.out.line
		}
	}
	s.stepA, s.secondA = stepIn, secondIn
	s.stepD, s.secondD = stepOut*p.ldd, secondOut*p.ldd
	out := p.out.at(image, plane, line, first)
	t.a, t.dst = p.a[p.in.at(image, plane, line, first):], p.dst[out*p.ldd+col:]
	if s.add = nil; add {
		s.stepR, s.secondR = stepOut*p.ldr, secondOut*p.ldr
		s.add = p.ep.Add[out*p.ldr+col:]
	}
	p.row.tile(t)
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
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
