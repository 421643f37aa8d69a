package kernels

import "qwb/kernels/ref"

// CombineBlock is how many elements the vectors of Combine have, or a multiple of it.
const CombineBlock = 16

// combineBlocks is how many blocks a row of combinations takes at once.
const combineBlocks = 4

// Combine is, for every block of CombineBlock elements of dst, ref.Combine of the block that begins blockStep elements after the
// one before in m: dst[16*b+i] is the sum of s[k] * m[b*blockStep+k*step+i] over k, in the order of k. It is the same in every
// row, bit for bit. The length of dst must be a multiple of CombineBlock.
func (t *Table) Combine(dst, s, m []float32, step, blockStep int) {
	if len(dst)%CombineBlock != 0 {
		panic("kernels: combinations are of whole blocks")
	}
	if len(dst) == 0 {
		return
	}
	if len(s) == 0 {
		clear(dst)
		return
	}
	blocks := len(dst) / CombineBlock
	checkLen("m", len(m), (blocks-1)*blockStep+(len(s)-1)*step+CombineBlock)
	w := t.borrow()
	for b := 0; b < blocks; b += combineBlocks {
		n := min(combineBlocks, blocks-b)
		w.tile = tile{a: s, cols: len(s), panel: m[b*blockStep:], lda: step, ldd: blockStep, dst: dst[b*CombineBlock:], rows: n}
		t.rows[OpCombine].tile(&w.tile)
	}
	t.giveBack(w)
}

func goCombine(t *tile) {
	for b := range t.rows {
		ref.Combine(t.dst[b*CombineBlock:][:CombineBlock], t.a, t.panel[b*t.ldd:], t.lda)
	}
}
