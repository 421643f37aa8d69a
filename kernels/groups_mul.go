package kernels

import (
	"qwb/kernels/ref"
)

// GroupsProduct is a product of MulGroups.
type GroupsProduct struct {
	Matrix *Groups
	// Dst takes a row of Matrix.Rows elements for each row of activations, without gaps.
	Dst []float32
	// Sums, if not nil, takes the int32 sums of products with quantized activations: for each row of activations and each row of the matrix those of its pieces.
	Sums []int32
}

// groupTile is one call of a product: of up to MR rows of activations with panels of 16 rows of a matrix. Assembly reads it by
// offset; a test holds the offsets.
type groupTile struct {
	w      []uint32  // from the first panel on
	x      []uint32  // from the tile on
	dst    []float32 // 16 elements of each row for every panel, one panel after the other
	sums   []int32   // nil, or 16 for every group and row
	ldd    int       // between rows of dst, in elements
	groups int       // of a row
	words  int       // of a group and row of the matrix
	panels int
	rows   int
	bits   int
}

// groupsJob is the memory of MulGroups.
type groupsJob struct {
	x        *GroupRows
	products []GroupsProduct
	panels   int // of all products
	pieces   int
	piece    func(i int)
}

// groupsWorker is the memory of one piece.
type groupsWorker struct {
	tile groupTile
	out  []float32
	sums []int32
}

// groupsGrain is how many bytes of matrices, times rows of activations, are worth a piece of their own.
const groupsGrain = 1 << 14

// MulGroups multiplies rows of activations with matrices that take them (Groups.Takes): Dst[i*Rows+r] is ref.DotGroups, or
// ref.DotGroupsFloat, of row i and row r of the matrix, in every row of products.
func (t *Table) MulGroups(par Parallel, x *GroupRows, products []GroupsProduct) {
	j, _ := t.jobs.groups.Get().(*groupsJob)
	if j == nil {
		j = new(groupsJob)
		j.piece = func(i int) {
			w, _ := t.jobs.groupsWorkers.Get().(*groupsWorker)
			if w == nil {
				w = new(groupsWorker)
			}
			j.run(w, part(j.panels, j.pieces, i), part(j.panels, j.pieces, i+1))
			w.tile = groupTile{}
			t.jobs.groupsWorkers.Put(w)
		}
	}
	j.x, j.products, j.panels = x, products, 0
	work := 0
	for i := range products {
		p := &products[i]
		if !p.Matrix.Takes(x) {
			panic("kernels: rows of activations were prepared for another matrix")
		}
		checkLen("dst", len(p.Dst), x.m*p.Matrix.Rows)
		if p.Sums != nil {
			if p.Matrix.Float {
				panic("kernels: products with floats have no integer sums")
			}
			checkLen("sums", len(p.Sums), x.m*p.Matrix.TotalPieces())
		}
		j.panels += ceil(p.Matrix.Rows, groupLanes)
		work += p.Matrix.Bytes() * x.m
	}
	if x.m > 0 && j.panels > 0 {
		j.pieces = 1
		if par != nil {
			j.pieces = max(1, min(j.panels, work/groupsGrain, maxPieces))
		}
		par.Run(j.pieces, j.piece)
	}
	j.x, j.products = nil, nil
	t.jobs.groups.Put(j)
}

// run computes panels lo to hi, counted through all products.
func (j *groupsJob) run(w *groupsWorker, lo, hi int) {
	first := 0
	for i := range j.products {
		p := &j.products[i]
		n := ceil(p.Matrix.Rows, groupLanes)
		if from, to := max(lo-first, 0), min(hi-first, n); from < to {
			if p.Matrix.packed == nil {
				j.plain(p, from*groupLanes, min(to*groupLanes, p.Matrix.Rows))
			} else {
				j.tiles(w, p, from, to)
			}
		}
		first += n
	}
}

// plain computes rows lo to hi of a product by the definition.
func (j *groupsJob) plain(p *GroupsProduct, lo, hi int) {
	g, x := p.Matrix, j.x
	if g.Float {
		for i := range x.m {
			for r := lo; r < hi; r++ {
				at := r * g.Cols
				p.Dst[i*g.Rows+r] = ref.DotGroupsFloat(g.codes[at:][:g.Cols], g.scales[at/g.Size:], x.floats[i*x.cols:][:x.cols], g.Size, at%g.Size)
			}
		}
		return
	}
	groups := ceil(x.cols, x.size)
	perVector := 0
	if p.Sums != nil {
		perVector = g.TotalPieces()
	}
	for i := range x.m {
		codes, scales := x.codes[i*x.cols:][:x.cols], x.scales[i*groups:][:groups]
		sums := p.Sums
		if sums != nil {
			sums = sums[i*perVector:]
			for r := range lo {
				sums = sums[g.Pieces(r):]
			}
		}
		for r := lo; r < hi; r++ {
			at := r * g.Cols
			p.Dst[i*g.Rows+r] = ref.DotGroups(g.codes[at:][:g.Cols], g.scales[at/g.Size:], codes, scales, g.Size, at%g.Size, sums)
			if sums != nil {
				sums = sums[g.Pieces(r):]
			}
		}
	}
}

// tiles computes panels lo to hi of a product. A panel stays in the cache while all rows of activations go over it; a single
// row goes over all panels in one call.
func (j *groupsJob) tiles(w *groupsWorker, p *GroupsProduct, lo, hi int) {
	g, x := p.Matrix, j.x
	t := &w.tile
	t.ldd, t.groups, t.words, t.bits = g.Rows, g.Cols/g.Size, g.Size/g.perWord(), g.Bits
	whole := min(hi, g.Rows/groupLanes)
	if x.m == 1 && p.Sums == nil && lo < whole {
		t.w, t.x, t.dst, t.rows, t.panels = g.packed[lo*g.panelWords():], x.words, p.Dst[lo*groupLanes:], 1, whole-lo
		g.row.groups(t)
		lo = whole
	}
	for panel := lo; panel < hi; panel++ {
		for i := 0; i < x.m; i += x.tile {
			t.w, t.x, t.rows, t.panels = g.packed[panel*g.panelWords():], x.words[i*x.rowWords():], min(x.tile, x.m-i), 1
			w.multiply(p, panel*groupLanes, i)
		}
	}
}

// multiply runs a tile of one panel and puts what does not fit in place directly where it belongs.
func (w *groupsWorker) multiply(p *GroupsProduct, row, i int) {
	g, t := p.Matrix, &w.tile
	cols := min(groupLanes, g.Rows-row)
	t.dst, t.ldd, t.sums = p.Dst[i*g.Rows+row:], g.Rows, nil
	if cols < groupLanes {
		w.out = resize(w.out, t.rows*groupLanes)
		t.dst, t.ldd = w.out, groupLanes
	}
	if p.Sums != nil {
		w.sums = resize(w.sums, t.groups*t.rows*groupLanes)
		t.sums = w.sums
	}
	g.row.groups(t)
	for r := range t.rows {
		if cols < groupLanes {
			copy(p.Dst[(i+r)*g.Rows+row:][:cols], w.out[r*groupLanes:])
		}
		if p.Sums == nil {
			continue
		}
		for c := range cols {
			for k := range t.groups {
				p.Sums[((i+r)*g.Rows+row+c)*t.groups+k] = w.sums[(k*t.rows+r)*groupLanes+c]
			}
		}
	}
}
