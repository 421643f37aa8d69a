package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of kernels.groupTile; a test in package kernels holds them to the struct.
const (
	groupsW      = 0
	groupsX      = 24
	groupsDst    = 48
	groupsSums   = 72
	groupsLdd    = 96
	groupsGroups = 104
	groupsWords  = 112
	groupsPanels = 120
)

// groupLanes is how many rows of a matrix a panel has.
const groupLanes = 16

var groupsFiles = []file{
	{"avx512vnni", groupFamilies("AVX512VNNI", avx512, 6, 2, (*gen).groupDotEvex)},
	{"avx512", groupFamilies("AVX512", avx512, 8, 1, (*gen).groupPairs)},
	{"avxvnni", groupFamilies("AVXVNNI", avx2, 3, 1, (*gen).groupDotVex)},
	{"avx2", groupFamilies("AVX2", avx2, 2, 1, (*gen).groupPairs)},
}

func groupFamilies(suffix string, v isa, mr, panels int, word groupWord) []family {
	return []family{
		{"groups8" + suffix, mr, panels, groupsTile(v, 8, word)},
		{"groups4" + suffix, mr, panels, groupsTile(v, 4, word)},
	}
}

// groupWord emits the products of one word of every lane: four codes each, or eight of four bits.
type groupWord func(g *gen, k *groupsKernel)

// General registers of products of groups.
var (
	groupsRegW      = reg.RSI
	groupsRegX      = reg.RDI
	groupsRegHead   = reg.RBX // of the group in x: scales, then sums
	groupsRegDst    = reg.R11
	groupsRegSums   = reg.R8
	groupsRegLdd    = reg.R9
	groupsRegGroups = reg.RCX
	groupsRegWords  = reg.RDX
	groupsRegPanels = reg.R10
	groupsRegFirst  = reg.R12 // the beginning of x
	groupsRegTo     = reg.R13
	groupsRegApart  = reg.R14 // bytes from a panel to the next
)

// groupsKernel is a product of rows rows of activations with panels of 16 rows of a matrix.
type groupsKernel struct {
	v          isa
	bits, rows int
	vecs       int // of the panels at once: of one, or one each of two
	apart      bool
}

// sum is the register of the int32 sums of a row in a group, total that of its float32 sums.
func (k *groupsKernel) sum(r, i int) reg.VecPhysical   { return k.v.vec(r*k.vecs + i) }
func (k *groupsKernel) total(r, i int) reg.VecPhysical { return k.v.vec((k.rows+r)*k.vecs + i) }

// spare returns the i-th register from the end.
func (k *groupsKernel) spare(i int) reg.VecPhysical { return k.v.vec(k.v.count() - 1 - i) }

// weights is the address of a vector of the current word of the panels; x that of a row's codes, four each, of which a word has one
// or, of four bits, two.
func (k *groupsKernel) weights(i int) operand.Mem {
	if k.apart && i > 0 {
		return operand.Mem{Base: groupsRegW, Index: groupsRegApart, Scale: 1}
	}
	return operand.Mem{Base: groupsRegW, Disp: i * k.v.bytes()}
}

// ahead asks for the line of every panel that comes groupsAhead bytes behind the current one.
func (k *groupsKernel) ahead(g *gen) {
	g.PREFETCHT0(operand.Mem{Base: groupsRegW, Disp: groupsAhead})
	if k.apart {
		g.PREFETCHT0(operand.Mem{Base: groupsRegW, Index: groupsRegApart, Scale: 1, Disp: groupsAhead})
	}
}

func (k *groupsKernel) x(r, half int) operand.Mem {
	return operand.Mem{Base: groupsRegX, Disp: 4 * (half*k.rows + r)}
}

// groupsAhead is how many bytes before its use a line of the matrix is asked for: far enough for memory to be busy all the time.
const groupsAhead = 4096

// groupsTile returns the emitter of products. Codes of the matrix are unsigned, raised by 128, or by 8 where they have 4 bits: the
// sums begin with as many times the sum of the codes of x, negated. Two panels at once, whose int32 sums are not written, share what is
// read of x.
func groupsTile(v isa, bits int, word groupWord) func(g *gen, rows, panels int) {
	const unroll = 4
	return func(g *gen, rows, panels int) {
		k := &groupsKernel{v: v, bits: bits, rows: rows, vecs: panels * groupLanes / int(v), apart: panels > 1}
		step := func(u int) {
			k.ahead(g)
			word(g, k)
			g.ADDQ(operand.U8(4*groupLanes), groupsRegW)
			g.ADDQ(operand.U8(4*rows*8/bits), groupsRegX)
		}
		g.Load(g.Param("t"), regTile)
		g.MOVQ(g.field(groupsW), groupsRegW)
		g.MOVQ(g.field(groupsX), groupsRegFirst)
		g.MOVQ(g.field(groupsDst), groupsRegDst)
		g.MOVQ(g.field(groupsSums), groupsRegSums)
		g.MOVQ(g.field(groupsLdd), groupsRegLdd)
		g.SHLQ(operand.U8(2), groupsRegLdd)
		g.MOVQ(g.field(groupsPanels), groupsRegPanels)
		g.groupMask(k)
		if k.apart {
			g.MOVQ(g.field(groupsWords), groupsRegApart)
			g.INCQ(groupsRegApart)
			g.IMULQ(g.field(groupsGroups), groupsRegApart)
			g.SHLQ(operand.U8(6), groupsRegApart)
		}

		g.Label("panel")
		g.MOVQ(groupsRegFirst, groupsRegX)
		g.MOVQ(g.field(groupsGroups), groupsRegGroups)
		k.each(func(r, i int) { g.VXORPS(k.total(r, i), k.total(r, i), k.total(r, i)) })

		g.Label("group")
		g.MOVQ(groupsRegX, groupsRegHead)
		g.ADDQ(operand.U8(8*rows), groupsRegX)
		g.groupStart(k)
		g.MOVQ(g.field(groupsWords), groupsRegWords)
		g.SUBQ(operand.U8(unroll), groupsRegWords)
		g.JLT(operand.LabelRef("rest"))
		g.Label("loop")
		for u := range unroll {
			step(u)
		}
		g.SUBQ(operand.U8(unroll), groupsRegWords)
		g.JGE(operand.LabelRef("loop"))
		g.Label("rest")
		g.ADDQ(operand.U8(unroll), groupsRegWords)
		g.JZ(operand.LabelRef("summed"))
		g.Label("single")
		step(0)
		g.DECQ(groupsRegWords)
		g.JNZ(operand.LabelRef("single"))

		g.Label("summed")
		if !k.apart {
			g.TESTQ(groupsRegSums, groupsRegSums)
			g.JZ(operand.LabelRef("add"))
			k.each(func(r, i int) {
				g.VMOVUPS(k.sum(r, i), operand.Mem{Base: groupsRegSums, Disp: (r*k.vecs + i) * v.bytes()})
			})
			g.ADDQ(operand.U32(uint32(4*groupLanes*rows)), groupsRegSums)
			g.Label("add")
		}
		k.ahead(g) // of the scales
		g.groupEnd(k)
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
		g.ADDQ(operand.U32(uint32(4*groupLanes*panels)), groupsRegDst)
		if k.apart {
			g.ADDQ(groupsRegApart, groupsRegW)
		}
		g.SUBQ(operand.U8(uint8(panels)), groupsRegPanels)
		g.JNZ(operand.LabelRef("panel"))
		g.end()
	}
}

func (k *groupsKernel) each(f func(r, i int)) {
	for r := range k.rows {
		for i := range k.vecs {
			f(r, i)
		}
	}
}

// groupStart begins the sums of a group.
func (g *gen) groupStart(k *groupsKernel) {
	shift := operand.U8(7)
	if k.bits == 4 {
		shift = 3
	}
	for r := range k.rows {
		from := operand.Mem{Base: groupsRegHead, Disp: 4 * (k.rows + r)}
		for i := range k.vecs {
			switch {
			case i > 0 && k.v == avx512:
				g.VMOVDQA32(k.sum(r, 0), k.sum(r, i))
			case k.v == avx512:
				g.VPSLLD_BCST(shift, from, k.sum(r, i))
			case i == 0:
				g.VPBROADCASTD(from, k.sum(r, 0))
				g.VPSLLD(shift, k.sum(r, 0), k.sum(r, 0))
			default:
				g.VMOVDQA(k.sum(r, 0), k.sum(r, i))
			}
		}
	}
}

// groupEnd adds the sums of a group to the totals: float32(sum) * scale of the matrix * scale of x, every operation rounded.
func (g *gen) groupEnd(k *groupsKernel) {
	for r := range k.rows {
		from := operand.Mem{Base: groupsRegHead, Disp: 4 * r}
		if k.v != avx512 {
			g.VBROADCASTSS(from, k.spare(1))
		}
		for i := range k.vecs {
			s := k.sum(r, i)
			g.VCVTDQ2PS(s, s)
			g.VMULPS(k.weights(i), s, s)
			if k.v == avx512 {
				g.VMULPS_BCST(from, s, s)
			} else {
				g.VMULPS(k.spare(1), s, s)
			}
			g.VADDPS(s, k.total(r, i), k.total(r, i))
		}
	}
}

// groupMask fills the last register: every byte 15 for codes of four bits.
func (g *gen) groupMask(k *groupsKernel) {
	const lowHalves = 0x0f0f0f0f
	g.MOVL(operand.U32(lowHalves), regTmp.As32())
	if k.v == avx512 {
		g.VPBROADCASTD(regTmp.As32(), k.spare(0))
		return
	}
	g.VMOVD(regTmp.As32(), k.spare(0).AsX())
	g.VPBROADCASTD(k.spare(0).AsX(), k.spare(0))
}

// groupCodes loads the codes of one word of vector i of a panel as unsigned bytes and hands them to use, a half at a time. The codes
// of four bits of a word are those of its first four elements in the low halves of the bytes, and of the next four in the high ones.
func (g *gen) groupCodes(k *groupsKernel, i int, use func(half int, codes reg.VecPhysical)) {
	and, w, low := g.VPAND, k.spare(2), k.spare(3)
	if k.v == avx512 {
		and = func(a, b, c operand.Op) { g.VPANDD(a, b, c) }
	}
	g.VMOVUPS(k.weights(i), w)
	if k.bits == 8 {
		use(0, w)
		return
	}
	and(k.spare(0), w, low)
	use(0, low)
	g.VPSRLD(operand.U8(4), w, w)
	and(k.spare(0), w, w)
	use(1, w)
}

// groupDotEvex multiplies and adds by VPDPBUSD, unsigned codes of the matrix by signed ones of x.
func (g *gen) groupDotEvex(k *groupsKernel) {
	if k.apart {
		g.groupDotPanels(k)
		return
	}
	g.groupCodes(k, 0, func(half int, codes reg.VecPhysical) {
		for r := range k.rows {
			g.VPDPBUSD_BCST(k.x(r, half), codes, k.sum(r, 0))
		}
	})
}

// groupDotPanels is groupDotEvex of several panels.
func (g *gen) groupDotPanels(k *groupsKernel) {
	x, codes := k.spare(1), func(i int) reg.VecPhysical { return k.spare(2 + i) }
	dot := func(half int, codes func(i int) reg.VecPhysical) {
		for r := range k.rows {
			g.VPBROADCASTD(k.x(r, half), x)
			for i := range k.vecs {
				g.VPDPBUSD(x, codes(i), k.sum(r, i))
			}
		}
	}
	each := func(f func(i int)) {
		for i := range k.vecs {
			f(i)
		}
	}
	each(func(i int) { g.VMOVUPS(k.weights(i), codes(i)) })
	if k.bits == 4 {
		low := func(i int) reg.VecPhysical { return k.spare(2 + k.vecs + i) }
		each(func(i int) { g.VPANDD(k.spare(0), codes(i), low(i)) })
		dot(0, low)
		each(func(i int) { g.VPSRLD(operand.U8(4), codes(i), codes(i)) })
		each(func(i int) { g.VPANDD(k.spare(0), codes(i), codes(i)) })
	}
	dot(8/k.bits-1, codes)
}

func (g *gen) groupDotVex(k *groupsKernel) {
	for i := range k.vecs {
		g.groupCodes(k, i, func(half int, codes reg.VecPhysical) {
			for r := range k.rows {
				g.VPBROADCASTD(k.x(r, half), k.spare(1))
				vexDot(g, k.spare(1), codes, k.sum(r, i))
			}
		})
	}
}

// groupPairs does without VPDPBUSD. Nothing saturates: the bytes of even and of odd number become int16, which are multiplied and
// added in pairs.
func (g *gen) groupPairs(k *groupsKernel) {
	even, odd, x := k.spare(4), k.spare(5), k.spare(1)
	for i := range k.vecs {
		g.groupCodes(k, i, func(half int, codes reg.VecPhysical) {
			g.VPSRLW(operand.U8(8), codes, odd)
			g.VPSLLW(operand.U8(8), codes, even)
			g.VPSRLW(operand.U8(8), even, even)
			for r := range k.rows {
				g.VPBROADCASTD(k.x(r, half), x)
				g.VPSLLW(operand.U8(8), x, k.product())
				g.VPSRAW(operand.U8(8), k.product(), k.product())
				g.VPMADDWD(even, k.product(), k.product())
				g.VPADDD(k.product(), k.sum(r, i), k.sum(r, i))
				g.VPSRAW(operand.U8(8), x, x)
				g.VPMADDWD(odd, x, x)
				g.VPADDD(x, k.sum(r, i), k.sum(r, i))
			}
		})
	}
}

func (k *groupsKernel) product() reg.VecPhysical { return k.spare(6) }
