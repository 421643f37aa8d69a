package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What moves elements and computes nothing waits for memory: ymm registers are wide enough.
var moveFiles = []file{
	{"avx2", []family{{"chooseAVX2", 1, 1, choose}, {"turnAVX2", 1, 1, turn}}},
}

// Offsets of the fields of kernels.moveTile; a test in package kernels holds them to the struct.
const (
	offMoveDst  = 0
	offMoveX    = 8
	offMoveY    = 16
	offMoveMask = 24
	offMoveN    = 32
	offMoveLdx  = 40
	offMoveLdd  = 48
	moveLanes   = 8
)

// choose takes eight elements at a time from x where the mask has a one, else from y.
func choose(g *gen, _, _ int) {
	regX, regY, regMask := regA, regPanel, regSeg
	zero, mask, x := avx2.vec(0), avx2.vec(1), avx2.vec(2)
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(offMoveDst), regDst)
	g.MOVQ(g.field(offMoveX), regX)
	g.MOVQ(g.field(offMoveY), regY)
	g.MOVQ(g.field(offMoveMask), regMask)
	g.MOVQ(g.field(offMoveN), regN)
	g.VPXOR(zero, zero, zero)
	g.Label("loop")
	g.VPMOVZXBD(operand.Mem{Base: regMask}, mask)
	g.VPCMPEQD(zero, mask, mask)
	g.VMOVUPS(operand.Mem{Base: regX}, x)
	g.VBLENDVPS(mask, operand.Mem{Base: regY}, x, x)
	g.VMOVUPS(x, operand.Mem{Base: regDst})
	for _, p := range []reg.GPPhysical{regX, regY, regDst} {
		g.ADDQ(operand.U8(4*moveLanes), p)
	}
	g.ADDQ(operand.U8(moveLanes), regMask)
	g.SUBQ(operand.U8(moveLanes), regN)
	g.JG(operand.LabelRef("loop"))
	g.end()
}

// turn transposes blocks of eight rows of x and eight columns, side by side in x and below each other in dst.
func turn(g *gen, _, _ int) {
	regX, regX4, regDst4, regLdd3 := regA, regSeg, regSegs, regLda5
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(offMoveDst), regDst)
	g.MOVQ(g.field(offMoveX), regX)
	g.MOVQ(g.field(offMoveN), regN)
	g.MOVQ(g.field(offMoveLdx), regLda)
	g.MOVQ(g.field(offMoveLdd), regLdd)
	g.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 2}, regLda3)
	g.LEAQ(operand.Mem{Base: regLdd, Index: regLdd, Scale: 2}, regLdd3)
	// at is row i, of eight, behind two pointers that are four rows apart
	at := func(i int, low, high, step, triple reg.GPPhysical) operand.Mem {
		m := operand.Mem{Base: []reg.GPPhysical{low, high}[i/4]}
		switch i % 4 {
		case 1, 2:
			m.Index, m.Scale = step, uint8(i%4)
		case 3:
			m.Index, m.Scale = triple, 1
		}
		return m
	}
	g.Label("loop")
	g.LEAQ(operand.Mem{Base: regX, Index: regLda, Scale: 4}, regX4)
	g.LEAQ(operand.Mem{Base: regDst, Index: regLdd, Scale: 4}, regDst4)
	rows, pairs := vectors(0), vectors(8)
	for i, r := range rows {
		g.VMOVUPS(at(i, regX, regX4, regLda, regLda3), r)
	}
	for i := 0; i < 8; i += 2 { // elements of two rows beside each other
		g.VUNPCKLPS(rows[i+1], rows[i], pairs[i])
		g.VUNPCKHPS(rows[i+1], rows[i], pairs[i+1])
	}
	for i := 0; i < 8; i += 4 { // of four rows
		for k := range 2 {
			g.VUNPCKLPD(pairs[i+2+k], pairs[i+k], rows[i+2*k])
			g.VUNPCKHPD(pairs[i+2+k], pairs[i+k], rows[i+2*k+1])
		}
	}
	for i := range 4 { // of eight
		g.VPERM2F128(operand.U8(0x20), rows[i+4], rows[i], pairs[i])
		g.VPERM2F128(operand.U8(0x31), rows[i+4], rows[i], pairs[i+4])
	}
	for i, r := range pairs {
		g.VMOVUPS(r, at(i, regDst, regDst4, regLdd, regLdd3))
	}
	g.ADDQ(operand.U8(4*moveLanes), regX)
	g.LEAQ(operand.Mem{Base: regDst, Index: regLdd, Scale: 8}, regDst)
	g.DECQ(regN)
	g.JG(operand.LabelRef("loop"))
	g.end()
}

// vectors are eight registers.
func vectors(first int) []reg.VecPhysical {
	list := make([]reg.VecPhysical, moveLanes)
	for i := range list {
		list[i] = avx2.vec(first + i)
	}
	return list
}
