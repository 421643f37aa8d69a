package kernels

// product8 is an integer sum of products over packed panels for a set of positions arranged in lines, as product is a float
// one. It is what GemmU8S8 and ConvU8S8 share.
type product8 struct {
	table    *Table
	row      Row
	tile     func(*tile8)
	packed   []int8 // panels
	k, n     int    // products of a sum, columns
	segs     []segment
	terms    Terms
	less     []int32 // 128 times this is subtracted from every sum of its column; nil: nothing
	out      Output
	a        []uint8
	lda      int
	lines    int
	perLine  int // positions in each line
	column   int // first column in terms and output
	firstRow int // of the output

	// Where line l begins in a: for a convolution the first input element of its windows.
	in                  padded // without data
	outD, outH          int
	strideD, strideH    int
	tilesPerLine        int
	rowPieces, panels   int
	colPieces, panelLen int
	linesAtOnce         int

	last  []uint8     // a copy of the last row
	piece func(i int) // runPiece

	// Padding of the input.
	src      []uint8
	shape    ConvShape
	zero     uint8
	repeat   int
	padLines func(i int) // runPad
	padParts int
	border   []uint8 // a line of zero
}

// piece8 is the memory of one goroutine at work on a piece.
type piece8 struct {
	tile   tile8
	sums   Sums
	out    outTile
	block  Block   // of StoreBlocks
	acc    []int32 // of tiles whose rows follow each other
	column []int32 // what the sums of the panel at hand begin with
	init   []int32 // the same with terms of rows
}

const (
	blockRows8 = 224     // rows that share a pass over the weights
	blockRead8 = 1 << 19 // bytes of activations that they may have: they stay in the second-level cache
	pieceWork8 = 1 << 21 // multiplications worth a piece of their own: about ten microseconds

	pieceDepthwise8 = 1 << 18 // the same of a depthwise convolution
)

// run computes the product. How it is cut does not matter: integer addition is associative.
func (p *product8) run(par Parallel) {
	rows := p.lines * p.perLine
	if rows == 0 || p.n == 0 {
		return
	}
	mr := tileRows8(p.row.MR, p.lda)
	if raw, ok := p.out.(*StoreS32); ok {
		mr = tileRows8(p.row.MR, p.lda, 4*raw.Ldd)
	}
	p.tilesPerLine = (p.perLine + mr - 1) / mr
	if p.linesAtOnce = 1; p.row.lines != nil && p.tilesPerLine == 1 {
		p.linesAtOnce = min(p.row.lines(p.perLine, p.lda), p.row.MR/p.perLine)
	}
	p.panels = (p.n + p.row.NR - 1) / p.row.NR
	p.panelLen = len(p.packed) / p.panels
	perBlock := min(blockRows8, max(4*p.row.MR, blockRead8/max(p.k, 1)))
	p.rowPieces = max(1, (rows+perBlock-1)/perBlock)
	grain := pieceWork8
	if p.depthwise() {
		grain = pieceDepthwise8
	}
	pieces := min(maxPieces, rows*p.n*max(p.k, 1)/grain)
	pieces += pieces & 1 // for two threads to have as many
	if p.rowPieces > 1 {
		p.rowPieces += p.rowPieces & 1
	}
	p.colPieces = min(p.panels, max(1, pieces/p.rowPieces))
	p.rowPieces = min(p.rowPieces, p.lines*p.tilesPerLine)
	par.Run(p.rowPieces*p.colPieces, p.piece)
}

// tileRows8 is tileRows for integer rows: a tile of more than maxMR8 rows is cut into tiles of that by the row itself.
func tileRows8(mr int, apart ...int) int {
	if mr <= maxMR8 {
		return tileRows(mr, apart...)
	}
	return mr / maxMR8 * tileRows(maxMR8, apart...)
}

// runPiece computes piece i: some of the tiles of some of the panels.
func (p *product8) runPiece(i int) {
	w := p.table.pools8.piece()
	nr, tiles := p.row.NR, p.lines*p.tilesPerLine
	r, c := i%p.rowPieces, i/p.rowPieces
	tile0, tile1 := part(tiles, p.rowPieces, r), part(tiles, p.rowPieces, r+1)
	raw, isRaw := p.out.(*StoreS32)
	blocks, isBlocks := p.out.(*StoreBlocks)
	t := &w.tile
	t.lda, t.segs = p.lda, p.segs
	w.sums = Sums{Stride: nr, table: p.table, out: &w.out, block: &w.block}
	for panel := part(p.panels, p.colPieces, c); panel < part(p.panels, p.colPieces, c+1); panel++ {
		t.panel = p.packed[panel*p.panelLen:][:p.panelLen]
		t.cols = min(nr, p.n-panel*nr)
		col, direct := p.column+panel*nr, isRaw && t.cols == nr
		p.begin(w.column[:nr], col, t.cols)
		t.init, t.ldi = w.column[:nr], 0
		line, at := tile0/p.tilesPerLine, tile0%p.tilesPerLine
		start, first := p.start(line), part(p.perLine, p.tilesPerLine, at)
		held, from := 0, 0 // rows in acc, and the first of them
		for tile := tile0; tile < tile1; tile++ {
			next := part(p.perLine, p.tilesPerLine, at+1)
			t.rows = next - first
			row := p.firstRow + line*p.perLine + first
			begin := start
			t.a = p.a[start+first*p.lda:]
			if first, at = next, at+1; at == p.tilesPerLine {
				line, at, first = line+1, 0, 0
				start = p.start(line)
			}
			if p.depthwise() {
				t.a = t.a[panel*nr:]
			}
			rows := t.rows
			if t.more = t.more[:0]; p.linesAtOnce > 1 && !direct {
				for ; tile+1 < tile1 && len(t.more)+1 < p.linesAtOnce; tile++ {
					t.more = append(t.more, start-begin)
					rows, line = rows+t.rows, line+1
					start = p.start(line)
				}
			}
			if p.terms.Row != nil {
				p.addRowTerms(w, row, rows)
				t.init, t.ldi = w.init, nr
			}
			if direct {
				t.dst, t.ldd = raw.Dst[row*raw.Ldd+col:], raw.Ldd
				p.tile(t)
				continue
			}
			if t.dst, t.ldd = w.acc[held*nr:], nr; held == 0 {
				from = row
			}
			p.tile(t)
			if held += rows; (held+p.row.MR)*nr <= len(w.acc) && tile+1 < tile1 {
				continue
			}
			w.sums.Acc, w.sums.Row, w.sums.Col, w.sums.Rows, w.sums.Cols = w.acc, from, col, held, t.cols
			p.out.store(&w.sums)
			held = 0
		}
		if isBlocks {
			blocks.done(&w.block)
		}
	}
	t.a, t.panel, t.dst, t.init, t.segs, w.out = nil, nil, nil, nil, nil, outTile{}
	p.table.pools8.pieces.Put(w)
}

// release gives p back to its pool without keeping anybody's memory alive.
func (p *product8) release() {
	*p = product8{segs: p.segs, last: p.last, border: p.border, piece: p.piece, padLines: p.padLines, table: p.table}
	p.table.pools8.products.Put(p)
}

func (p *product8) depthwise() bool { return p.row.Op == OpDepthwiseU8S8 }

// start returns where line begins in a.
func (p *product8) start(line int) int {
	if p.lines == 1 {
		return 0
	}
	y, z := line%p.outH, line/p.outH
	n := z / p.outD
	z %= p.outD
	return p.in.at(n, z*p.strideD, y*p.strideH, 0)
}

// begin writes what the sums of the columns from col on begin with.
func (p *product8) begin(init []int32, col, cols int) {
	clear(init)
	if p.terms.Column != nil {
		copy(init, p.terms.Column[col:][:cols])
	}
	if p.less != nil {
		for j, s := range p.less[col:][:cols] {
			init[j] -= 128 * s
		}
	}
}

// addRowTerms writes what the sums of a tile begin with: the columns' terms and those of rows from row on.
func (p *product8) addRowTerms(w *piece8, row, rows int) {
	nr := p.row.NR
	for i, add := range p.terms.Row[row:][:rows] {
		init := w.init[i*nr:][:nr]
		for j, v := range w.column[:nr] {
			init[j] = v + add
		}
	}
}
