package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var combineFiles = []file{
	{"avx512", []family{{"combineAVX512", 4, 4, combine(avx512)}}},
	{"avx2", []family{{"combineAVX2", 1, 4, combine(avx2)}}},
}

// combineKernel is a combination of rows rows with blocks blocks of 16 columns.
type combineKernel struct {
	*gen
	v            isa
	rows, blocks int
	vecs         int // of a block
}

var (
	combineApart, combineApart3 = regLdd, reg.R13 // between blocks, and three times that, in bytes
	combineRow, combineRow3     = reg.R9, reg.R10 // between rows of a
)

func (k *combineKernel) acc(r, b, i int) reg.VecPhysical { return k.v.vec((r*k.blocks+b)*k.vecs + i) }

// each calls f for every vector of the blocks.
func (k *combineKernel) each(f func(b, i int)) {
	for b := range k.blocks {
		for i := range k.vecs {
			f(b, i)
		}
	}
}

// hang is the address of element disp/4 of the n-th of lines that lie apart, thrice apart being in another register.
func hang(base, apart, thrice reg.Register, n, disp int) operand.Mem {
	m := operand.Mem{Base: base, Disp: disp}
	switch n {
	case 1, 2:
		m.Index, m.Scale = apart, uint8(n)
	case 3:
		m.Index, m.Scale = thrice, 1
	}
	return m
}

// add adds the products of the numbers at disp of a, of the rows from first on, with the vectors of the panel.
func (k *combineKernel) add(first, disp int) {
	spare := func(i int) reg.VecPhysical { return k.v.vec(k.v.count() - 1 - i) }
	vector := func(b, i int) operand.Op {
		return hang(regPanel, combineApart, combineApart3, b, i*k.v.bytes())
	}
	if k.rows > 1 {
		from := vector
		vector = func(b, i int) operand.Op { return spare(3 + b*k.vecs + i) }
		k.each(func(b, i int) { k.VMOVUPS(from(b, i), vector(b, i)) })
	}
	for r := first; r < k.rows; r++ {
		k.VBROADCASTSS(hang(regA, combineRow, combineRow3, r, disp), spare(0))
		k.each(func(b, i int) {
			product := spare(1 + (b*k.vecs+i)%2)
			k.VMULPS(vector(b, i), spare(0), product)
			k.VADDPS(product, k.acc(r, b, i), k.acc(r, b, i))
		})
	}
	k.ADDQ(regLda, regPanel)
}

// combine is, for rows rows r, as many as the strip counts, and blocks blocks of 16 columns,
//
//	dst[r*stepD+16*b+i] = sum over k in 0..n of float32(a[r*stepA+k] * panel[b*ldd+k*lda+i])
//
// in the order of k, every operation rounded; n is cols, and one more from row to row if load is not 0.
func combine(v isa) func(g *gen, rows, blocks int) {
	return func(g *gen, rows, blocks int) {
		k := &combineKernel{g, v, rows, blocks, rowLanes / int(v)}
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(offA), regA)
		g.MOVQ(g.field(offPanel), regPanel)
		g.MOVQ(g.field(offDst), regDst)
		g.MOVQ(g.field(offLda), regLda)
		g.SHLQ(operand.U8(2), regLda)
		g.MOVQ(g.field(offLdd), combineApart)
		g.SHLQ(operand.U8(2), combineApart)
		g.LEAQ(operand.Mem{Base: combineApart, Index: combineApart, Scale: 2}, combineApart3)
		if rows > 1 {
			g.MOVQ(g.field(offStrip), regTmp)
			g.MOVQ(operand.Mem{Base: regTmp, Disp: offStepA}, combineRow)
			g.SHLQ(operand.U8(2), combineRow)
			g.LEAQ(operand.Mem{Base: combineRow, Index: combineRow, Scale: 2}, combineRow3)
			g.MOVQ(operand.Mem{Base: regTmp, Disp: offStepD}, regTmp)
			g.SHLQ(operand.U8(2), regTmp)
		}
		g.MOVQ(g.field(offCols), regN)
		for r := range rows {
			k.each(func(b, i int) { g.VXORPS(k.acc(r, b, i), k.acc(r, b, i), k.acc(r, b, i)) })
		}
		g.Label("loop")
		k.add(0, 0)
		g.ADDQ(operand.U8(4), regA)
		g.DECQ(regN)
		g.JNZ(operand.LabelRef("loop"))
		if rows > 1 {
			g.CMPQ(g.field(offLoad), operand.U8(0))
			g.JEQ(operand.LabelRef("store"))
			for r := 1; r < rows; r++ {
				k.add(r, 4*(r-1))
			}
			g.Label("store")
		}
		for r := range rows {
			if r > 0 {
				g.ADDQ(regTmp, regDst)
			}
			k.each(func(b, i int) {
				g.VMOVUPS(k.acc(r, b, i), operand.Mem{Base: regDst, Disp: (b*rowLanes*4 + i*v.bytes())})
			})
		}
		g.end()
	}
}
