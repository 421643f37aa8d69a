package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupChains is how many sums a row has in a group: element k belongs to sum k%groupChains.
const groupChains = 4

var groupsFloatFiles = []file{
	{"avx512", groupFloatFamilies("AVX512", avx512, 5)},
	{"avx2", groupFloatFamilies("AVX2", avx2, 1)},
}

func groupFloatFamilies(suffix string, v isa, mr int) []family {
	return []family{
		{"groupsFloat8" + suffix, mr, 1, groupsFloatTile(v, 8)},
		{"groupsFloat4" + suffix, mr, 1, groupsFloatTile(v, 4)},
	}
}

// groupsFloatKernel is a groupsKernel with several sums per row instead of one.
type groupsFloatKernel struct{ groupsKernel }

func (k *groupsFloatKernel) chain(r, i, j int) reg.VecPhysical {
	return k.v.vec((r*k.vecs+i)*groupChains + j)
}

func (k *groupsFloatKernel) total(r, i int) reg.VecPhysical {
	return k.v.vec(k.rows*k.vecs*groupChains + r*k.vecs + i)
}

// groupsFloatTile returns the emitter of products of codes and floats, which lie element by element for all rows of the tile. Every
// product and every sum is rounded.
func groupsFloatTile(v isa, bits int) func(g *gen, rows, vecs int) {
	return func(g *gen, rows, _ int) {
		k := &groupsFloatKernel{groupsKernel{v: v, bits: bits, rows: rows, vecs: groupLanes / int(v)}}
		zero := func(x reg.VecPhysical) { g.VXORPS(x, x, x) }
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(groupsW), groupsRegW)
		g.MOVQ(g.field(groupsX), groupsRegFirst)
		g.MOVQ(g.field(groupsDst), groupsRegDst)
		g.MOVQ(g.field(groupsLdd), groupsRegLdd)
		g.SHLQ(operand.U8(2), groupsRegLdd)
		g.MOVQ(g.field(groupsPanels), groupsRegPanels)
		g.groupSigns(k)

		g.Label("panel")
		g.MOVQ(groupsRegFirst, groupsRegX)
		g.MOVQ(g.field(groupsGroups), groupsRegGroups)
		k.each(func(r, i int) { zero(k.total(r, i)) })
		g.Label("group")
		g.MOVQ(g.field(groupsWords), groupsRegWords)
		k.each(func(r, i int) {
			for j := range groupChains {
				zero(k.chain(r, i, j))
			}
		})
		g.Label("loop")
		g.PREFETCHT0(operand.Mem{Base: groupsRegW, Disp: groupsAhead})
		for i := range k.vecs {
			g.groupFloatWord(k, i)
		}
		g.ADDQ(operand.U8(4*groupLanes), groupsRegW)
		g.ADDQ(operand.U32(uint32(4*rows*32/bits)), groupsRegX)
		g.DECQ(groupsRegWords)
		g.JNZ(operand.LabelRef("loop"))
		k.each(func(r, i int) {
			c := func(j int) reg.VecPhysical { return k.chain(r, i, j) }
			g.VADDPS(c(1), c(0), c(0))
			g.VADDPS(c(3), c(2), c(2))
			g.VADDPS(c(2), c(0), c(0))
			g.VMULPS(k.weights(i), c(0), c(0))
			g.VADDPS(c(0), k.total(r, i), k.total(r, i))
		})
		g.ADDQ(operand.U8(4*groupLanes), groupsRegW)
		g.DECQ(groupsRegGroups)
		g.JNZ(operand.LabelRef("group"))

		g.MOVQ(groupsRegDst, groupsRegTo)
		for r := range rows {
			if r > 0 {
				g.ADDQ(groupsRegLdd, groupsRegTo)
			}
			for i := range k.vecs {
				g.VMOVUPS(k.total(r, i), operand.Mem{Base: groupsRegTo, Disp: i * v.bytes()})
			}
		}
		g.ADDQ(operand.U8(4*groupLanes), groupsRegDst)
		g.DECQ(groupsRegPanels)
		g.JNZ(operand.LabelRef("panel"))
		g.end()
	}
}

// groupSigns fills the last register with the bits that make unsigned codes signed ones, or with the numbers they stand for.
func (g *gen) groupSigns(k *groupsFloatKernel) {
	if k.looksUp() {
		g.groupNumbers(k)
		return
	}
	bits := uint32(0x80808080)
	if k.bits == 4 {
		bits = 0x88888888
	}
	g.MOVL(operand.U32(bits), regTmp.As32())
	g.VMOVD(regTmp.As32(), k.spare(0).AsX())
	g.VPBROADCASTD(k.spare(0).AsX(), k.spare(0))
}

// looksUp says whether codes become numbers by a table of them: those of 4 bits, which vectors of 16 numbers have room for.
func (k *groupsFloatKernel) looksUp() bool { return k.bits == 4 && k.v == avx512 }

// groupNumbers fills the last register with the numbers -8 to 7.
func (g *gen) groupNumbers(k *groupsFloatKernel) {
	t, low := k.spare(0), k.spare(1).AsX()
	g.MOVQ(operand.U64(0x0706050403020100), regTmp)
	g.VMOVQ(regTmp, k.spare(1).AsX())
	g.MOVQ(operand.U64(0x0f0e0d0c0b0a0908), regTmp)
	g.VMOVQ(regTmp, k.spare(2).AsX())
	g.VPUNPCKLQDQ(k.spare(2).AsX(), low, low)
	g.VPMOVZXBD(low, t)
	g.VCVTDQ2PS(t, t)
	g.MOVL(operand.U32(0x41000000), regTmp.As32()) // 8
	g.VPBROADCASTD(regTmp.As32(), k.spare(1))
	g.VSUBPS(k.spare(1), t, t)
}

// groupFloatWord adds the products of one word of vector i of a panel.
func (g *gen) groupFloatWord(k *groupsFloatKernel, i int) {
	w, code, x := k.spare(1), k.spare(2), k.spare(3)
	g.VMOVUPS(k.weights(i), w)
	if !k.looksUp() {
		g.VXORPS(k.spare(0), w, w)
	}
	for e := range 32 / k.bits {
		at := 8*(e%4) + 4*(e/4) // the code's lowest bit
		from, up := w, 32-k.bits-at
		switch {
		case k.looksUp() && at > 0:
			g.VPSRLD(operand.U8(at), w, code)
			from = code
		case !k.looksUp() && up > 0:
			g.VPSLLD(operand.U8(up), w, code)
			from = code
		}
		if k.looksUp() {
			g.VPERMPS(k.spare(0), from, code)
		} else {
			g.VPSRAD(operand.U8(32-k.bits), from, code)
			g.VCVTDQ2PS(code, code)
		}
		for r := range k.rows {
			in := operand.Mem{Base: groupsRegX, Disp: 4 * (e*k.rows + r)}
			if k.v == avx512 {
				g.VMULPS_BCST(in, code, x)
			} else {
				g.VBROADCASTSS(in, x)
				g.VMULPS(code, x, x)
			}
			sum := k.chain(r, i, e%groupChains)
			g.VADDPS(x, sum, sum)
		}
	}
}
