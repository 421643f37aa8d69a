package kernels

import "qwb/kernels/ref"

// columnsTile is one call of sums by column, eight of them. Assembly reads it by offset; a test holds the offsets.
type columnsTile struct {
	x, y   *float32
	sums   *float64
	rows   int // not 0
	stride int // bytes from one row to the next
}

// columnsAtOnce is how many columns a row of sums by column adds up.
const columnsAtOnce = 8

// columnsNear is about how many elements of each side stay in the first cache from one group of columns to the next.
const columnsNear = 2048

// AddDifferences is ref.AddDifferences, bit for bit: x and y are rows of len(sums) elements. y must be at least as long as x.
func (t *Table) AddDifferences(sums []float64, x, y []float32) {
	checkLen("y", len(y), len(x))
	n, whole := len(sums), 0
	if row := columnsRow(t.rows[OpRowSum].ISA); row != nil && n >= columnsAtOnce {
		whole = n / columnsAtOnce * columnsAtOnce
		c := columnsTile{stride: 4 * n}
		near := max(columnsNear/n, 1)
		for first := 0; first < len(x)/n; first += near {
			c.rows = min(near, len(x)/n-first)
			for i := 0; i < whole; i += columnsAtOnce {
				c.x, c.y, c.sums = &x[first*n+i], &y[first*n+i], &sums[i]
				row(&c)
			}
		}
	}
	ref.AddDifferences(sums, x, y, whole)
}
