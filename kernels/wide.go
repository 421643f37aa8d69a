package kernels

import (
	"math"
	"sync"
)

// wideTile is one call of sums of products of float64: wideRows x wideCols sums in dst, their rows ldd bytes apart. Assembly reads it by
// offset; a test holds the offsets.
type wideTile struct {
	a   *float64 // k x wideRows
	b   *float64 // k x wideCols
	dst *float64
	ldd int
	k   int // not 0
}

const (
	wideRows  = 8
	wideCols  = 16
	wideDepth = 64  // of k at once: a panel of b stays in the first cache
	wideHigh  = 128 // rows of a at once
	wideNear  = 8   // panels of b at once: whole pages of its rows are read
)

// AddProduct adds factor*a*b to dst: a is m x k with rows lda apart, b is k x n with rows ldb apart, dst m x n with rows ldd apart, and
// overlaps neither. Each element of a is multiplied by factor first. To each element of dst the k products are added in their order, each
// with one rounding (math.FMA): every table gives the same bits.
func (t *Table) AddProduct(dst []float64, ldd int, a []float64, lda int, b []float64, ldb int, m, n, k int, factor float64) {
	checkMatrix("dst", len(dst), m, n, ldd)
	checkMatrix("a", len(a), m, k, lda)
	checkMatrix("b", len(b), k, n, ldb)
	run := wideRow(t.rows[OpRowSum].ISA)
	w := wideWorks.Get().(*wideWork)
	defer func() {
		w.call.dst = nil
		wideWorks.Put(w)
	}()
	for first := 0; first < m; first += wideHigh {
		rows := min(wideHigh, m-first)
		for p := 0; p < k; p += wideDepth {
			depth := min(wideDepth, k-p)
			w.packRows(a[first*lda+p:], lda, rows, depth, factor)
			for j := 0; j < n; j += wideNear * wideCols {
				cols := min(wideNear*wideCols, n-j)
				w.packColumns(b[p*ldb+j:], ldb, cols, depth)
				for c := 0; c < cols; c += wideCols {
					for i := 0; i < rows; i += wideRows {
						w.tile(run, dst[(first+i)*ldd+j+c:], ldd, i, c, min(wideRows, rows-i), min(wideCols, cols-c), depth)
					}
				}
			}
		}
	}
}

// wideWork is the memory of AddProduct: panels of a and b, and a tile for the borders of dst.
type wideWork struct {
	a    [wideHigh * wideDepth]float64
	b    [wideNear * wideDepth * wideCols]float64
	edge [wideRows * wideCols]float64
	call wideTile
}

// packRows puts rows of a into panels of wideRows rows; those that a panel lacks are 0.
func (w *wideWork) packRows(a []float64, lda, rows, depth int, factor float64) {
	for i := 0; i < rows; i += wideRows {
		to := w.a[i*wideDepth:][:depth*wideRows]
		for r := range wideRows {
			if i+r >= rows {
				for p := range depth {
					to[p*wideRows+r] = 0
				}
				continue
			}
			for p, v := range a[(i+r)*lda:][:depth] {
				to[p*wideRows+r] = v * factor
			}
		}
	}
}

// packColumns puts columns of b into panels of wideCols columns; those that the last one lacks are 0.
func (w *wideWork) packColumns(b []float64, ldb, cols, depth int) {
	for p := range depth {
		row := b[p*ldb:][:cols]
		for c := 0; c < cols; c += wideCols {
			to := (*[wideCols]float64)(w.b[c*wideDepth+p*wideCols:])
			if c+wideCols <= cols {
				*to = [wideCols]float64(row[c:])
			} else {
				clear(to[copy(to[:], row[c:]):])
			}
		}
	}
}

var wideWorks = sync.Pool{New: func() any { return new(wideWork) }}

// tile adds products of the rows from i and the columns from c on to rows x cols sums, by run or, where that is nil, in plain Go.
func (w *wideWork) tile(run func(*wideTile), dst []float64, ldd, i, c, rows, cols, depth int) {
	if run == nil {
		for r := range rows {
			sums := dst[r*ldd:][:cols]
			for p := range depth {
				x := w.a[i*wideDepth+p*wideRows+r]
				for j, v := range w.b[c*wideDepth+p*wideCols:][:cols] {
					sums[j] = math.FMA(x, v, sums[j])
				}
			}
		}
		return
	}
	t := &w.call
	*t = wideTile{a: &w.a[i*wideDepth], b: &w.b[c*wideDepth], dst: &dst[0], ldd: 8 * ldd, k: depth}
	if rows == wideRows && cols == wideCols {
		run(t)
		return
	}
	for r := range rows {
		copy(w.edge[r*wideCols:], dst[r*ldd:][:cols])
	}
	t.dst, t.ldd = &w.edge[0], 8*wideCols
	run(t)
	for r := range rows {
		copy(dst[r*ldd:][:cols], w.edge[r*wideCols:])
	}
}
