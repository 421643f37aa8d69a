package kernels

// tile is one call of an inner kernel: rows x cols output elements. Assembly reads it by offset; a test holds the offsets.
//
// A gemm tile is, for row i and column j,
//
//	acc = dst[i*ldd+j] if load, else 0; b = 0
//	for seg, for p in 0..seg.n: acc += a[i*lda+seg.off+p] * panel[b*NR+j]; b++
//	dst[i*ldd+j] = limit(acc + bias[j], lo, hi)
//
// A depthwise tile has one product per segment, a[i*lda+seg.off+j] * panel[b*NR+j]. Max and sum windows have no panel: acc
// starts as lo and takes a[i*lda+seg.off+j] of every segment. Elementwise tiles are one row of any number of columns with the
// second operand, or for fake the scale, in panel.
//
// The tiles of observing read a. Minima and maxima go to lo and hi, or those of columns to panel and dst, and load says
// whether a is finite. Bins increments counts; dst is its scratch.
//
// Row operations take one row of a, whose length is a multiple of rowLanes, and add to lanes or, for the maximum, to dst.
// Normalizing takes mean and inv, the scale in panel and the bias.
//
// The slices begin with the tile's first element and end where the underlying data does.
type tile struct {
	a, panel  []float32
	dst, bias []float32 // bias is nil or begins at the tile's first column
	segs      []segment
	lda, ldd  int
	rows      int // 1 to MR
	cols      int // 1 to NR
	load      int // 0 or 1
	lo, hi    float32
	counts    []uint32 // OpBins: counters
	floor     uint32   // OpBins: bins up to this one are counted as one
	side      uint32   // OpBins: counters of a sign
	lanes     *[rowLanes]float64
	mean, inv float64
	strip     *strip // gemm: how the tile is repeated
}

// strip says how a gemm tile is repeated: count tiles follow each other, the slices of each beginning a step further than those
// of the one before. The rows of a tile are two halves, the first of (rows+1)/2 rows lda apart; the second begins second
// elements after the first. So a tile may cover two lines, and a call many tiles.
//
// To every sum, the bias included, row i column j of add is added if add is not nil, then the limits apply. ahead is what the
// next call reads of panels; it is prefetched and may be anything readable.
type strip struct {
	count                     int
	stepA, stepD, stepR       int // from tile to tile in a, dst and add, in elements
	secondA, secondD, secondR int // from half to half
	ldr                       int // between rows of add
	add                       []float32
	ahead                     []float32
}

// segment is a run of n consecutive elements of each row of a, off elements after the row's start.
type segment struct{ off, n int }
