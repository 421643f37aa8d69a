package kernels

import (
	"math"

	"qwb/kernels/ref"
)

// Groups that run on from row to row, or are no whole words, have no panels of their own: a sum ends where a group of the matrix or
// one of the activations does, which is elsewhere in each row, and at odd places. But with period = Size / gcd(Cols, Size) rows r,
// r+period, r+2*period, ... are cut at the same places. Those rows are a class: a matrix whose groups are the pieces, each filled up with
// zeros to the length of the longest in whole words. So kernels for groups multiply it, and add the same sums in the same order.

// groupsClass is one class of the rows of a matrix.
type groupsClass struct {
	*Groups
	pieces []groupPiece
}

// groupPiece is a run of elements of a row that have one scale in the matrix and one in the activations.
type groupPiece struct{ lo, hi int }

// leastClass is how many rows on average a class has for its panels to be worth while, which are computed as if they had 16.
const leastClass = 2

// period is how many classes there are where every one has rows.
func (m *GroupMatrix) period() int {
	a, b := m.Cols, m.Size
	for b != 0 {
		a, b = b, a%b
	}
	return m.Size / a
}

// piecesFrom lists the pieces of a row whose first group began shift elements before it. Floats have one scale: theirs are the groups of
// the matrix.
func (m *GroupMatrix) piecesFrom(shift int) (list []groupPiece) {
	for lo := 0; lo < m.Cols; {
		hi := min(lo+m.Size-(lo+shift)%m.Size, m.Cols)
		if !m.Float {
			hi = min(hi, lo+m.Size-lo%m.Size)
		}
		list = append(list, groupPiece{lo, hi})
		lo = hi
	}
	return list
}

// packClasses packs a matrix class by class; codes and scales are all it has.
func (g *Groups) packClasses(t *Table, par Parallel, codes []int8, scales []float32) error {
	period := g.period()
	for first := range min(period, g.Rows) {
		c := groupsClass{pieces: g.piecesFrom(first * g.Cols % g.Size)}
		size := 0
		for _, p := range c.pieces {
			size = max(size, p.hi-p.lo)
		}
		size = ceil(size, g.perWord()) * g.perWord()
		m := GroupMatrix{Rows: ceil(g.Rows-first, period), Cols: size * len(c.pieces), Size: size, Bits: g.Bits, Float: g.Float}
		m.Read = func(q []int8, d []float32, from int) {
			clear(q)
			for i := range d {
				piece := c.pieces[i%len(c.pieces)]
				at := (first+(from/m.Cols+i/len(c.pieces))*period)*g.Cols + piece.lo
				copy(q[i*size:], codes[at:][:piece.hi-piece.lo])
				d[i] = scales[at/g.Size]
			}
		}
		var err error
		if c.Groups, err = t.PackGroups(par, m); err != nil {
			return err
		}
		c.Read = nil // it holds what was read
		g.classes = append(g.classes, c)
	}
	return nil
}

// prepareClasses puts a row of activations, quantized or of floats, to its places in every class.
func (r *GroupRows) prepareClasses(i int, x []float32, s *spareRow) {
	if !r.float {
		s.codes, s.scales = resize(s.codes, r.cols), resize(s.scales, ceil(r.cols, r.size))
		ref.QuantizeRow(s.codes, s.scales, x, r.size)
	}
	for c := range r.classes {
		class, part := &r.classOf.classes[c], &r.classes[c]
		place := part.place(i)
		for k, p := range class.pieces {
			if !r.float {
				place.put(k, s.scales[p.lo/r.size], s.codes[p.lo:p.hi], part.size)
				continue
			}
			at := k * place.rows * part.size
			for j := range part.size {
				word := uint32(0)
				if p.lo+j < p.hi {
					word = math.Float32bits(x[p.lo+j])
				}
				place.to[at+j*place.rows] = word
			}
		}
	}
}

// putCodes writes codes as words, step apart, with zeros behind them up to size, and returns their negated sum.
func putCodes(to []uint32, codes []int8, step, size int) uint32 {
	sum := int32(0)
	for k := 0; k < size; k += 4 {
		var c [4]int8
		if k < len(codes) {
			copy(c[:], codes[k:])
		}
		sum += int32(c[0]) + int32(c[1]) + int32(c[2]) + int32(c[3])
		to[k/4*step] = word4(c[:])
	}
	return uint32(-sum)
}

// groupsPart is a product as workers see it: with a matrix, or with one class of its rows.
type groupsPart struct {
	*Groups
	x         *GroupRows
	dst       []float32
	rows      int     // of the whole matrix: between rows of dst
	first     int     // row of the whole matrix that is the first of the part
	step      int     // between its rows
	sums      []int32 // nil, or those of the whole matrix
	total     int     // sums of a row of activations
	firstSum  int     // of the first row
	stepOfSum int     // between rows
}

// parts appends the products with the matrices or classes behind p.
func (p *GroupsProduct) parts(list []groupsPart, x *GroupRows) []groupsPart {
	g := p.Matrix
	whole := groupsPart{Groups: g, x: x, dst: p.Dst, rows: g.Rows, step: 1, sums: p.Sums}
	if p.Sums != nil {
		whole.total, whole.stepOfSum = g.TotalPieces(), g.Cols/g.Size
	}
	if g.classes == nil {
		return append(list, whole)
	}
	whole.step, whole.stepOfSum = len(g.classes), 0
	if p.Sums != nil {
		for _, c := range g.classes {
			whole.stepOfSum += len(c.pieces)
		}
	}
	for i, c := range g.classes {
		part := whole
		part.Groups, part.x, part.first = c.Groups, &x.classes[i], i
		list = append(list, part)
		whole.firstSum += len(c.pieces)
	}
	return list
}
