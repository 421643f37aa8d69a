package kernels

// GemmU8S8 is the right-hand matrix of an integer product, packed. It may be used by many goroutines at once.
type GemmU8S8 struct {
	table  *Table
	row    Row
	packed []int8
	sums   []int32
	k, n   int
}

// PackGemmU8S8 packs b, a k x n matrix with rows ldb apart; with trans, b is stored as n x k.
func (t *Table) PackGemmU8S8(b []int8, k, n, ldb int, trans bool) *GemmU8S8 {
	g := new(GemmU8S8)
	t.RepackGemmU8S8(g, b, k, n, ldb, trans)
	return g
}

// RepackGemmU8S8 is PackGemmU8S8 into the memory of g, for matrices that change.
func (t *Table) RepackGemmU8S8(g *GemmU8S8, b []int8, k, n, ldb int, trans bool) {
	repack8(t, g, b, k, n, ldb, trans, 0)
}

// RepackGemmU8U8 is RepackGemmU8S8 for a matrix of uint8: each element b is taken as b-128, and so must be its zero point.
func (t *Table) RepackGemmU8U8(g *GemmU8S8, b []uint8, k, n, ldb int, trans bool) {
	repack8(t, g, b, k, n, ldb, trans, 0x80)
}

func repack8[T int8 | uint8](t *Table, g *GemmU8S8, b []T, k, n, ldb int, trans bool, flip T) {
	if trans {
		checkMatrix("b", len(b), n, k, ldb)
	} else {
		checkMatrix("b", len(b), k, n, ldb)
	}
	g.table, g.row, g.k, g.n = t, t.rows[OpGemmU8S8], k, n
	nr := g.row.NR
	if size := (n + nr - 1) / nr * g.row.layout.panelLen(1, k, nr); size <= cap(g.packed) {
		g.packed = g.packed[:size]
		clear(g.packed)
	} else {
		g.packed = aligned8[int8](size)
	}
	g.sums = resize(g.sums, n)
	packMatrix8(g.packed, g.sums, g.row.layout, b, k, n, ldb, trans, nr, flip)
}

// Size returns k and n.
func (g *GemmU8S8) Size() (k, n int) { return g.k, g.n }

// Sums returns the sum of each column. The caller must not change it.
func (g *GemmU8S8) Sums() []int32 { return g.sums }

// Run sends to out, for i < m and j < n, the sum over p in 0..k of a[i*lda+p]*b[p][j] plus terms. The output must not overlap
// a.
func (g *GemmU8S8) Run(par Parallel, a []uint8, lda, m int, terms Terms, out Output) {
	checkMatrix("a", len(a), m, g.k, lda)
	g.check(m, terms, out)
	if m == 0 || g.n == 0 {
		return
	}
	p := g.product(terms, out)
	p.a, p.lda, p.lines, p.perLine = a, lda, 1, m
	whole := g.row.layout.group() * g.row.layout.groups(1, g.k)
	safe := m // groups are read whole: the last rows, three at most, are copied to where that is possible
	for safe > 0 && (safe-1)*lda+whole > len(a) {
		safe--
	}
	if safe < m {
		p.perLine = safe
		p.run(par)
		p.last = resize(p.last, (m-safe)*whole)
		for i := safe; i < m; i++ {
			copy(p.last[(i-safe)*whole:], a[i*lda:][:g.k])
		}
		p.a, p.lda, p.firstRow, p.perLine = p.last, whole, safe, m-safe
	}
	p.run(par)
	p.release()
}

// RunS8 is Run for a signed left-hand matrix. *scratch holds a copy of a with the sign bits flipped; it is grown as needed and
// may be reused by any later call.
func (g *GemmU8S8) RunS8(par Parallel, a []int8, lda, m int, scratch *[]uint8, terms Terms, out Output) {
	checkMatrix("a", len(a), m, g.k, lda)
	g.check(m, terms, out)
	if m == 0 || g.n == 0 {
		return
	}
	p := g.product(terms, out)
	whole := g.row.layout.group() * g.row.layout.groups(1, g.k)
	*scratch = resize(*scratch, m*whole)
	p.a, p.lda, p.lines, p.perLine, p.less = *scratch, whole, 1, m, g.sums
	par.Slices(m, max(1, 1<<16/max(whole, 1)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			flipSigns((*scratch)[i*whole:][:g.k], a[i*lda:][:g.k])
		}
	})
	p.run(par)
	p.release()
}

func (g *GemmU8S8) product(terms Terms, out Output) *product8 {
	p := g.table.pools8.product()
	p.table, p.row, p.tile, p.packed, p.k, p.n, p.terms, p.out = g.table, g.row, g.row.tile8, g.packed, g.k, g.n, terms, out
	p.segs = append(p.segs[:0], segment{0, g.row.layout.groups(1, g.k)})
	return p
}

func (g *GemmU8S8) check(m int, terms Terms, out Output) {
	checkTerms(terms, m, g.n)
	out.check(m, g.n)
}

func checkTerms(terms Terms, rows, cols int) {
	if terms.Column != nil {
		checkLen("column terms", len(terms.Column), cols)
	}
	if terms.Row != nil {
		checkLen("row terms", len(terms.Row), rows)
	}
}

// flipSigns writes src+128.
func flipSigns(dst []uint8, src []int8) {
	for i, v := range src {
		dst[i] = uint8(v) ^ 0x80
	}
}
