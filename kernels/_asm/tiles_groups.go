package main

import "fmt"

// Tiles of products of groups: the sums of a group; 64 codes of each row of activations and of the matrix; and what is left of a group.
const (
	sumsTile             = 0
	xTile, wTile         = 1, 2
	xRestTile, wRestTile = 3, 4
	rowsAMX              = 16
)

// Vector registers beside the totals of the rows.
const (
	zSum    = "Z16"
	zWord   = "Z17"
	zHalf   = "Z18"
	zScales = "Z20"
	zLow    = "Z30" // every byte 15
)

func (w *tiles) zero(tile byte) {
	w.vex(fmt.Sprintf("TILEZERO T%d", tile), prefixF2, 0, 0, 0, 0x49, 0xc0|tile<<3)
}

// dotSigned adds the products of a, bytes with a sign, and b, bytes without one, to tile to.
func (w *tiles) dotSigned(to, a, b byte) {
	w.vex(fmt.Sprintf("TDPBSUD T%d, T%d, T%d", to, a, b), prefixF3, b, 0, 0, 0x5e, 0xc0|to<<3|a)
}

// rowsDo emits what do does for each of up to 16 rows, of which there are as many as DX says.
func (w *tiles) rowsDo(done string, do func(r int)) {
	for r := range rowsAMX {
		if r > 0 {
			w.line("CMPQ DX, $%d", r)
			w.line("JEQ %s", done)
		}
		do(r)
	}
	w.label("%s", done)
}

// unpack writes the codes of a word of 16 lanes, eight of four bits each, to disp behind a register, as two words of bytes.
func (w *tiles) unpack(from, disp int, to string) {
	w.line("VMOVDQU32 %d(SI), %s", from, zWord)
	w.line("VPANDD %s, %s, %s", zLow, zWord, zHalf)
	w.line("VMOVDQU32 %s, %d(%s)", zHalf, disp, to)
	w.line("VPSRLD $4, %s, %s", zWord, zWord)
	w.line("VPANDD %s, %s, %s", zLow, zWord, zWord)
	w.line("VMOVDQU32 %s, %d(%s)", zWord, disp+64, to)
}

// groupProducts adds the products of a group to the tile of sums.
func (w *tiles) groupProducts(bits int) {
	w.line("MOVQ groupsCall_whole(AX), DX")
	w.label("whole")
	w.line("CMPQ DX, $0")
	w.line("JEQ rest")
	if bits == 8 {
		w.load(wTile, 0, "SI", "R11")
		w.line("ADDQ $1024, SI")
	} else {
		for i := range 8 {
			w.unpack(64*i, 128*i, "R15")
		}
		w.load(wTile, 0, "R15", "R11")
		w.line("ADDQ $512, SI")
	}
	w.load(xTile, 0, "DI", "R8")
	w.dotSigned(sumsTile, xTile, wTile)
	w.line("ADDQ $64, DI")
	w.line("DECQ DX")
	w.line("JMP whole")
	w.label("rest")
	w.line("MOVQ groupsCall_rest(AX), DX")
	w.line("CMPQ DX, $0")
	w.line("JEQ summed")
	if bits == 8 {
		w.load(wRestTile, 0, "SI", "R11")
		w.line("SHLQ $4, DX")
		w.line("ADDQ DX, SI")
	} else {
		w.line("MOVQ R15, CX")
		w.label("word")
		w.unpack(0, 0, "CX")
		w.line("ADDQ $64, SI")
		w.line("ADDQ $128, CX")
		w.line("SUBQ $8, DX")
		w.line("CMPQ DX, $0")
		w.line("JNE word")
		w.load(wRestTile, 0, "R15", "R11")
	}
	w.load(xRestTile, 0, "DI", "R8")
	w.dotSigned(sumsTile, xRestTile, wRestTile)
	w.line("ADDQ groupsCall_rest(AX), DI")
	w.label("summed")
	w.line("ADDQ groupsCall_others(AX), DI")
	w.store(sumsTile, 0, "R10", "R11")
}

// groupSumOf leaves the sums of a row in zSum: those of raised codes, less what raising them adds.
func (w *tiles) groupSumOf(bits int, negated, raised string) {
	w.line("VPSLLD.BCST $%d, %s, %s", bits-1, negated, zSum)
	w.line("VPADDD %s, %s, %s", raised, zSum, zSum)
}

// groupTiles writes the product of up to 16 rows of activations with panels of 16 rows of a matrix, both in groups. It adds what a group
// gives as the functions for vectors do: float32(sum) * scale of the matrix * scale of x, every operation rounded.
func (w *tiles) groupTiles(bits int) {
	w.line("MOVQ groupsCall_w(AX), SI")
	w.line("MOVQ groupsCall_dst(AX), R13")
	w.line("MOVQ groupsCall_size(AX), R8")
	w.line("MOVQ groupsCall_scratch(AX), R10")
	w.line("MOVQ $64, R11")
	w.line("MOVQ groupsCall_panels(AX), R12")
	codes := func() { w.line("LEAQ 1024(R10), R15") }
	if bits == 4 {
		codes()
		w.line("VPBROADCASTD groupsCall_low(AX), %s", zLow)
	}
	w.label("panel")
	w.line("MOVQ groupsCall_x(AX), DI")
	w.line("MOVQ groupsCall_groups(AX), R9")
	for r := range rowsAMX {
		w.line("VPXORD Z%d, Z%d, Z%d", r, r, r)
	}
	w.label("group")
	w.line("MOVQ DI, BX") // scales of x, then sums
	w.line("ADDQ groupsCall_head(AX), DI")
	w.zero(sumsTile)
	w.groupProducts(bits)
	w.line("MOVQ BX, CX")
	w.line("ADDQ groupsCall_sumsOf(AX), CX")
	w.line("VMOVUPS (SI), %s", zScales)
	w.line("ADDQ $64, SI")
	w.line("MOVQ groupsCall_rows(AX), DX")
	w.rowsDo("added", func(r int) {
		w.groupSumOf(bits, fmt.Sprintf("%d(CX)", 4*r), fmt.Sprintf("%d(R10)", 64*r))
		w.line("VCVTDQ2PS %s, %s", zSum, zSum)
		w.line("VMULPS %s, %s, %s", zScales, zSum, zSum)
		w.line("VMULPS.BCST %d(BX), %s, %s", 4*r, zSum, zSum)
		w.line("VADDPS %s, Z%d, Z%d", zSum, r, r)
	})
	w.line("MOVQ groupsCall_sums(AX), DX")
	w.line("CMPQ DX, $0")
	w.line("JEQ next")
	w.line("MOVQ R10, R15")
	w.line("MOVQ groupsCall_rows(AX), BX")
	w.label("sums")
	w.groupSumOf(bits, "(CX)", "(R15)")
	w.line("VMOVDQU32 %s, (DX)", zSum)
	w.line("ADDQ $4, CX")
	w.line("ADDQ $64, R15")
	w.line("ADDQ $64, DX")
	w.line("DECQ BX")
	w.line("JNE sums")
	w.line("MOVQ DX, groupsCall_sums(AX)")
	if bits == 4 {
		codes()
	}
	w.label("next")
	w.line("DECQ R9")
	w.line("JNE group")
	w.line("MOVQ R13, CX")
	w.line("MOVQ groupsCall_rows(AX), DX")
	w.rowsDo("stored", func(r int) {
		if r > 0 {
			w.line("ADDQ groupsCall_ldd(AX), CX")
		}
		w.line("VMOVUPS Z%d, (CX)", r)
	})
	w.line("ADDQ $64, R13")
	w.line("DECQ R12")
	w.line("JNE panel")
}
