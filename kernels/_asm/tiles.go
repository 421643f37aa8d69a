package main

import (
	"fmt"
	"strings"
)

// AMX is written as text, as NEON is: neither the generator's assembler library nor Go's assembler knows its instructions, which are bytes
// here, encoded as in the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (VEX, map 0F38).

// tiles collects the text of one file. Tile registers are numbers.
type tiles struct{ strings.Builder }

func (w *tiles) line(format string, args ...any)  { fmt.Fprintf(w, "\t"+format+"\n", args...) }
func (w *tiles) label(format string, args ...any) { fmt.Fprintf(w, format+":\n", args...) }

// general are the numbers of the general registers that addresses are made of.
var general = map[string]byte{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SI": 6, "DI": 7, "R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12,
	"R15": 15}

// Mandatory prefixes, as VEX has them.
const (
	noPrefix = iota
	prefix66
	prefixF3
	prefixF2
)

// vex emits an instruction of map 0F38: reg is the tile that is written, or read by a store; third the tile of VEX.vvvv.
func (w *tiles) vex(text string, prefix, third, base, index, opcode byte, rest ...byte) {
	code := append([]byte{0xc4, 0xe2 ^ base>>3<<5 ^ index>>3<<6, 0x78 ^ third<<3 | prefix, opcode}, rest...)
	parts := make([]string, len(code))
	for i, b := range code {
		parts[i] = fmt.Sprintf("BYTE $%#02x", b)
	}
	w.line("%s // %s", strings.Join(parts, "; "), text)
}

// load reads a tile, rows of which lie as far apart as register apart says.
func (w *tiles) load(tile byte, disp int8, base, apart string) {
	w.memory("TILELOADD", prefixF2, tile, disp, base, apart)
}

func (w *tiles) store(tile byte, disp int8, base, apart string) {
	w.memory("TILESTORED", prefixF3, tile, disp, base, apart)
}

func (w *tiles) memory(name string, prefix, tile byte, disp int8, base, apart string) {
	const disp8, sib = 0x40, 4
	b, i := general[base], general[apart]
	w.vex(fmt.Sprintf("%s T%d, %d(%s)(%s*1)", name, tile, disp, base, apart), prefix, 0, b, i, 0x4b, disp8|tile<<3|sib, i&7<<3|b&7, byte(disp))
}

// dot adds the products of a, bytes without a sign, and b, bytes with one, to tile to.
func (w *tiles) dot(to, a, b byte) {
	w.vex(fmt.Sprintf("TDPBUSD T%d, T%d, T%d", to, a, b), prefix66, b, 0, 0, 0x5e, 0xc0|to<<3|a)
}

func (w *tiles) configure() { w.vex("LDTILECFG (AX)", noPrefix, 0, 0, 0, 0x49, 0x00) }
func (w *tiles) release()   { w.vex("TILERELEASE", noPrefix, 0, 0, 0, 0x49, 0xc0) }

// The tiles: sums of two blocks of rows by two vectors of columns, then a factor of each side, and the same for what is left of a segment.
const (
	leftTile, rightTile         = 4, 5
	leftRestTile, rightRestTile = 6, 7
)

// sumTile is the tile of block r and vector v.
func sumTile(r, v int) byte { return byte(2*r + v) }

// products multiplies a part of a segment. A left tile is read again rather than kept: reading is not what takes the time.
func (w *tiles) products(blocks, vecs int, left, right byte) {
	rows := []string{"CX", "R15"}
	for v := range vecs {
		w.load(right, int8(64*v), "SI", "R11")
		for k := range blocks {
			r := k
			if v == 1 {
				r = blocks - 1 - k // the one that is there
			}
			if v == 0 || k > 0 {
				w.load(left, 0, rows[r], "R8")
			}
			w.dot(sumTile(r, v), left, right)
		}
	}
}

// blocks computes one or two blocks of rows, whose places R10 points at.
func (w *tiles) blocks(name string, blocks, vecs int) {
	sums := []string{"DI", "BX"}
	places := func(field, apart string, do func(tile byte, disp int8, base, apart string)) {
		w.line("MOVQ tileCall_%s(AX), DI", field)
		if blocks == 2 {
			w.line("MOVQ DI, BX")
			w.line("ADDQ (tilePlace__size+tilePlace_%s)(R10), BX", field)
		}
		w.line("ADDQ tilePlace_%s(R10), DI", field)
		if do == nil {
			return
		}
		w.line("MOVQ tileCall_%s(AX), DX", apart)
		for r := range blocks {
			for v := range vecs {
				do(sumTile(r, v), int8(64*v), sums[r], "DX")
			}
		}
	}
	places("init", "ldi", w.load)
	places("a", "", nil)
	w.line("MOVQ tileCall_panel(AX), SI")
	w.line("MOVQ tileCall_segs(AX), R12")
	w.line("MOVQ tileCall_count(AX), R13")
	w.label("%s_segment", name)
	w.line("MOVQ segment_off(R12), CX")
	w.line("MOVQ CX, R15")
	w.line("ADDQ DI, CX")
	w.line("ADDQ BX, R15")
	w.line("MOVQ segment_n(R12), DX")
	w.label("%s_whole", name)
	w.line("CMPQ DX, $16")
	w.line("JLT %s_rest", name)
	w.products(blocks, vecs, leftTile, rightTile)
	w.line("ADDQ $2048, SI")
	w.line("ADDQ $64, CX")
	w.line("ADDQ $64, R15")
	w.line("SUBQ $16, DX")
	w.line("JMP %s_whole", name)
	w.label("%s_rest", name)
	w.line("CMPQ DX, $0")
	w.line("JEQ %s_next", name)
	w.products(blocks, vecs, leftRestTile, rightRestTile)
	w.line("SHLQ $7, DX")
	w.line("ADDQ DX, SI")
	w.label("%s_next", name)
	w.line("ADDQ $segment__size, R12")
	w.line("DECQ R13")
	w.line("JNE %s_segment", name)
	places("dst", "ldd", w.store)
}

// writeTiles writes the functions of AMX: products of so many vectors of 16 columns, products of groups, and the loop that measures the
// peak.
func writeTiles(folder string) error {
	var w tiles
	w.WriteString(strings.Replace(header, "package kernels\n", "#include \"go_asm.h\"\n#include \"textflag.h\"\n", 1))
	stubs := header
	begin := func(name, call string) {
		fmt.Fprintf(&w, "\n// func %s(t *%s)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, call, name)
		w.line("MOVQ t+0(FP), AX")
		w.configure()
		stubs += fmt.Sprintf("\n//go:noescape\nfunc %s(t *%s)\n", name, call)
	}
	end := func() {
		w.release()
		w.line("RET")
	}
	for vecs := 1; vecs <= 2; vecs++ {
		begin(fmt.Sprintf("gemm8AMXV%d", vecs), "tileCall")
		w.line("MOVQ tileCall_lda(AX), R8")
		w.line("MOVQ $128, R11")
		w.line("LEAQ tileCall_places(AX), R10")
		w.line("MOVQ tileCall_pairs(AX), R9")
		w.label("pairs")
		w.line("CMPQ R9, $0")
		w.line("JEQ single")
		w.blocks("pair", 2, vecs)
		w.line("ADDQ $(2*tilePlace__size), R10")
		w.line("DECQ R9")
		w.line("JMP pairs")
		w.label("single")
		w.line("CMPQ tileCall_single(AX), $0")
		w.line("JEQ done")
		w.blocks("block", 1, vecs)
		w.label("done")
		end()
	}
	for _, bits := range []int{8, 4} {
		begin(fmt.Sprintf("groups%dAMX", bits), "groupsCall")
		w.groupTiles(bits)
		w.line("VZEROUPPER")
		end()
	}
	begin("dotPeakAMX", "tileCall")
	w.line("MOVQ tileCall_pairs(AX), CX")
	w.label("loop")
	for t := range byte(4) {
		w.dot(t, leftTile, rightTile)
	}
	w.line("DECQ CX")
	w.line("JNE loop")
	end()
	return writePair(folder, "amx_amd64", []byte(w.String()), []byte(stubs))
}
