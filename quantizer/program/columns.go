package program

import "qwb/quantizer/lower"

// columns are the right factor of a product, so that one multiplication of 64 bits makes several products: an integer holds the numbers of
// up to three columns, one above the other, as a sum of multiples of powers of two. Sums of products stay apart as long as no lane leaves
// its bits, for which the terms are cut into stretches. Everything is exact: it only is the plain loop with fewer multiplications.
type columns struct {
	n      int                    // columns
	lanes  int                    // columns of one integer
	bits   int                    // of a lane
	groups [][][columnWords]int64 // by term
	ends   []int                  // of the stretches
}

// columnWords is how many integers a row is multiplied with at a time.
const columnWords = 4

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
	c.stretch(list, k, most)
	for len(list) > 0 {
		n := min(columnWords*c.lanes, len(list))
		words := make([][columnWords]int64, k)
		for j, column := range list[:n] {
			for p, q := range column {
				words[p][j/c.lanes] += int64(q) << (c.bits * (j % c.lanes))
			}
		}
		c.groups = append(c.groups, words)
		list = list[n:]
	}
	return c
}

// stretch cuts the terms where the sum of a column could leave its lane.
func (c *columns) stretch(list [][]int32, k int, most int64) {
	room := int64(1)<<(c.bits-1) - 1
	held := make([]int64, len(list)) // the largest sums of the stretch
	for p := range k {
		over := false
		for j, column := range list {
			held[j] += magnitude(column[p]) * most
			over = over || held[j] > room
		}
		if over { // the stretch ends in front of this term
			c.ends = append(c.ends, p)
			for j, column := range list {
				held[j] = magnitude(column[p]) * most
			}
		}
	}
	c.ends = append(c.ends, k)
}

func magnitude(q int32) int64 { return max(int64(q), -int64(q)) }

// rowsAtOnce is how many rows are multiplied with columns together.
const rowsAtOnce = 16

// leftRows are rows of as many numbers as a right factor has terms, and room for those of them that are not 0.
type leftRows struct {
	list   [][]int32
	others []otherTerms
}

// otherTerms are the terms of a row that are not 0, where they stand, and the ends of stretches among them.
type otherTerms struct {
	numbers, places []int32
	ends            []int
}

func newLeftRows(k int) *leftRows {
	r := &leftRows{list: make([][]int32, rowsAtOnce), others: make([]otherTerms, rowsAtOnce)}
	all := make([]int32, 3*rowsAtOnce*k)
	for i := range r.list {
		own := all[3*i*k:][:3*k]
		r.list[i], r.others[i].numbers, r.others[i].places = own[:k], own[k:2*k], own[2*k:]
	}
	return r
}

// sparse finds what is not 0 among the first n rows, and reports whether at least a quarter is 0, as behind a Relu: of the first row, of
// the first two, and so on, so that others are not searched to their end.
func (r *leftRows) sparse(n int, ends []int) bool {
	others, all := 0, 0
	for i, row := range r.list[:n] {
		o, from, count := &r.others[i], 0, 0
		numbers, places := o.numbers[:len(row)], o.places[:len(row)]
		o.ends = o.ends[:0]
		for _, to := range ends {
			for p, q := range row[from:to] {
				numbers[count], places[count] = q, int32(from+p)
				count += isOther(q)
			}
			o.ends, from = append(o.ends, count), to
		}
		others, all = others+count, all+len(row)
		if 4*others > 3*all {
			return false
		}
	}
	return true
}

// isOther is 1 for what is not 0, without a branch that nobody could foresee.
func isOther(q int32) int { return int(uint32(q|-q) >> 31) }

// times multiplies the first n rows with the columns: the sum of row i and column j is dst[j*byColumn+i*byRow].
func (c *columns) times(dst []int64, byColumn, byRow int, rows *leftRows, n int) {
	width := columnWords * c.lanes
	sums := make([]int64, width)
	sparse := rows.sparse(n, c.ends)
	for g, words := range c.groups {
		dst := dst[g*width*byColumn:]
		for i, row := range rows.list[:n] {
			clear(sums)
			o, ends, from := &rows.others[i], c.ends, 0
			if sparse {
				ends = o.ends
			}
			for _, to := range ends {
				var a [columnWords]int64
				if sparse {
					a = dotAt(o.numbers[from:to], o.places[from:to], words)
				} else {
					a = dot(row[from:to], words[from:to])
				}
				for s, word := range a {
					c.unpack(sums[s*c.lanes:][:c.lanes], word)
				}
				from = to
			}
			at := i * byRow
			for _, sum := range sums[:min(width, c.n-g*width)] {
				dst[at] = sum
				at += byColumn
			}
		}
	}
}

// dot returns the sums of a row's numbers times each of the integers, lane by lane.
func dot(row []int32, words [][columnWords]int64) [columnWords]int64 {
	var s0, s1, s2, s3 int64
	words = words[:len(row)]
	for i, q := range row {
		x, w := int64(q), &words[i]
		s0 += x * w[0]
		s1 += x * w[1]
		s2 += x * w[2]
		s3 += x * w[3]
	}
	return [columnWords]int64{s0, s1, s2, s3}
}

// dotAt is dot of numbers that stand at places.
func dotAt(numbers, places []int32, words [][columnWords]int64) [columnWords]int64 {
	var s0, s1, s2, s3 int64
	places = places[:len(numbers)]
	for i, q := range numbers {
		x, w := int64(q), &words[places[i]]
		s0 += x * w[0]
		s1 += x * w[1]
		s2 += x * w[2]
		s3 += x * w[3]
	}
	return [columnWords]int64{s0, s1, s2, s3}
}

// unpack adds the lanes of an integer to their sums. What a lane of less than zero took from the one above goes back there.
func (c *columns) unpack(sums []int64, word int64) {
	up := 64 - c.bits
	switch c.lanes {
	case 3:
		s := (*[3]int64)(sums)
		low := word << up >> up
		word = (word - low) >> c.bits
		mid := word << up >> up
		s[0], s[1], s[2] = s[0]+low, s[1]+mid, s[2]+(word-mid)>>c.bits
	case 2:
		s := (*[2]int64)(sums)
		low := word << up >> up
		s[0], s[1] = s[0]+low, s[1]+(word-low)>>c.bits
	default:
		sums[0] += word
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
