package main

import "fmt"

// Registers of a tile. R18, R27 and above belong to the system or the assembler.
const (
	neonRows  = 8
	neonRow   = 8  // R8 to R15: where the rows of a begin
	neonAt    = 19 // R19 to R26: where the rows are read
	neonA     = 16 // V16 to V23: elements of the rows
	neonB     = 24 // V24 to V27: elements of the panel
	neonFlip  = 28 // V28: what is added to every element of a
	neonLanes = 4  // of a register
)

// begin loads the arguments of a tile, where its rows of a begin, and its sums.
func (n *neon) begin(name string, op uint32, element int) {
	fmt.Fprintf(n, "\n// func %s%s\n", name, neonSignature(op))
	fmt.Fprintf(n, "TEXT ·%s(SB), NOSPLIT, $0-56\n", name)
	for i, arg := range []string{"acc", "a", "panel", "segs", "n", "lda", "rows"} {
		n.line("MOVD %s+%d(FP), R%d", arg, 8*i, i)
	}
	if element > 1 {
		n.line("LSL $%d, R5, R5", log2(element))
	}
	// Rows that are not there read the last one; their sums are not used.
	n.line("MOVD R1, R%d", neonRow)
	for r := 1; r < neonRows; r++ {
		n.line("ADD R5, R%d, R%d", neonRow+r-1, neonRow+r)
		n.line("CMP $%d, R6", r)
		n.line("CSEL GT, R%d, R%d, R%d", neonRow+r, neonRow+r-1, neonRow+r)
	}
	for i := 0; i < 2*neonRows; i += 4 {
		n.line("VLD1.P 64(R0), [V%d.S4, V%d.S4, V%d.S4, V%d.S4]", i, i+1, i+2, i+3)
	}
	n.line("SUB $%d, R0, R0", 2*neonRows*16)
}

// segment begins the loop over the segments: where each row is read, and how many elements.
func (n *neon) segment(element int) {
	n.label("segment")
	n.line("MOVD segment_off(R3), R6")
	n.line("MOVD segment_n(R3), R7")
	n.line("ADD $segment__size, R3, R3")
	for r := range neonRows {
		n.line("ADD R6<<%d, R%d, R%d", log2(element), neonRow+r, neonAt+r)
	}
}

// end closes the loop over the segments and stores the sums.
func (n *neon) end() {
	n.line("SUBS $1, R4, R4")
	n.line("BNE segment")
	for i := 0; i < 2*neonRows; i += 4 {
		n.line("VST1.P [V%d.S4, V%d.S4, V%d.S4, V%d.S4], 64(R0)", i, i+1, i+2, i+3)
	}
	n.line("RET")
}

// gemm writes a function that adds, for up to eight rows of a and eight columns of a panel, the products of every segment to the
// sums in acc. element is the size of an element of a in bytes; the length of a segment is in lanes, which hold four bytes.
//
// With biased the bytes of a are unsigned and read as signed ones, 128 less. The eighth row is then zeros instead of memory: its
// sums are -128 times those of the panel's columns, which is what the other rows have too much.
func (n *neon) gemm(name string, op uint32, biased bool, element int) {
	rows := neonRows
	n.begin(name, op, element)
	if biased {
		rows--
		n.line("VMOVI $128, V%d.B16", neonFlip)
		n.line("VMOVI $128, V%d.B16", neonA+rows)
	}
	load := func(format string) {
		for r := range rows {
			n.line(format, neonAt+r, neonA+r)
			if biased {
				n.line("VEOR V%d.B16, V%d.B16, V%d.B16", neonFlip, neonA+r, neonA+r)
			}
		}
	}
	n.segment(element)
	n.line("SUBS $%d, R7, R7", neonLanes)
	n.line("BLT rest")
	n.label("loop")
	load("VLD1.P 16(R%d), [V%d.S4]")
	for lane := range neonLanes {
		n.products(op, lane, neonB+2*(lane%2))
	}
	n.line("SUBS $%d, R7, R7", neonLanes)
	n.line("BGE loop")
	n.label("rest")
	n.line("ADDS $%d, R7, R7", neonLanes)
	n.line("BEQ done")
	n.label("single")
	load("VLD1R.P 4(R%d), [V%d.S4]")
	n.products(op, 0, neonB)
	n.line("SUBS $1, R7, R7")
	n.line("BGT single")
	n.label("done")
	n.end()
}

// depthwise writes a function that adds, for up to eight rows of a, eight columns of a times those of the panel for every segment
// to the sums in acc.
func (n *neon) depthwise(name string) {
	n.begin(name, fmla, 4)
	n.segment(4)
	n.line("VLD1.P 32(R2), [V%d.S4, V%d.S4]", neonB, neonB+1)
	for r := range neonRows {
		a := neonA + 2*(r%4)
		n.line("VLD1 (R%d), [V%d.S4, V%d.S4]", neonAt+r, a, a+1)
		for v := range 2 {
			n.line("VFMLA V%d.S4, V%d.S4, V%d.S4", neonB+v, a+v, 2*r+v)
		}
	}
	n.end()
}

// products multiplies one lane of every row by the panel's next eight columns.
func (n *neon) products(op uint32, lane, b int) {
	n.line("VLD1.P 32(R2), [V%d.S4, V%d.S4]", b, b+1)
	for r := range neonRows {
		for v := range 2 {
			n.line("WORD $%#08x", byElement(op, 2*r+v, b+v, neonA+r, lane))
		}
	}
}

// neonSignature is the list of parameters of a tile.
func neonSignature(op uint32) string {
	types := "(acc *[64]float32, a, panel *float32"
	if op == sdot {
		types = "(acc *[64]int32, a *uint8, panel *int8"
	}
	return types + ", segs *segment, n, lda, rows int)"
}

// neonTiles lists the functions for arm64 whose sums are in memory of the caller.
var neonTiles = []struct {
	name string
	op   uint32
	emit func(n *neon, name string)
}{
	{"gemmNEON", fmla, func(n *neon, name string) { n.gemm(name, fmla, false, 4) }},
	{"gemm8NEON", sdot, func(n *neon, name string) { n.gemm(name, sdot, true, 1) }},
	{"depthwiseNEON", fmla, func(n *neon, name string) { n.depthwise(name) }},
}
