package kernels

import "math"

// moveTile is one call of what moves elements. Assembly reads it by offset; a test holds the offsets.
type moveTile struct {
	dst, x, y *float32
	mask      *bool
	n         int // elements, a multiple of moveLanes, or blocks; not 0
	ldx, ldd  int // bytes from one row to the next
}

// moveLanes is how many elements are moved together: of a row, or rows and columns of a block.
const moveLanes = 8

// Choose is dst[i] = x[i] where first[i], else y[i], for len(dst) elements; the others must be at least as long. dst may be x or y.
func (t *Table) Choose(dst []float32, first []bool, x, y []float32) {
	n := len(dst)
	first, x, y = first[:n], x[:n], y[:n]
	whole := 0
	if moves(t.rows[OpAdd].ISA) && n >= moveLanes {
		whole = n / moveLanes * moveLanes
		choose(&moveTile{dst: &dst[0], x: &x[0], y: &y[0], mask: &first[0], n: whole})
	}
	goChoose(dst[whole:], first[whole:], x[whole:], y[whole:])
}

// goChoose has no branches, which conditions in no order would mispredict.
func goChoose(dst []float32, first []bool, x, y []float32) {
	first, x, y = first[:len(dst)], x[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = pick(first[i], math.Float32bits(x[i]), math.Float32bits(y[i]))
	}
}

func pick(first bool, x, y uint32) float32 {
	take := uint32(0)
	if first {
		take = 1
	}
	return math.Float32frombits(y ^ (x^y)&-take)
}

// turnTile is how many rows and columns plain Go moves together: both sides stay in the first cache. turnBlocks is how many blocks beside
// each other a kernel does.
const (
	turnTile   = 16
	turnBlocks = 8
)

// Transpose is dst[j*ldd+i] = src[i*lds+j] for i < rows, j < cols. dst and src must not overlap.
func (t *Table) Transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if !moves(t.rows[OpAdd].ISA) || min(rows, cols) < moveLanes {
		transpose(dst, ldd, src, lds, rows, cols)
		return
	}
	checkLen("src", len(src), (rows-1)*lds+cols)
	checkLen("dst", len(dst), (cols-1)*ldd+rows)
	m := moveTile{ldx: 4 * lds, ldd: 4 * ldd}
	for j := 0; j < cols; j += m.n * moveLanes {
		m.n = min(turnBlocks, (cols-j)/moveLanes)
		if m.n == 0 { // the last blocks reach back to what was moved already, here and below
			j, m.n = cols-moveLanes, 1
		}
		for i := 0; i < rows; i += moveLanes {
			i := min(i, rows-moveLanes)
			m.x, m.dst = &src[i*lds+j], &dst[j*ldd+i]
			turn(&m)
		}
	}
}

// transpose is Transpose in plain Go.
func transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	for j0 := 0; j0 < cols; j0 += turnTile {
		j1 := min(j0+turnTile, cols)
		for i0 := 0; i0 < rows; i0 += turnTile {
			for i := i0; i < min(i0+turnTile, rows); i++ {
				at := j0*ldd + i
				for _, v := range src[i*lds+j0 : i*lds+j1] {
					dst[at] = v
					at += ldd
				}
			}
		}
	}
}
