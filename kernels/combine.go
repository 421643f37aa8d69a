package kernels

import "qwb/kernels/ref"

// CombineBlock is how many elements the vectors of Combine have.
const CombineBlock = 16

// combineBlocks is how many blocks a row of combinations takes at once.
const combineBlocks = 4

// Combination is what Combine does: for each of Rows rows of numbers S, StepS apart, and for each of Blocks blocks of vectors in M,
// BlockStep apart, ref.Combine of the row's N numbers with as many vectors, Step apart. The sums of a row lie block by block in Dst, those
// of rows StepDst apart.
type Combination struct {
	Dst, S, M []float32
	Rows      int
	N         int // numbers of the first row, 0 for sums of 0
	// Grow says that every row has one number more than the one before.
	Grow            bool
	StepS, StepDst  int
	Blocks          int
	Step, BlockStep int
}

// Combine computes weighted sums of vectors, dst[r*StepDst+16*b+i] that of s[r*StepS+k] * m[b*BlockStep+k*Step+i] over k, in the order of
// k. It is the same in every row of the table, bit for bit.
func (t *Table) Combine(c Combination) {
	if c.Rows < 1 || c.Blocks < 1 {
		return
	}
	grow := 0
	if c.Grow {
		grow = 1
	}
	most := c.N + grow*(c.Rows-1)
	checkLen("dst", len(c.Dst), (c.Rows-1)*c.StepDst+c.Blocks*CombineBlock)
	checkLen("s", len(c.S), (c.Rows-1)*c.StepS+most)
	if most > 0 {
		checkLen("m", len(c.M), (c.Blocks-1)*c.BlockStep+(most-1)*c.Step+CombineBlock)
	}
	w := t.borrow()
	row := &t.rows[OpCombine]
	for r := 0; r < c.Rows; {
		n, rows := c.N+grow*r, min(max(row.MR, 1), c.Rows-r)
		if n == 0 {
			clear(c.Dst[r*c.StepDst:][:c.Blocks*CombineBlock])
			r++
			continue
		}
		w.strip = strip{count: rows, stepA: c.StepS, stepD: c.StepDst}
		for b := 0; b < c.Blocks; b += combineBlocks {
			w.tile = tile{a: c.S[r*c.StepS:], cols: n, panel: c.M[b*c.BlockStep:], lda: c.Step, ldd: c.BlockStep,
				dst: c.Dst[r*c.StepDst+b*CombineBlock:], rows: min(combineBlocks, c.Blocks-b), load: grow, strip: &w.strip}
			row.tile(&w.tile)
		}
		r += rows
	}
	t.giveBack(w)
}

// goCombine computes the blocks of one row.
func goCombine(t *tile) {
	for b := range t.rows {
		ref.Combine(t.dst[b*CombineBlock:][:CombineBlock], t.a[:t.cols], t.panel[b*t.ldd:], t.lda)
	}
}
