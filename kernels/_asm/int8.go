package main

import (
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernels.tile8 has the fields of kernels.tile at the same offsets, but for these.
const (
	offInit = 72  // instead of the bias
	offLdi  = 152 // instead of load
)

var int8Files = []file{
	{"avx512vnni", []family{{"gemm8AVX512VNNI", 14, 2, dotGemm(avx512, 2, evexDot)}}},
	{"avxvnni", []family{{"gemm8AVXVNNI", 6, 2, dotGemm(avx2, 2, vexDot)}}},
	{"avx512", []family{{"gemm8AVX512", 6, 4, pairGemm(avx512)}}},
	{"avx2", []family{{"gemm8AVX2", 3, 4, pairGemm(avx2)}}},
}

// begin8 loads the operands of a tile8 that stay in registers, for up to rows rows.
func (g *gen) begin8(rows int) {
	g.Load(g.Param("t"), regTile)
	g.MOVQ(g.field(offPanel), regPanel)
	g.MOVQ(g.field(offA), regA)
	g.MOVQ(g.field(offSegs), regSeg)
	g.MOVQ(g.field(offNSegs), regSegs)
	g.MOVQ(g.field(offLda), regLda)
	if rows > 3 {
		g.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 2}, regLda3)
	}
	if rows > 5 {
		g.LEAQ(operand.Mem{Base: regLda, Index: regLda, Scale: 4}, regLda5)
	}
}

// segment8 points regRow at the next segment and regN at its groups.
func (g *gen) segment8(rows int) {
	g.MOVQ(operand.Mem{Base: regSeg}, regTmp)
	g.MOVQ(operand.Mem{Base: regSeg, Disp: 8}, regN)
	g.ADDQ(operand.U8(sizeSeg), regSeg)
	g.LEAQ(operand.Mem{Base: regA, Index: regTmp, Scale: 1}, regRow[0])
	for i := 1; 5*i < rows; i++ {
		g.LEAQ(operand.Mem{Base: regRow[i-1], Index: regLda5, Scale: 1}, regRow[i])
	}
}

// start8 fills the accumulators with what the sums begin with.
func (g *gen) start8(v isa, acc [][]reg.VecPhysical) {
	g.MOVQ(g.field(offInit), regDst)
	g.MOVQ(g.field(offLdi), regLdd)
	for r, row := range acc {
		if r > 0 {
			g.LEAQ(operand.Mem{Base: regDst, Index: regLdd, Scale: 4}, regDst)
		}
		for i, x := range row {
			g.VMOVUPS(operand.Mem{Base: regDst, Disp: i * v.bytes()}, x)
		}
	}
}

// finish8 stores the accumulators and returns.
func (g *gen) finish8(v isa, acc [][]reg.VecPhysical) {
	g.output()
	for r, row := range acc {
		if r > 0 {
			g.ADDQ(regLdd, regDst)
		}
		for i, x := range row {
			g.VMOVUPS(x, operand.Mem{Base: regDst, Disp: i * v.bytes()})
		}
	}
	g.VZEROUPPER()
	g.RET()
}

// groups8 emits the loop over the segments and their groups. group emits group u of an unrolled loop; stride is the length in
// bytes of a group in the panel.
func (g *gen) groups8(rows, unroll, stride int, group func(u int)) {
	advance := func(n int) {
		for i := 0; 5*i < rows; i++ {
			g.ADDQ(operand.U8(4*n), regRow[i])
		}
		g.ADDQ(operand.U32(uint32(n*stride)), regPanel)
	}
	g.TESTQ(regSegs, regSegs)
	g.JZ(operand.LabelRef("end"))
	g.Label("next")
	g.segment8(rows)
	g.SUBQ(operand.U8(unroll), regN)
	g.JLT(operand.LabelRef("rest"))
	g.Label("loop")
	for u := range unroll {
		for line := 0; line < stride; line += 64 {
			g.PREFETCHT0(operand.Mem{Base: regPanel, Disp: 1024 + u*stride + line})
		}
		group(u)
	}
	advance(unroll)
	g.SUBQ(operand.U8(unroll), regN)
	g.JGE(operand.LabelRef("loop"))
	g.Label("rest")
	g.ADDQ(operand.U8(unroll), regN)
	g.JZ(operand.LabelRef("done"))
	g.Label("single")
	group(0)
	advance(1)
	g.DECQ(regN)
	g.JNZ(operand.LabelRef("single"))
	g.Label("done")
	g.DECQ(regSegs)
	g.JNZ(operand.LabelRef("next"))
	g.Label("end")
}

// dotGemm returns the emitter of gemm tiles by VPDPBUSD. A panel is always two vectors wide; tiles of one vector use its first
// half.
//
// For every group of four elements the panel's vectors are loaded once, each row's four bytes are broadcast from row-major a,
// and one instruction per row and vector multiplies and adds all four. Tiles of few rows have several sets of accumulators,
// used in turn, since a new sum can be begun twice in a cycle but takes five to finish.
func dotGemm(v isa, width int, dot func(g *gen, weights, x, acc reg.VecPhysical)) func(g *gen, rows, vecs int) {
	const unroll = 4
	return func(g *gen, rows, vecs int) {
		sets := 1
		for rows*vecs*sets < 10 && sets < unroll && rows*vecs*sets*2 <= v.count()-2-width {
			sets *= 2
		}
		all := v.accumulators(rows*sets, vecs)
		acc := all[:rows]
		b, x := v.count()-width, v.count()-width-2
		turn := 0
		g.begin8(rows)
		g.start8(v, acc)
		g.zero(all[rows:])
		g.groups8(rows, unroll, width*v.bytes(), func(u int) {
			for i := range vecs {
				g.VMOVUPS(operand.Mem{Base: regPanel, Disp: (u*width + i) * v.bytes()}, v.vec(b+i))
			}
			for r := range rows {
				bc := v.vec(x + turn%2)
				turn++
				g.VPBROADCASTD(row(r, 4*u), bc)
				for i := range vecs {
					dot(g, v.vec(b+i), bc, all[u%sets*rows+r][i])
				}
			}
		})
		for i := rows; i < len(all); i++ {
			for j, x := range all[i] {
				g.VPADDD(x, acc[i%rows][j], acc[i%rows][j])
			}
		}
		g.finish8(v, acc)
	}
}

// evexDot adds four products of the unsigned bytes of x and the signed bytes of weights to every element of acc.
func evexDot(g *gen, weights, x, acc reg.VecPhysical) { g.VPDPBUSD(weights, x, acc) }

// vexDot is evexDot on ymm registers in its VEX encoding, which the assembler does not write: it takes the EVEX form, which needs
// AVX-512.
func vexDot(g *gen, weights, x, acc reg.VecPhysical) { g.vexSums(vpdpbusd, weights, x, acc) }

// Opcodes of instructions that add sums of products.
const (
	vpdpbusd = 0x50
	vpdpwssd = 0x52
)

// vexSums emits an instruction on ymm registers by its opcode.
func (g *gen) vexSums(opcode byte, weights, x, acc reg.VecPhysical) {
	w, s, d := byte(weights.PhysicalIndex()), byte(x.PhysicalIndex()), byte(acc.PhysicalIndex())
	inverted := (1-d>>3)<<7 | 1<<6 | (1-w>>3)<<5 // the extension bits of accumulator, index and weights
	for _, b := range []byte{0xc4, inverted | 0x02, (15-s)<<3 | 0x05, opcode, 0xc0 | d&7<<3 | w&7} {
		g.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(b)}})
	}
}

// pairGemm returns the emitter of gemm tiles for processors without VPDPBUSD. Nothing saturates: the four bytes of a group are
// split into two of even and two of odd number, which as int16 are multiplied by weights of int16 and added in pairs. A panel is
// four vectors wide and read from memory for every row, so that the splitting is shared by as many columns as there are
// accumulators for.
func pairGemm(v isa) func(g *gen, rows, vecs int) {
	const unroll, width = 2, 4
	return func(g *gen, rows, vecs int) {
		acc := v.accumulators(rows, vecs)
		even, odd, product, bytes := v.vec(v.count()-4), v.vec(v.count()-3), v.vec(v.count()-2), v.vec(v.count()-1)
		g.begin8(rows)
		g.start8(v, acc)
		if v == avx512 {
			g.VPTERNLOGD(operand.U8(0xff), bytes, bytes, bytes)
		} else {
			g.VPCMPEQD(bytes, bytes, bytes)
		}
		g.VPSRLW(operand.U8(8), bytes, bytes)
		half := width * v.bytes()
		g.groups8(rows, unroll, 2*half, func(u int) {
			for r := range rows {
				g.VPBROADCASTD(row(r, 4*u), odd)
				if v == avx512 {
					g.VPANDD(bytes, odd, even)
				} else {
					g.VPAND(bytes, odd, even)
				}
				g.VPSRLW(operand.U8(8), odd, odd)
				for i := range vecs {
					at := operand.Mem{Base: regPanel, Disp: u*2*half + i*v.bytes()}
					g.VPMADDWD(at, even, product)
					g.VPADDD(product, acc[r][i], acc[r][i])
					at.Disp += half
					g.VPMADDWD(at, odd, product)
					g.VPADDD(product, acc[r][i], acc[r][i])
				}
			}
		})
		g.finish8(v, acc)
	}
}
