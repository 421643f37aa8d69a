package program

import "qwb/quantizer/lower"

// columns are the right factor of a product, so that one multiplication of 64 bits makes several products: an integer holds the numbers of
// up to three columns, one above the other, as a sum of multiples of powers of two. Sums of products stay apart as long as no lane leaves
// its bits, for which the terms are cut into stretches. Everything is exact: it only is the plain loop with fewer multiplications.
type columns struct {
	n     int // columns
	lanes int // columns of one integer
	bits  int // of a lane
	pairs []columnPair
}

// columnPair are the columns of two integers.
type columnPair struct {
	words [2][]int64 // by term
	ends  []int      // of the stretches
}

// newColumns packs columns of as many numbers each. The numbers that they will be multiplied with are of at most the magnitude most.
func newColumns(list [][]int32, most int64) *columns {
	largest, k := int64(0), 0
	for _, column := range list {
		k = len(column)
		for _, q := range column {
			largest = max(largest, magnitude(q))
		}
	}
	c := &columns{n: len(list), lanes: 1, bits: 64}
	for _, lanes := range []int{3, 2} {
		if bits := 64 / lanes; largest*most < 1<<(bits-1) {
			c.lanes, c.bits = lanes, bits
			break
		}
	}
	for len(list) > 0 {
		n := min(2*c.lanes, len(list))
		c.pairs = append(c.pairs, c.pack(list[:n], k, most))
		list = list[n:]
	}
	return c
}

// pack puts up to twice so many columns as there are lanes into two integers for each term.
func (c *columns) pack(list [][]int32, k int, most int64) columnPair {
	words := make([]int64, 2*k)
	q := columnPair{words: [2][]int64{words[:k], words[k:]}}
	room := int64(1)<<(c.bits-1) - 1
	held := make([]int64, len(list)) // the largest sums of the stretch
	for p := range k {
		over := false
		for j, column := range list {
			q.words[j/c.lanes][p] += int64(column[p]) << (c.bits * (j % c.lanes))
			held[j] += magnitude(column[p]) * most
			over = over || held[j] > room
		}
		if over { // the stretch ends in front of this term
			q.ends = append(q.ends, p)
			for j, column := range list {
				held[j] = magnitude(column[p]) * most
			}
		}
	}
	q.ends = append(q.ends, k)
	return q
}

func magnitude(q int32) int64 { return max(int64(q), -int64(q)) }

// times multiplies rows with the columns: the sum of row i and column j is dst[j*byColumn+i*byRow].
func (c *columns) times(dst []int64, byColumn, byRow int, rows [][]int32) {
	sums := make([]int64, 4*c.lanes) // of two rows and two integers
	for k := range c.pairs {
		q := &c.pairs[k]
		for i := 0; i < len(rows); i += 2 {
			x, y, two := rows[i], rows[i], i+1 < len(rows)
			if two {
				y = rows[i+1]
			}
			clear(sums)
			from := 0
			for _, to := range q.ends {
				a := dot(x[from:to], y[from:to], q.words[0][from:to], q.words[1][from:to])
				for s, lane := range a {
					c.unpack(sums[s*c.lanes:][:c.lanes], lane)
				}
				from = to
			}
			for j := range min(2*c.lanes, c.n-k*2*c.lanes) {
				at := (k*2*c.lanes+j)*byColumn + i*byRow
				if dst[at] = sums[j]; two {
					dst[at+byRow] = sums[2*c.lanes+j]
				}
			}
		}
	}
}

// dot returns the sums of x*a, x*b, y*a and y*b, lane by lane.
func dot(x, y []int32, a, b []int64) [4]int64 {
	var xa, xb, ya, yb int64
	y, a, b = y[:len(x)], a[:len(x)], b[:len(x)]
	for i, q := range x {
		s, t := int64(q), int64(y[i])
		w := a[i]
		xa, ya = xa+s*w, ya+t*w
		w = b[i]
		xb, yb = xb+s*w, yb+t*w
	}
	return [4]int64{xa, xb, ya, yb}
}

// unpack adds the lanes of an integer to their sums. What a lane of less than zero took from the one above goes back there.
func (c *columns) unpack(sums []int64, word int64) {
	up := 64 - c.bits
	for j := range sums {
		if j == c.lanes-1 {
			sums[j] += word
			return
		}
		low := word << up >> up
		sums[j] += low
		word = (word - low) >> c.bits
	}
}

// reach is the largest magnitude of integers of an encoding's type less its zero point.
func reach(e *lower.Encoding) int64 {
	least, most := int64(0), int64(1)<<e.DType().Bits()-1
	if e.QMin < 0 {
		least, most = -(most+1)/2, most/2
	}
	return max(most-int64(e.ZeroPoint), int64(e.ZeroPoint)-least)
}
