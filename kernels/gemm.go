package kernels

import "fmt"

// GemmF32 is the right-hand matrix of a product, packed. It may be used by many goroutines at once.
type GemmF32 struct {
	row    Row
	packed []float32
	k, n   int
	jobs   *jobs
}

// PackGemmF32 packs b, a k x n matrix with rows ldb apart; with trans, b is stored as n x k.
func (t *Table) PackGemmF32(b []float32, k, n, ldb int, trans bool) *GemmF32 {
	g := new(GemmF32)
	t.RepackGemmF32(g, b, k, n, ldb, trans)
	return g
}

// RepackGemmF32 is PackGemmF32 into the memory of g, for matrices that change.
func (t *Table) RepackGemmF32(g *GemmF32, b []float32, k, n, ldb int, trans bool) {
	g.row, g.k, g.n, g.jobs = t.rows[OpGemm], k, n, t.jobs
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

// Run computes dst[i*ldd+j] = epilogue(sum over p in 0..k of a[i*lda+p]*b[p][j]) for i < m, j < n. dst must not overlap a. What
// the epilogue adds has rows of n elements, one after the other.
func (g *GemmF32) Run(par Parallel, dst []float32, ldd int, a []float32, lda, m int, ep Epilogue) {
	j := g.jobs.take()
	defer j.release()
	p := g.product(j, dst, ldd, a, lda, m, ep)
	p.run(par, j)
}

// AddTo puts into b what Run would compute.
func (g *GemmF32) AddTo(b *Batch, dst []float32, ldd int, a []float32, lda, m int, ep Epilogue) {
	j := g.jobs.take()
	p := g.product(j, dst, ldd, a, lda, m, ep)
	b.add(j, &p)
}

func (g *GemmF32) product(j *job, dst []float32, ldd int, a []float32, lda, m int, ep Epilogue) product {
	checkMatrix("dst", len(dst), m, g.n, ldd)
	checkMatrix("a", len(a), m, g.k, lda)
	checkEpilogue(ep, m, g.n)
	j.segs = append(j.segs[:0], segment{0, g.k})
	return product{row: g.row, packed: g.packed, k: g.k, n: g.n, segs: j.segs, ep: ep, a: a, dst: dst, ldd: ldd, ldr: g.n,
		images: 1, planes: 1, lines: 1, perLine: m, in: places{pos: lda}, out: places{pos: 1}}
}

// checkMatrix panics unless a slice of length n holds rows x cols elements with rows ld apart.
func checkMatrix(name string, n, rows, cols, ld int) {
	if rows < 0 || cols < 0 || rows > 1 && ld < cols || rows > 0 && n < (rows-1)*ld+cols {
		panic(fmt.Sprintf("kernels: %s of %d elements cannot hold %d x %d with rows %d apart", name, n, rows, cols, ld))
	}
}

// checkEpilogue panics unless what the epilogue adds fits rows x n sums.
func checkEpilogue(ep Epilogue, rows, n int) {
	if ep.Bias != nil && len(ep.Bias) < n {
		panic(fmt.Sprintf("kernels: bias of %d elements for %d columns", len(ep.Bias), n))
	}
	if ep.Add != nil && len(ep.Add) < rows*n {
		panic(fmt.Sprintf("kernels: %d elements to add to %d x %d", len(ep.Add), rows, n))
	}
}

func checkLen(name string, have, need int) {
	if have < need {
		panic(fmt.Sprintf("kernels: %s of %d elements, %d needed", name, have, need))
	}
}
