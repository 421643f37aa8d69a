package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.strip; a test in package kernels holds them to the struct.
const (
	offStrip   = 224 // in kernels.tile
	offCount   = 0
	offStepA   = 8
	offStepD   = 16
	offStepR   = 24
	offSecondA = 32
	offSecondD = 40
	offSecondR = 48
	offLdr     = 56
	offAdd     = 64
	offAhead   = 88
	offAheadN  = 96
)

// Registers of a strip beside those of a tile.
var (
	regHalf  = []reg.GPPhysical{reg.R11, reg.R12} // both halves of the rows at the current element
	regOut   = reg.R13                            // row 0 of dst
	regAhead = reg.R14                            // what is prefetched next
)

// strip emits tiles that are repeated; see kernels.strip. The rows of a tile are two halves.
type strip struct {
	*gen
	v          isa
	rows, half int
	acc        [][]reg.VecPhysical

	count, add   operand.Mem // tiles left; row 0 of what is added, 0 for nothing
	ahead, after operand.Mem // bounds of what is prefetched
}

func newStrip(g *gen, v isa, rows, vecs int) *strip {
	s := &strip{gen: g, v: v, rows: rows, half: (rows + 1) / 2, acc: v.accumulators(rows, vecs)}
	s.count, s.add, s.ahead, s.after = g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	return s
}

// get loads a field of the strip.
func (s *strip) get(off int, to reg.GPPhysical) {
	s.MOVQ(s.field(offStrip), to)
	s.MOVQ(operand.Mem{Base: to, Disp: off}, to)
}

// move adds a field of the strip, a number of elements, to a pointer. It uses regTmp.
func (s *strip) move(off int, to reg.GPPhysical) {
	s.get(off, regTmp)
	s.LEAQ(operand.Mem{Base: to, Index: regTmp, Scale: 4}, to)
}

// row returns the address of element disp/4 of row r of a.
func (s *strip) row(r, disp int) operand.Mem {
	m := operand.Mem{Base: regHalf[r/s.half], Disp: disp}
	switch r %= s.half; r {
	case 1, 2, 4:
		m.Index, m.Scale = regLda, uint8(r)
	case 3:
		m.Index, m.Scale = regLda3, 1
	case 5:
		m.Index, m.Scale = regLda5, 1
	case 6:
		m.Index, m.Scale = regLda3, 2
	}
	return m
}

// begin loads what stays in registers and in the frame, and begins the first tile.
func (s *strip) begin() {
	s.Load(s.Param("t"), regTile)
	s.MOVQ(s.field(offA), regA)
	s.MOVQ(s.field(offDst), regOut)
	s.MOVQ(s.field(offLda), regLda)
	s.SHLQ(operand.U8(2), regLda)
	if s.half > 3 {
		s.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 2}, regLda3)
	}
	if s.half > 5 {
		s.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 4}, regLda5)
	}
	s.get(offCount, regTmp)
	s.MOVQ(regTmp, s.count)
	s.get(offAdd, regTmp)
	s.MOVQ(regTmp, s.add)
	s.get(offAhead, regAhead)
	s.MOVQ(regAhead, s.ahead)
	s.get(offAheadN, regTmp)
	s.LEAQ(operand.Mem{Base: regAhead, Index: regTmp, Scale: 4}, regTmp)
	s.MOVQ(regTmp, s.after)
	if s.v == avx512 {
		s.columnMasks(s.v, len(s.acc[0]), 0)
	}
	s.Label("tile")
	s.MOVQ(s.field(offPanel), regPanel)
	s.MOVQ(s.field(offSegs), regSeg)
	s.eachAdded("fresh", func(_, _ int, at operand.Mem) { s.PREFETCHT0(at) })
	s.start()
}

// start fills the accumulators with dst if load is set, else with zeros.
func (s *strip) start() {
	mask := s.v.count() - 2
	s.CMPQ(s.field(offLoad), operand.U8(0))
	s.JNE(operand.LabelRef("resume"))
	s.zero(s.acc)
	s.JMP(operand.LabelRef("segments"))
	s.Label("resume")
	s.masks(mask)
	s.eachOut(func(r int, at reg.GPPhysical) {
		for i, x := range s.acc[r] {
			s.loadMasked(s.v, operand.Mem{Base: at, Disp: i * s.v.bytes()}, i, mask, x)
		}
	})
	s.Label("segments")
	s.MOVQ(s.field(offNSegs), regSegs)
	s.TESTQ(regSegs, regSegs)
	s.JZ(operand.LabelRef("epilogue"))
}

// masks makes the masks of columns where they do not stay in registers of their own.
func (s *strip) masks(at int) {
	if s.v == avx2 {
		s.columnMasks(s.v, len(s.acc[0]), at)
	}
}

// segment points regHalf at the next segment and regN at its length.
func (s *strip) segment() {
	s.MOVQ(operand.Mem{Base: regSeg}, regTmp)
	s.MOVQ(operand.Mem{Base: regSeg, Disp: 8}, regN)
	s.ADDQ(operand.U8(sizeSeg), regSeg)
	s.LEAQ(operand.Mem{Base: regA, Index: regTmp, Scale: 4}, regHalf[0])
	if s.rows > s.half {
		s.MOVQ(regHalf[0], regHalf[1])
		s.move(offSecondA, regHalf[1])
	}
}

// advance moves both halves on by n elements.
func (s *strip) advance(n int) {
	s.ADDQ(operand.U8(4*n), regHalf[0])
	if s.rows > s.half {
		s.ADDQ(operand.U8(4*n), regHalf[1])
	}
}

// prefetch asks for 128 bytes more of what comes after this panel; at the end it begins again, where the lines are there.
func (s *strip) prefetch() {
	s.PREFETCHT1(operand.Mem{Base: regAhead})
	s.PREFETCHT1(operand.Mem{Base: regAhead, Disp: 64})
	s.ADDQ(operand.U32(128), regAhead)
	s.CMPQ(regAhead, s.after)
	s.CMOVQCC(s.ahead, regAhead)
}

// eachOut calls f with a register that points at each row of dst.
func (s *strip) eachOut(f func(r int, at reg.GPPhysical)) {
	s.MOVQ(s.field(offLdd), regLdd)
	s.SHLQ(operand.U8(2), regLdd)
	s.MOVQ(regOut, regDst)
	for r := range s.rows {
		switch {
		case r == s.half:
			s.MOVQ(regOut, regDst)
			s.move(offSecondD, regDst)
		case r > 0:
			s.ADDQ(regLdd, regDst)
		}
		f(r, regDst)
	}
}

// eachAdded calls f with the address of each vector of what is added to the result, and jumps to skip if nothing is.
func (s *strip) eachAdded(skip string, f func(r, i int, at operand.Mem)) {
	s.MOVQ(s.add, regDst)
	s.TESTQ(regDst, regDst)
	s.JZ(operand.LabelRef(skip))
	s.get(offLdr, regLdd)
	s.SHLQ(operand.U8(2), regLdd)
	for r := range s.rows {
		switch {
		case r == s.half:
			s.MOVQ(s.add, regDst)
			s.move(offSecondR, regDst)
		case r > 0:
			s.ADDQ(regLdd, regDst)
		}
		for i := range s.acc[r] {
			f(r, i, operand.Mem{Base: regDst, Disp: i * s.v.bytes()})
		}
	}
	s.Label(skip)
}

// finish adds the bias and what is to be added, applies the limits, stores, and goes on to the next tile.
func (s *strip) finish() {
	free := s.v.count() - 4
	mask := free + 2
	s.Label("epilogue")
	s.masks(mask)
	s.MOVQ(s.field(offBias), regTmp)
	s.TESTQ(regTmp, regTmp)
	s.JZ(operand.LabelRef("unbiased"))
	for i := range s.acc[0] {
		s.loadMasked(s.v, operand.Mem{Base: regTmp, Disp: i * s.v.bytes()}, i, mask, s.v.vec(free+i))
	}
	for _, row := range s.acc {
		for i, x := range row {
			s.VADDPS(s.v.vec(free+i), x, x)
		}
	}
	s.Label("unbiased")
	s.eachAdded("limit", func(r, i int, at operand.Mem) {
		x := s.acc[r][i]
		if s.v == avx512 {
			s.VADDPS(at, x, masks[i], x)
			return
		}
		s.loadMasked(s.v, at, i, mask, s.v.vec(free))
		s.VADDPS(s.v.vec(free), x, x)
	})
	lo, hi := s.v.vec(free), s.v.vec(free+1)
	s.VBROADCASTSS(s.field(offLo), lo)
	s.VBROADCASTSS(s.field(offHi), hi)
	s.eachOut(func(r int, at reg.GPPhysical) {
		for i, x := range s.acc[r] {
			// With x as the second source, MAX and MIN return x for NaN and for zeros of either sign.
			s.VMAXPS(x, lo, x)
			s.VMINPS(x, hi, x)
			s.storeMasked(s.v, x, i, mask, operand.Mem{Base: at, Disp: i * s.v.bytes()})
		}
	})
	s.DECQ(s.count)
	s.JZ(operand.LabelRef("end"))
	s.move(offStepA, regA)
	s.move(offStepD, regOut)
	s.MOVQ(s.add, regDst)
	s.TESTQ(regDst, regDst)
	s.JZ(operand.LabelRef("tile"))
	s.move(offStepR, regDst)
	s.MOVQ(regDst, s.add)
	s.JMP(operand.LabelRef("tile"))
	s.Label("end")
	s.VZEROUPPER()
	s.RET()
}
