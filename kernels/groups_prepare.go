package kernels

import (
	"math"

	"qwb/kernels/ref"
)

// GroupRows is rows of activations as products with a Groups take them: quantized in groups, or floats. The zero value is ready for
// Groups.Prepare, and memory is kept for the next use.
type GroupRows struct {
	m, cols, size int
	tile          int  // rows of a tile; 0: everything lies row by row
	whole         bool // the codes of a row and group lie in one piece
	float         bool

	classOf *Groups // the matrix with classes that it was prepared for, nil for others
	classes []GroupRows

	words  []uint32
	codes  []int8
	scales []float32
	floats []float32

	row   Row
	x     []float32
	piece func(i int) // bound once
	each  int         // rows of a piece
	spare []spareRow  // by piece
}

// spareRow is the memory in which a row is quantized whose groups have no kernel.
type spareRow struct {
	codes  []int8
	scales []float32
	tile   groupQuantizer
}

// groupQuantizer is one call of a kernel that quantizes a row in groups of a multiple of 16. Assembly reads it by offset; a test
// holds the offsets.
type groupQuantizer struct {
	x      []float32
	groups int
	size   int
	groupPlace
}

// groupPlace says where the first group of a row of activations lies.
type groupPlace struct {
	to    []uint32 // from its scale on; the sum follows after rows words
	rows  int      // of the tile
	codes int      // from the scale to the first word of codes
	step  int      // between words of codes
}

// Tiles of manyRows rows, whose codes lie in one piece, are used from leastMany rows on: for fewer, there is more to read than to compute.
const (
	manyRows  = 16
	leastMany = 8
)

// tileRows is how many of m rows of activations a product takes at once, 0 where there are no panels, and whether their codes lie in one
// piece.
func (g *Groups) tileRows(m int) (rows int, whole bool) {
	switch {
	case g.packed == nil:
		return 0, false
	case g.row.many != nil && m >= leastMany:
		return manyRows, true
	}
	return g.row.MR, false
}

// Takes reports whether rows were prepared as products with g take them: then they need not be prepared again for it.
func (g *Groups) Takes(x *GroupRows) bool {
	if x.cols != g.Cols || x.size != g.Size || x.float != g.Float {
		return false
	}
	if g.classes == nil {
		tile, whole := g.tileRows(x.m)
		return x.classOf == nil && x.tile == tile && x.whole == whole
	}
	return x.classOf != nil && x.classOf.Bits == g.Bits && len(x.classOf.classes) == len(g.classes)
}

// Prepare quantizes m rows of x by ref.QuantizeRow in the groups of g, or takes them as they are where g multiplies floats.
//
// For a g with panels, tiles of up to tileRows rows follow each other. A tile has, group by group, the scale of each row, the
// negated sum of the codes of each row, and the codes, word by word for each row, or row by row where products take them whole; of floats,
// element by element those of each row.
func (g *Groups) Prepare(dst *GroupRows, par Parallel, x []float32, m int) {
	checkLen("x", len(x), m*g.Cols)
	dst.m, dst.cols, dst.size, dst.float = m, g.Cols, g.Size, g.Float
	dst.tile, dst.whole = g.tileRows(m)
	groups := ceil(g.Cols, g.Size)
	dst.x, dst.row, dst.classOf = x, g.quantizer, nil
	switch {
	case g.classes != nil:
		dst.prepareFor(g)
	case dst.tile > 0:
		dst.words = resize(dst.words, m*dst.rowWords())
	case g.Float:
		dst.floats = resize(dst.floats, m*g.Cols)
	default:
		dst.codes, dst.scales = resize(dst.codes, m*g.Cols), resize(dst.scales, m*groups)
	}
	pieces := piecesOf(m, max(1, rowGrain/g.Cols))
	dst.each = ceil(m, pieces)
	if len(dst.spare) < pieces {
		dst.spare = make([]spareRow, pieces)
	}
	if dst.piece == nil {
		dst.piece = dst.prepare
	}
	par.Run(pieces, dst.piece)
	dst.x = nil
}

// prepareFor makes room for the rows as the classes of g take them.
func (r *GroupRows) prepareFor(g *Groups) {
	r.classOf = g
	if len(r.classes) < len(g.classes) {
		r.classes = append(r.classes, make([]GroupRows, len(g.classes)-len(r.classes))...)
	}
	r.classes = r.classes[:len(g.classes)]
	for i, c := range g.classes {
		part := &r.classes[i]
		part.m, part.cols, part.size, part.float = r.m, c.Cols, c.Size, r.float
		part.tile, part.whole = c.tileRows(r.m)
		part.words = resize(part.words, r.m*part.rowWords())
	}
}

// rowWords is how many words a row takes.
func (r *GroupRows) rowWords() int {
	if r.float {
		return r.cols
	}
	return r.cols/4 + 2*(r.cols/r.size)
}

// prepare prepares the rows of a piece.
func (r *GroupRows) prepare(piece int) {
	groups := ceil(r.cols, r.size)
	s := &r.spare[piece]
	for i := piece * r.each; i < min((piece+1)*r.each, r.m); i++ {
		x := r.x[i*r.cols:][:r.cols]
		switch {
		case r.classOf != nil:
			r.prepareClasses(i, x, s)
			continue
		case r.tile == 0 && r.float:
			copy(r.floats[i*r.cols:], x)
			continue
		case r.tile == 0:
			ref.QuantizeRow(r.codes[i*r.cols:][:r.cols], r.scales[i*groups:][:groups], x, r.size)
			continue
		}
		p := r.place(i)
		switch {
		case r.float:
			for k, v := range x {
				p.to[k*p.rows] = math.Float32bits(v)
			}
		case r.row.quantize != nil && r.size%16 == 0:
			s.tile = groupQuantizer{x, groups, r.size, p}
			r.row.quantize(&s.tile)
			s.tile = groupQuantizer{}
		default:
			s.quantize(p, x, r.size)
		}
	}
}

// place says where row i lies.
func (r *GroupRows) place(i int) groupPlace {
	first := i / r.tile * r.tile
	p := groupPlace{rows: min(r.tile, r.m-first)}
	p.codes, p.step = 2*p.rows, p.rows
	if lane := i - first; r.whole {
		p.codes, p.step = 2*p.rows+lane*(r.size/4-1), 1
	}
	p.to = r.words[first*r.rowWords()+i-first:]
	return p
}

// quantize writes the codes of a row to their places.
func (s *spareRow) quantize(p groupPlace, x []float32, size int) {
	s.codes, s.scales = resize(s.codes, len(x)), resize(s.scales, len(x)/size)
	ref.QuantizeRow(s.codes, s.scales, x, size)
	for g, scale := range s.scales {
		p.put(g, scale, s.codes[g*size:][:size], size)
	}
}

// put writes a group of size codes; those that are missing are zeros.
func (p *groupPlace) put(group int, scale float32, codes []int8, size int) {
	to := p.to[group*p.rows*(2+size/4):]
	to[0] = math.Float32bits(scale)
	to[p.rows] = putCodes(to[p.codes:], codes, p.step, size)
}
