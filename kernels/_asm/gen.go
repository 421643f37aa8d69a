package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.tile; a test in package kernels holds them to the struct.
const (
	offA      = 0
	offPanel  = 24
	offDst    = 48
	offBias   = 72
	offSegs   = 96
	offNSegs  = 104
	offLda    = 120
	offLdd    = 128
	offRows   = 136
	offCols   = 144
	offLoad   = 152
	offLo     = 160
	offHi     = 164
	offCounts = 168
	offFloor  = 192
	offSide   = 196
	offLanes  = 200
	offMean   = 208
	offInv    = 216
	sizeSeg   = 16
)

// isa is a vector extension: 16 floats with mask registers, or 8 with masked moves.
type isa int

const (
	avx2   isa = 8
	avx512 isa = 16
)

// bytes of a vector.
func (v isa) bytes() int { return int(v) * 4 }

// vec returns vector register i.
func (v isa) vec(i int) reg.VecPhysical {
	if v == avx512 {
		return []reg.VecPhysical{
			reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
			reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29,
			reg.Z30, reg.Z31,
		}[i]
	}
	return []reg.VecPhysical{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	}[i]
}

// count returns the number of vector registers.
func (v isa) count() int {
	if v == avx512 {
		return 32
	}
	return 16
}

var masks = []reg.Register{reg.K1, reg.K2}

// gen emits the parts that all tiles share. The general registers have fixed roles.
type gen struct {
	*build.Context
	numbers []uint32 // constants that were asked for; see number
	masks   bool     // whether the table of masks was asked for; see columns
}

var (
	regTile  = reg.RAX
	regSeg   = reg.RBX // next segment
	regSegs  = reg.RCX // segments left
	regN     = reg.RDX // elements left in the segment
	regPanel = reg.RSI
	regA     = reg.RDI // row 0
	regLda   = reg.R8  // bytes
	regLda3  = reg.R9
	regLda5  = reg.R10
	regRow   = []reg.GPPhysical{reg.R11, reg.R12, reg.R13} // rows 0, 5 and 10 at the current element
	regDst   = reg.R11
	regLdd   = reg.R12
	regTmp   = reg.R15
)

func (g *gen) field(off int) operand.Mem { return operand.Mem{Base: regTile, Disp: off} }

// row returns the address of element disp/4 of row r: five rows hang on each of regRow.
func row(r, disp int) operand.Mem {
	m := operand.Mem{Base: regRow[r/5], Disp: disp}
	switch r % 5 {
	case 1, 2, 4:
		m.Index, m.Scale = regLda, uint8(r%5)
	case 3:
		m.Index, m.Scale = regLda3, 1
	}
	return m
}

// begin loads the operands that stay in registers.
func (g *gen) begin(rows int) {
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(offPanel), regPanel)
	g.MOVQ(g.field(offA), regA)
	g.MOVQ(g.field(offSegs), regSeg)
	g.MOVQ(g.field(offNSegs), regSegs)
	g.MOVQ(g.field(offLda), regLda)
	g.SHLQ(operand.U8(2), regLda)
	if rows > 3 {
		g.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 2}, regLda3)
	}
	if rows > 5 {
		g.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 4}, regLda5)
	}
}

// columnMasks makes masks of the tile's columns: K1, K2 on AVX-512, vector registers at and at+1 on AVX2.
func (g *gen) columnMasks(v isa, vecs, at int) {
	g.MOVQ(g.field(offCols), reg.RCX)
	if v == avx512 {
		g.MOVQ(operand.U32(1), regTmp)
		g.SHLQ(reg.CL, regTmp)
		g.DECQ(regTmp)
		for i := range vecs {
			if i > 0 {
				g.SHRQ(operand.U8(16), regTmp)
			}
			g.KMOVW(regTmp.As32(), masks[i])
		}
		return
	}
	g.LEAQ(g.columns(), regTmp)
	g.SHLQ(operand.U8(2), reg.RCX)
	g.SUBQ(reg.RCX, regTmp)
	for i := range vecs {
		g.VMOVDQU(operand.Mem{Base: regTmp, Disp: 64 + v.bytes()*i}, v.vec(at+i))
	}
}

// table begins a table of constants.
func (g *gen) table(name string) {
	g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
}

// columns returns the address of 16 ones and 16 zeros: loaded cols words before the zeros it is the mask of cols columns.
func (g *gen) columns() operand.Mem {
	g.masks = true
	return operand.NewDataAddr(operand.NewStaticSymbol("columns"), 0)
}

// maskTable declares the masks if they were asked for.
func (g *gen) maskTable() {
	if !g.masks {
		return
	}
	g.table("columns")
	for i := range 8 {
		g.AddDatum(8*i, operand.U64(1<<64-1))
	}
	for i := 8; i < 16; i++ {
		g.AddDatum(8*i, operand.U64(0))
	}
}

// loadMasked reads the columns of vector i; mask is the first mask register on AVX2.
func (g *gen) loadMasked(v isa, from operand.Mem, i, mask int, to reg.VecPhysical) {
	if v == avx512 {
		g.VMOVUPS_Z(from, masks[i], to)
		return
	}
	g.VMASKMOVPS(from, v.vec(mask+i), to)
}

func (g *gen) storeMasked(v isa, from reg.VecPhysical, i, mask int, to operand.Mem) {
	if v == avx512 {
		g.VMOVUPS(from, masks[i], to)
		return
	}
	g.VMASKMOVPS(from, v.vec(mask+i), to)
}

// accumulators returns the register of each row and vector: the first ones, row by row.
func (v isa) accumulators(rows, vecs int) [][]reg.VecPhysical {
	acc := make([][]reg.VecPhysical, rows)
	for r := range acc {
		for i := range vecs {
			acc[r] = append(acc[r], v.vec(r*vecs+i))
		}
	}
	return acc
}

// zero clears the accumulators.
func (g *gen) zero(acc [][]reg.VecPhysical) {
	for _, row := range acc {
		for _, x := range row {
			g.VXORPS(x, x, x)
		}
	}
}

// output points regDst at row 0 and puts the distance of rows into regLdd.
func (g *gen) output() {
	g.MOVQ(g.field(offDst), regDst)
	g.MOVQ(g.field(offLdd), regLdd)
	g.SHLQ(operand.U8(2), regLdd)
}
