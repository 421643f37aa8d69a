package main

import (
	"fmt"
	"math"
	"strings"
)

// The generator's assembler library knows x86 only; NEON is written as text. Instructions that Go's assembler does not know
// are words, encoded as in the Arm Architecture Reference Manual (DDI 0487, C7.2).

// neon collects the text of one file.
type neon struct {
	strings.Builder
	labels  int
	numbers []uint32 // constants that were asked for
}

func (n *neon) line(format string, args ...any) { fmt.Fprintf(n, "\t"+format+"\n", args...) }
func (n *neon) label(name string)               { fmt.Fprintf(n, "%s:\n", name) }

// fresh returns a name for a label.
func (n *neon) fresh() string {
	n.labels++
	return fmt.Sprintf("l%d", n.labels)
}

// neonWords are instructions with all their registers zero: the first is written, the others are read. 4S are four lanes of 32 bits, and so
// on. A name that ends in 2 reads or writes the upper half of the register that is twice as wide as the other.
var neonWords = map[string]uint32{
	"FADD.4S": 0x4e20d400, "FSUB.4S": 0x4ea0d400, "FMUL.4S": 0x6e20dc00, "FDIV.4S": 0x6e20fc00, "FMLA.4S": 0x4e20cc00, "FMLS.4S": 0x4ea0cc00,
	"FMAX.4S": 0x4e20f400, "FMIN.4S": 0x4ea0f400, "FCMEQ.4S": 0x4e20e400, "FCMGE.4S": 0x6e20e400, "FCMGT.4S": 0x6ea0e400,
	"FADD.2D": 0x4e60d400, "FSUB.2D": 0x4ee0d400, "FMUL.2D": 0x6e60dc00, "FMLA.2D": 0x4e60cc00, "FMLS.2D": 0x4ee0cc00,
	"FABS.4S": 0x4ea0f800, "FNEG.4S": 0x6ea0f800, "FSQRT.4S": 0x6ea1f800, "FRINTN.4S": 0x4e218800,
	"FCVTNS.4S": 0x4e21a800, "FCVTAS.4S": 0x4e21c800, "SCVTF.4S": 0x4e21d800, // to integers: ties to even, away from zero
	"FCVTL.2D": 0x0e617800, "FCVTL2.2D": 0x4e617800, "FCVTN.2S": 0x0e616800, "FCVTN2.4S": 0x4e616800,
	"FMAXV.S": 0x6e30f800, "FMINV.S": 0x6eb0f800, "UMAXV.S": 0x6eb0a800, "UMINV.S": 0x6eb1a800, "ADDV.S": 0x4eb1b800, // of all lanes

	"ADD.4S": 0x4ea08400, "SUB.4S": 0x6ea08400, "ADD.2D": 0x4ee08400, "SUB.2D": 0x6ee08400, "ADDP.4S": 0x4ea0bc00,
	"UMAX.4S": 0x6ea06400, "UMIN.4S": 0x6ea06c00, "SMAX.4S": 0x4ea06400, "SMIN.4S": 0x4ea06c00, "UMAX.16B": 0x6e206400,
	"CMHI.4S": 0x6ea03400, "SSHL.4S": 0x4ea04400, "SSHL.2D": 0x4ee04400, "CMEQ.2D": 0x6ee08c00,
	"AND": 0x4e201c00, "BIC": 0x4e601c00, "ORR": 0x4ea01c00, "EOR": 0x6e201c00,
	"BIT":     0x6ea01c00, // the first takes the bits of the second where the third has ones
	"UXTL.8H": 0x2f08a400, "UXTL2.8H": 0x6f08a400, "UXTL.4S": 0x2f10a400, "UXTL2.4S": 0x6f10a400,
	"SXTL.8H": 0x0f08a400, "SXTL2.8H": 0x4f08a400, "SXTL.4S": 0x0f10a400, "SXTL2.4S": 0x4f10a400, "SXTL.2D": 0x0f20a400,
	"SXTL2.2D": 0x4f20a400,
	"SQXTN.2S": 0x0ea14800, "SQXTN2.4S": 0x4ea14800, "SQXTN.4H": 0x0e614800, "SQXTN2.8H": 0x4e614800, "SQXTN.8B": 0x0e214800,
	"SQXTN2.16B": 0x4e214800,
	"SQXTUN.8B":  0x2e212800, "SQXTUN2.16B": 0x6e212800,
	"SMLAL.4S": 0x0e608000, "SMLAL2.4S": 0x4e608000, "SMULL.2D": 0x0ea0c000, "SMULL2.2D": 0x4ea0c000,
	"SADDW.2D": 0x0ea01000, "SADDW2.2D": 0x4ea01000,
	"SDOT.4S": 0x4e809400, // sums of four products of signed bytes
}

// do emits an instruction on vectors.
func (n *neon) do(name string, to int, from ...int) {
	word, ok := neonWords[name]
	if !ok {
		panic("no instruction " + name)
	}
	word |= uint32(to)
	text := fmt.Sprintf("%s V%d", name, to)
	for i, r := range from {
		word |= uint32(r) << (5 + 11*i)
		text += fmt.Sprintf(", V%d", r)
	}
	n.line("WORD $%#08x // %s", word, text)
}

// each emits an instruction for every one of several vectors.
func (n *neon) each(name string, to values, from ...values) {
	for i, r := range to {
		var list []int
		for _, f := range from {
			list = append(list, f[i])
		}
		n.do(name, r, list...)
	}
}

// Shifts by a constant, of lanes of so many bits.
func (n *neon) shiftLeft(bits, to, from, by int)  { n.shift("SHL", 0x4f005400, bits+by, to, from) }
func (n *neon) shiftRight(bits, to, from, by int) { n.shift("USHR", 0x6f000400, 2*bits-by, to, from) }
func (n *neon) shiftRightSign(bits, to, from, by int) {
	n.shift("SSHR", 0x4f000400, 2*bits-by, to, from)
}

func (n *neon) shift(name string, word uint32, code, to, from int) {
	n.line("WORD $%#08x // %s V%d, V%d", word|uint32(code)<<16|uint32(from)<<5|uint32(to), name, to, from)
}

// byElement encodes an instruction of the group vector x indexed element on four 32-bit lanes: d += n * m[lane].
func byElement(op uint32, d, n, m, lane int) uint32 {
	return op | uint32(lane&1)<<21 | uint32(m)<<16 | uint32(lane>>1)<<11 | uint32(n)<<5 | uint32(d)
}

const (
	fmla = 0x4f801000 // float32
	fmul = 0x4f809000
	sdot = 0x4f80e000 // sums of four products of signed bytes
)

// clear makes registers zero.
func (n *neon) clear(v values) {
	for _, r := range v {
		n.do("EOR", r, r, r)
	}
}

// move copies registers.
func (n *neon) move(to, from values) { n.each("ORR", to, from, from) }

// spread loads a field of the argument, 32 bits, into all lanes.
func (n *neon) spread(field string, to int) {
	n.line("FMOVS %s(R0), F%d", field, to)
	n.line("VDUP V%d.S[0], V%d.S4", to, to)
}

// spreadWide does so with 64 bits.
func (n *neon) spreadWide(field string, to int) {
	n.line("FMOVD %s(R0), F%d", field, to)
	n.line("VDUP V%d.D[0], V%d.D2", to, to)
}

// get loads fields of the argument, 64 bits each, into the general registers from first on.
func (n *neon) get(first int, fields ...string) {
	for i, f := range fields {
		n.line("MOVD %s(R0), R%d", f, first+i)
	}
}

// neonNumbers is the general register that holds the address of the constants, once numbered was called.
const neonNumbers = 17

func (n *neon) numbered() { n.line("MOVD $numbers<>(SB), R%d", neonNumbers) }

// number loads a constant, the same bits in every lane.
func (n *neon) number(bits uint32, to int) {
	at := -1
	for i, b := range n.numbers {
		if b == bits {
			at = i
		}
	}
	if at < 0 {
		at = len(n.numbers)
		n.numbers = append(n.numbers, bits)
	}
	n.line("FMOVQ %d(R%d), F%d", 16*at, neonNumbers, to)
}

// tables declares the constants that were asked for, and the numbers of lanes.
func (n *neon) tables() {
	for i := range 16 {
		fmt.Fprintf(n, "DATA laneNumbers<>+%d(SB)/4, $%d\n", 4*i, i)
	}
	n.WriteString("GLOBL laneNumbers<>(SB), RODATA|NOPTR, $64\n")
	for i, b := range n.numbers {
		for half := range 2 {
			fmt.Fprintf(n, "DATA numbers<>+%d(SB)/8, $%#016x\n", 16*i+8*half, uint64(b)<<32|uint64(b))
		}
	}
	fmt.Fprintf(n, "GLOBL numbers<>(SB), RODATA|NOPTR, $%d\n", 16*len(n.numbers))
}

// part is what one pass of a loop takes: 4, 2 or 1 vectors of four lanes or, single, one lane. The other lanes then hold anything.
type part struct {
	vecs   int
	single bool
}

func (p part) lanes() int {
	if p.single {
		return 1
	}
	return 4 * p.vecs
}

// elements emits loops over as many elements as register R(count) says, which is lost: most vectors first, then one,
// then one element at a time.
func (n *neon) elements(count, most int, body func(p part)) {
	n.loops(count, []part{{vecs: most}, {vecs: 1}, {vecs: 1, single: true}}, body)
}

// loops emits a loop for each of the parts, largest first; the last divides every count.
func (n *neon) loops(count int, parts []part, body func(p part)) {
	done := n.fresh()
	for i, p := range parts {
		loop, next := n.fresh(), n.fresh()
		n.line("SUBS $%d, R%d, R%d", p.lanes(), count, count)
		n.line("BLT %s", next)
		n.label(loop)
		body(p)
		n.line("SUBS $%d, R%d, R%d", p.lanes(), count, count)
		n.line("BGE %s", loop)
		n.label(next)
		if i+1 < len(parts) {
			n.line("ADDS $%d, R%d, R%d", p.lanes(), count, count)
			n.line("BEQ %s", done)
		}
	}
	n.label(done)
}

// sixteens emits a loop over as many elements as R(count) says, a multiple of 16 that is not 0.
func (n *neon) sixteens(count int, body func()) {
	loop := n.fresh()
	n.label(loop)
	body()
	n.line("SUBS $16, R%d, R%d", count, count)
	n.line("BNE %s", loop)
}

// times emits a loop that runs as often as R(count) says, at least once.
func (n *neon) times(count int, body func()) {
	loop := n.fresh()
	n.label(loop)
	body()
	n.line("SUBS $1, R%d, R%d", count, count)
	n.line("BNE %s", loop)
}

// list is what loads and stores call count registers from first on.
func (n *neon) list(first, count int, lanes string) string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("V%d.%s", first+i, lanes))
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// load reads a part of 32-bit elements and moves the pointer on; store writes it.
func (n *neon) load(p part, pointer, to int) {
	if p.single {
		n.line("FMOVS.P 4(R%d), F%d", pointer, to)
		return
	}
	n.line("VLD1.P %d(R%d), %s", 16*p.vecs, pointer, n.list(to, p.vecs, "S4"))
}

func (n *neon) store(p part, from, pointer int) {
	if p.single {
		n.line("FMOVS.P F%d, 4(R%d)", from, pointer)
		return
	}
	n.line("VST1.P %s, %d(R%d)", n.list(from, p.vecs, "S4"), 16*p.vecs, pointer)
}

// loadBytes reads a part of bytes into one register and moves the pointer on; storeBytes writes it.
func (n *neon) loadBytes(p part, pointer, to int) {
	switch {
	case p.single:
		n.line("VLD1.P 1(R%d), V%d.B[0]", pointer, to)
	case p.vecs == 1:
		n.line("FMOVS.P 4(R%d), F%d", pointer, to)
	case p.vecs == 2:
		n.line("FMOVD.P 8(R%d), F%d", pointer, to)
	default:
		n.line("VLD1.P 16(R%d), [V%d.B16]", pointer, to)
	}
}

func (n *neon) storeBytes(p part, from, pointer int) {
	switch {
	case p.single:
		n.line("VST1.P V%d.B[0], 1(R%d)", from, pointer)
	case p.vecs == 1:
		n.line("FMOVS.P F%d, 4(R%d)", from, pointer)
	case p.vecs == 2:
		n.line("FMOVD.P F%d, 8(R%d)", from, pointer)
	default:
		n.line("VST1.P [V%d.B16], 16(R%d)", from, pointer)
	}
}

// widen makes 32-bit integers of the unsigned bytes of a register, which is lost; free is a register for use.
func (n *neon) widen(p part, to, from, free int) {
	if p.vecs == 4 {
		n.do("UXTL2.8H", free, from)
		n.do("UXTL.4S", to+2, free)
		n.do("UXTL2.4S", to+3, free)
	}
	n.do("UXTL.8H", from, from)
	n.do("UXTL.4S", to, from)
	if p.vecs > 1 {
		n.do("UXTL2.4S", to+1, from)
	}
}

// narrow makes unsigned bytes of 32-bit integers, saturating.
func (n *neon) narrow(p part, to, from, free int) {
	n.do("SQXTN.4H", to, from)
	if p.vecs > 1 {
		n.do("SQXTN2.8H", to, from+1)
	}
	if p.vecs == 4 {
		n.do("SQXTN.4H", free, from+2)
		n.do("SQXTN2.8H", free, from+3)
	}
	n.do("SQXTUN.8B", to, to)
	if p.vecs == 4 {
		n.do("SQXTUN2.16B", to, free)
	}
}

// limit is x < V(lo): V(lo); x > V(hi): V(hi). NaN and zeros of either sign pass. free is a register for use.
func (n *neon) limit(x values, lo, hi, free int) {
	for _, r := range x {
		n.do("FCMGT.4S", free, lo, r)
		n.do("BIT", r, lo, free)
		n.do("FCMGT.4S", free, r, hi)
		n.do("BIT", r, hi, free)
	}
}

// same is one register for each of several vectors.
func same(r, vecs int) values {
	v := make(values, vecs)
	for i := range v {
		v[i] = r
	}
	return v
}

func log2(n int) int {
	k := 0
	for n > 1 {
		n, k = n/2, k+1
	}
	return k
}

// float is the bits of a number.
func float(x float32) uint32 { return math.Float32bits(x) }

// neonFunction is a function of a pointer to argument, which it finds in R0.
type neonFunction struct {
	name, argument string
	emit           func(n *neon)
}

// writeNEON writes the assembly for arm64 and its declarations.
func writeNEON(folder string) error {
	var n neon
	n.WriteString("// Code generated by kernels/_asm. DO NOT EDIT.\n\n//go:build arm64 && !purego\n\n#include \"go_asm.h\"\n#include " +
		"\"textflag.h\"\n")
	stubs := strings.Replace(header, "amd64", "arm64", 1)
	for _, t := range neonTiles {
		t.emit(&n, t.name)
		stubs += fmt.Sprintf("\n//go:noescape\nfunc %s%s\n", t.name, neonSignature(t.op))
	}
	for _, list := range [][]neonFunction{neonFloats, neonMath, neonRowOps, neonObservers, neonBytes, neonOutputs, neonGroups,
		neonSums, neonPeaks} {
		for _, f := range list {
			fmt.Fprintf(&n, "\n// func %s(t *%s)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", f.name, f.argument, f.name)
			n.line("MOVD t+0(FP), R0")
			n.labels = 0
			f.emit(&n)
			n.line("RET")
			stubs += fmt.Sprintf("\n//go:noescape\nfunc %s(t *%s)\n", f.name, f.argument)
		}
	}
	n.WriteString("\n")
	n.tables()
	return writePair(folder, "neon_arm64", []byte(n.String()), []byte(stubs))
}
