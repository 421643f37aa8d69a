package kernels

import "fmt"

// GemmF32 is the right-hand matrix of a product, packed. It may be used by many goroutines at once.
type GemmF32 struct {
	row    Row
	packed []float32
	k, n   int
}

// PackGemmF32 packs b, a k x n matrix with rows ldb apart; with trans, b is stored as n x k.
func (t *Table) PackGemmF32(b []float32, k, n, ldb int, trans bool) *GemmF32 {
	g := new(GemmF32)
	t.RepackGemmF32(g, b, k, n, ldb, trans)
	return g
}

// RepackGemmF32 is PackGemmF32 into the memory of g, for matrices that change.
func (t *Table) RepackGemmF32(g *GemmF32, b []float32, k, n, ldb int, trans bool) {
	g.row, g.k, g.n = t.rows[OpGemm], k, n
	g.packed = resize(g.packed, packedLen(k, n, g.row.NR))
	if trans {
		packColumns(g.packed, b, k, n, ldb, g.row.NR)
	} else {
		packRows(g.packed, b, k, n, ldb, g.row.NR)
	}
}

// packRows is pack of a matrix stored row by row.
func packRows(dst, b []float32, k, n, ldb, nr int) {
	for j := 0; j < n; j += nr {
		cols := min(nr, n-j)
		for p := range k {
			row := dst[:nr]
			dst = dst[nr:]
			copy(row, b[p*ldb+j:][:cols])
			clear(row[cols:])
		}
	}
}

// packColumns is pack of a matrix stored column by column.
func packColumns(dst, b []float32, k, n, ldb, nr int) {
	for j0 := 0; j0 < n; j0 += nr {
		panel := dst[:k*nr]
		dst = dst[k*nr:]
		for j := range nr {
			if j0+j >= n {
				for i := j; i < len(panel); i += nr {
					panel[i] = 0
				}
				continue
			}
			i := j
			for _, v := range b[(j0+j)*ldb:][:k] {
				panel[i] = v
				i += nr
			}
		}
	}
}

// Size returns k and n.
func (g *GemmF32) Size() (k, n int) { return g.k, g.n }

// Run computes dst[i*ldd+j] = epilogue(sum over p in 0..k of a[i*lda+p]*b[p][j]) for i < m, j < n. dst must not overlap a.
func (g *GemmF32) Run(par Parallel, dst []float32, ldd int, a []float32, lda, m int, ep Epilogue) {
	checkMatrix("dst", len(dst), m, g.n, ldd)
	checkMatrix("a", len(a), m, g.k, lda)
	checkBias(ep, g.n)
	p := product{row: g.row, packed: g.packed, k: g.k, n: g.n, segs: []segment{{0, g.k}}, ep: ep,
		a: a, lda: lda, dst: dst, ldd: ldd, lines: 1, perLine: m, start: func(int) (int, int) { return 0, 0 }}
	p.run(par)
}

// checkMatrix panics unless a slice of length n holds rows x cols elements with rows ld apart.
func checkMatrix(name string, n, rows, cols, ld int) {
	if rows < 0 || cols < 0 || rows > 1 && ld < cols || rows > 0 && n < (rows-1)*ld+cols {
		panic(fmt.Sprintf("kernels: %s of %d elements cannot hold %d x %d with rows %d apart", name, n, rows, cols, ld))
	}
}

func checkBias(ep Epilogue, n int) {
	if ep.Bias != nil && len(ep.Bias) < n {
		panic(fmt.Sprintf("kernels: bias of %d elements for %d columns", len(ep.Bias), n))
	}
}

func checkLen(name string, have, need int) {
	if have < need {
		panic(fmt.Sprintf("kernels: %s of %d elements, %d needed", name, have, need))
	}
}
