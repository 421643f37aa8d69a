package kernels

import "qwb/kernels/ref"

// GramLanes is how many columns a panel of rows has; see Table.Gram.
const GramLanes = ref.GramLanes

// gramTile is one call of a row of OpGram. Assembly reads it by offset; a test holds the offsets.
type gramTile struct {
	a, b  *int16
	dst   *int64
	pairs int // of rows, not 0
}

// goGramRows lists the plain Go rows.
var goGramRows = []Row{{Name: "gram-go", Op: OpGram, ISA: "go", MR: GramLanes, NR: GramLanes}}

// Gram is ref.Gram: it adds to dst, GramLanes rows of GramLanes sums, the products of each column of a with each of b, over all rows.
// largest bounds the magnitude of a product of two elements: from it follows how many rows are added up in 32 bits. Every row of the table
// gives the same sums.
func (t *Table) Gram(dst []int64, a, b []int16, largest int) {
	checkLen("dst", len(dst), GramLanes*GramLanes)
	checkLen("b", len(b), len(a))
	run := t.rows[OpGram].gram
	if run == nil {
		ref.Gram(dst, a, b)
		return
	}
	// Panels of up to gramBlock pairs stay in the first-level cache.
	const wide, gramBlock = 2 * GramLanes, 64
	tile := gramTile{dst: &dst[0]}
	for step := min(max(1, (1<<31-1)/(2*max(largest, 1))), gramBlock) * wide; len(a) >= wide; {
		n := min(step, len(a)/wide*wide)
		tile.a, tile.b, tile.pairs = &a[0], &b[0], n/wide
		run(&tile)
		a, b = a[n:], b[n:]
	}
}
