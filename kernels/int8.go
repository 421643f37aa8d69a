package kernels

import (
	"sync"
	"unsafe"

	"qwb/kernels/ref"
)

// Scale, Shift and their roundings are those of the specification.
type (
	Scale         = ref.Scale
	Shift         = ref.Shift
	ShiftRounding = ref.ShiftRounding
)

const (
	TwiceAway = ref.TwiceAway
	TwiceUp   = ref.TwiceUp
	OnceUp    = ref.OnceUp
	OnceAway  = ref.OnceAway
	OnceEven  = ref.OnceEven
	OnceFloor = ref.OnceFloor
)

// Terms are added to the sums of an integer product, wrapping in int32: the int32 bias, and what zero points contribute. For
// sums of (a-za)*(b-zb) over k elements those are, with zb = 0, Column[j] = -za*sum(b) of the column, and with any zb
// Column[j] = -za*sum(b) + k*za*zb and Row[i] = -zb*sum(a) of the row.
type Terms struct {
	Column []int32 // one per column, or nil
	Row    []int32 // one per row, which in convolutions is an output position; or nil
}

// tile8 is one call of an inner integer kernel. Assembly reads it by offset, as it does tile. A gemm tile is
//
//	dst[i*ldd+j] = init[i*ldi+j] + sum over seg, p in 0..seg.n*G of a[i*lda+seg.off+p] * (weight p of column j in panel)
//
// with G elements to a group, as the row's layout says; all segments have equally many. A depthwise tile has one product per segment,
// a[i*lda+seg.off+j] times weight j. All NR columns of init and panel can be read and of dst written, whatever cols is; of a
// a depthwise tile reads cols columns.
type tile8 struct {
	a         []uint8
	panel     []int8
	dst, init []int32
	segs      []segment // n in groups
	lda, ldd  int
	rows      int   // 1 to MR; see tileRows8
	cols      int   // 1 to NR
	ldi       int   // 0 or NR
	more      []int // where further lines of as many rows begin in a, for kernels that take several: their sums follow
}

// layout8 is how the weights of a panel lie in memory.
type layout8 uint8

const (
	flat8   layout8 = iota // one after the other: weight p of column j at p*NR + j
	quads8                 // groups of four: byte e of weight group g of column j at (g*NR + j)*4 + e
	pairs16                // groups of four as int16: those of even e, then those of odd e
	wide32                 // one after the other as int32
	slide8                 // of 3x3 kernels: byte e of element (x*NR + j) is that of kernel row e and column x, that of e = 3 is zero
)

// group is the number of elements of a segment that are taken at once; segments are rounded up to it with weights of zero.
func (l layout8) group() int {
	if l == quads8 || l == pairs16 {
		return 4
	}
	return 1
}

// bytes is the size of a weight.
func (l layout8) bytes() int { return [...]int{1, 1, 2, 4, 1}[l] }

// The largest tiles of rows whose tiles are not cut further, the largest panel, and how many sums wait to be stored together: that has a
// price of its own, which a tile of short sums would feel. No tile has more.
const (
	maxMR8   = 16
	maxNR8   = 64
	heldSums = 4096
)

// pools8 keep the memory of running products, so that a run allocates nothing.
type pools8 struct{ products, pieces, codes sync.Pool }

func (p *pools8) product() *product8 {
	if x, ok := p.products.Get().(*product8); ok {
		return x
	}
	x := new(product8)
	x.piece, x.padLines = x.runPiece, x.runPad
	return x
}

func (p *pools8) piece() *piece8 {
	if x, ok := p.pieces.Get().(*piece8); ok {
		return x
	}
	memory := aligned8[int32](2*heldSums + maxNR8)
	return &piece8{acc: memory[:heldSums], init: memory[heldSums:][:heldSums], column: memory[2*heldSums:]}
}

// aligned8 returns n zeros that begin with a cache line, so that vectors do not lie across two.
func aligned8[T int8 | int32](n int) []T {
	const line = 64
	size := int(unsafe.Sizeof(T(0)))
	s := make([]T, n+line/size)
	skip := -int(uintptr(unsafe.Pointer(&s[0]))) & (line - 1) / size
	return s[skip:][:n:n]
}
