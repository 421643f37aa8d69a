//go:build !purego

package kernels

import (
	"slices"
	"sync"
	"unsafe"

	"qwb/kernels/cpu"
)

// Tiles of AMX. A tile register has up to 16 rows of 64 bytes; TDPBUSD adds the products of 16 rows of 64 bytes without sign and 16
// columns of 64 bytes with sign to 16 x 16 sums, wrapping as everywhere. Weights lie as in panels for VNNI (quads8), so that both rows
// share what is packed.
//
// What a tile register holds belongs to a thread and not to a goroutine. So each call configures its tiles, uses and releases them, and
// Go, which preempts no assembly, moves no goroutine in between. A signal that arrives there finds room: its frame grows by the 8 KiB of
// the tiles, and Go's signal stacks have 32; when the permission is asked for the kernel refuses it to a process whose stacks are too
// small. A thread that has never used a tile gets the memory for them from the kernel at its first instruction.
const (
	tileRowsAMX = maxMR8 // of a register
	tileColumns = 16
	tileBytes   = 64
	tileGroups  = tileBytes / 4
	blocksAMX   = 8 // of rows in a call: configuring costs as much as a dozen products of tiles
	fewRowsAMX  = 4 // up to which VNNI is faster
)

// tileCall is one call of a product in tiles. Assembly reads it by offset.
type tileCall struct {
	config    [tileBytes]byte // of the registers, as LDTILECFG reads it
	a         unsafe.Pointer
	panel     unsafe.Pointer
	dst, init unsafe.Pointer
	segs      unsafe.Pointer
	count     int // of segs
	lda       int // bytes, as all distances here
	ldd, ldi  int
	pairs     int // of blocks of rows
	single    int // 1: one more block
	places    [blocksAMX]tilePlace
}

// tilePlace says where a block of rows lies, in bytes.
type tilePlace struct{ a, dst, init int }

// tilesAMX computes a tile of up to blocksAMX*tileRowsAMX rows, few ones by VNNI, which the weights lie for.
func tilesAMX(t *tile8) {
	if t.rows <= fewRowsAMX && len(t.more) == 0 {
		gemm8AVX512VNNI[(t.cols-1)/tileColumns][t.rows-1](t)
		return
	}
	c := tileCall{a: unsafe.Pointer(unsafe.SliceData(t.a)), panel: unsafe.Pointer(unsafe.SliceData(t.panel)),
		dst: unsafe.Pointer(unsafe.SliceData(t.dst)), init: unsafe.Pointer(unsafe.SliceData(t.init)),
		segs: unsafe.Pointer(unsafe.SliceData(t.segs))}
	c.arrange(t)
	if t.cols <= tileColumns {
		gemm8AMXV1(&c)
	} else {
		gemm8AMXV2(&c)
	}
}

// arrange cuts the lines of a tile into blocks. They have equally many rows, since the registers are configured once: the last block of a
// line begins where it ends with the rows, and computes some a second time. A pair takes hardly longer than a single block, whose sums
// wait for each other, and lines of a few rows make pairs.
func (c *tileCall) arrange(t *tile8) {
	c.count, c.lda, c.ldd, c.ldi = len(t.segs), t.lda, 4*t.ldd, 4*t.ldi
	most := tileRows(tileRowsAMX, t.lda, 4*t.ldd)
	blocks := (t.rows + most - 1) / most
	rows := (t.rows + blocks - 1) / blocks
	all := blocks * (1 + len(t.more))
	c.pairs, c.single = all/2, all%2
	for line := range 1 + len(t.more) {
		begin, of := 0, c.places[line*blocks:][:blocks]
		if line > 0 {
			begin = t.more[line-1]
		}
		for i := range of {
			first := min(i*rows, t.rows-rows)
			at := line*t.rows + first
			of[i] = tilePlace{begin + first*c.lda, at * c.ldd, at * c.ldi}
		}
	}
	c.configure(rows, t.segs[0].n%tileGroups)
}

// linesAMX is how many lines of so many rows a call takes.
func linesAMX(rows, lda int) int {
	most := tileRows(tileRowsAMX, lda)
	return max(1, blocksAMX/((rows+most-1)/most))
}

// configure describes the registers: four of sums, a left and a right factor, and the same for rest groups, of which there may be none.
func (c *tileCall) configure(rows, rest int) {
	configureTiles(&c.config, [][2]int{{rows, tileBytes}, {rows, tileBytes}, {rows, tileBytes}, {rows, tileBytes}, {rows, tileBytes},
		{tileGroups, tileBytes}, {rows, 4 * rest}, {rest, tileBytes}})
}

// configureTiles describes registers by their rows and the bytes of a row. One that lacks either is not there.
func configureTiles(config *[tileBytes]byte, registers [][2]int) {
	const palette, columns, rowCounts = 0, 16, 48 // places in config
	config[palette] = 1
	for i, r := range registers {
		if r[0] > 0 && r[1] > 0 {
			config[rowCounts+i], config[columns+2*i] = byte(r[0]), byte(r[1])
		}
	}
}

// peakAMX is the loop that measures what tiles can do: four products of whole tiles an iteration.
func peakAMX(t *tile) {
	c := tileCall{pairs: t.cols}
	c.configure(tileRowsAMX, 0)
	dotPeakAMX(&c)
}

// gemmAMX is the row of tiles; the one that is listed knows soundAMX too.
var gemmAMX = Row{Name: "gemm-u8s8-amx-128x32", Op: OpGemmU8S8, ISA: "amx", MR: blocksAMX * tileRowsAMX, NR: 2 * tileColumns,
	layout: quads8, runs: func(f cpu.Features) bool { return f.AMX && f.AVX512VNNI }, tile8: tilesAMX, lines: linesAMX}

// soundAMX compares products in tiles with the definition, once, where the processor has tiles: these rows were written from the manual,
// and a processor that no test has seen shall not decide what is computed.
func soundAMX() bool {
	return proofOfAMX.holds(func() bool {
		for _, shape := range [][3]int{{1, 4, 1}, {16, 64, 16}, {37, 150, 33}, {128, 267, 32}, {130, 64, 70}} {
			if !soundShape(shape[0], shape[1], shape[2]) {
				return false
			}
		}
		return true
	})
}

var proofOfAMX, proofOfGroups proof

// proof is what a comparison of rows of tiles said, made once. (sync.OnceValue would need the rows before they are listed.)
type proof struct {
	once sync.Once
	is   bool
}

// holds asks compare where the processor has tiles.
func (p *proof) holds(compare func() bool) bool {
	if !cpu.Detect().AMX {
		return true
	}
	p.once.Do(func() { p.is = compare() })
	return p.is
}

// extremes draws bytes, a third of which are 0 or 255.
func extremes(x uint32) func() uint8 {
	return func() uint8 {
		x = x*1664525 + 1013904223
		return uint8(max(0, min(255, int(x>>22)-384)))
	}
}

// soundShape compares the product of a matrix of m x k and one of k x n, extreme values among them.
func soundShape(m, k, n int) bool {
	a, b := make([]uint8, m*k), make([]int8, k*n)
	next := extremes(uint32(m*k + n))
	for i := range a {
		a[i] = next()
	}
	for i := range b {
		b[i] = int8(next() ^ 0x80)
	}
	var sums [2][]int32
	for i, r := range []Row{goInt8Rows[0], gemmAMX} {
		sums[i] = make([]int32, m*n)
		t := Select(cpu.Features{}).With(r)
		t.PackGemmU8S8(b, k, n, n, false).Run(nil, a, k, m, Terms{}, &StoreS32{Dst: sums[i], Ldd: n})
	}
	return slices.Equal(sums[0], sums[1])
}
