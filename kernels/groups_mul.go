package kernels

import (
	"fmt"

	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

// GroupsProduct is a product of MulGroups.
type GroupsProduct struct {
	Matrix *Groups
	// Dst takes a row of Matrix.Rows elements for each row of activations, without gaps.
	Dst []float32
	// Sums, if not nil, takes the int32 sums of products with quantized activations:
	// for each row of activations and each row of the matrix those of its pieces.
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
	x      *GroupRows
	parts  []groupsPart
	each   int // panels that are multiplied at once
	steps  int // of each panels, of all parts
	pieces int
	piece  func(i int)
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
			j.run(w, part(j.steps, j.pieces, i), part(j.steps, j.pieces, i+1))
			w.tile = groupTile{}
			t.jobs.groupsWorkers.Put(w)
		}
	}
	j.x, j.parts, j.steps, j.each = x, j.parts[:0], 0, 1
	if x.m > 1 {
		j.each = panelsAtOnce
	}
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
		j.parts = p.parts(j.parts, x)
		work += p.Matrix.Bytes() * x.m
	}
	for i := range j.parts {
		j.steps += ceil(j.parts[i].Rows, j.each*groupLanes)
	}
	if x.m > 0 && j.steps > 0 {
		j.pieces = 1
		if par != nil {
			j.pieces = max(1, min(j.steps, work/groupsGrain, maxPieces))
		}
		par.Run(j.pieces, j.piece)
	}
	clear(j.parts)
	j.x = nil
	t.jobs.groups.Put(j)
}

// run computes steps lo to hi, counted through all parts.
func (j *groupsJob) run(w *groupsWorker, lo, hi int) {
	first := 0
	for i := range j.parts {
		p := &j.parts[i]
		n := ceil(p.Rows, j.each*groupLanes)
		if from, to := max(lo-first, 0), min(hi-first, n); from < to {
			if from, to = from*j.each, to*j.each; p.packed == nil {
				p.plain(from*groupLanes, min(to*groupLanes, p.Rows))
			} else {
				w.tiles(p, from, min(to, ceil(p.Rows, groupLanes)), j.each)
			}
		}
		first += n
	}
}

// plain computes rows lo to hi of a product by the definition.
func (p *groupsPart) plain(lo, hi int) {
	g, x := p.Groups, p.x
	if g.Float {
		for i := range x.m {
			for r := lo; r < hi; r++ {
				at := r * g.Cols
				p.dst[i*g.Rows+r] = ref.DotGroupsFloat(g.codes[at:][:g.Cols], g.scales[at/g.Size:], x.floats[i*x.cols:][:x.cols], g.Size, at%g.Size)
			}
		}
		return
	}
	groups := ceil(x.cols, x.size)
	for i := range x.m {
		codes, scales := x.codes[i*x.cols:][:x.cols], x.scales[i*groups:][:groups]
		sums := p.sums
		if sums != nil {
			sums = sums[i*p.total:]
			for r := range lo {
				sums = sums[g.Pieces(r):]
			}
		}
		for r := lo; r < hi; r++ {
			at := r * g.Cols
			p.dst[i*g.Rows+r] = ref.DotGroups(g.codes[at:][:g.Cols], g.scales[at/g.Size:], codes, scales, g.Size, at%g.Size, sums)
			if sums != nil {
				sums = sums[g.Pieces(r):]
			}
		}
	}
}

// tiles computes panels lo to hi of a product, each at once, which stay in the cache while all rows of activations go over them. A single
// row goes over all panels in one call.
func (w *groupsWorker) tiles(p *groupsPart, lo, hi, each int) {
	g, x := p.Groups, p.x
	t := &w.tile
	t.groups, t.words, t.bits = g.Cols/g.Size, g.Size/g.perWord(), g.Bits
	if x.m == 1 && p.sums == nil {
		whole := hi
		if p.step == 1 {
			whole = min(hi, g.Rows/groupLanes)
		}
		if lo < whole {
			w.multiply(p, lo, whole, 0)
		}
		lo = whole
	}
	switch {
	case p.sums != nil:
		each = 1
	case x.whole:
		each = max(each, manyWords/g.panelWords())
	}
	for panel := lo; panel < hi; panel += each {
		for i := 0; i < x.m; i += x.tile {
			w.multiply(p, panel, min(panel+each, hi), i)
		}
	}
}

// manyWords is how many words of panels a product of many rows goes over in one call: they stay in the second-level cache.
const manyWords = 1 << 15

// multiply runs a tile, of the rows of activations from row i on, over panels,
// and puts directly where it belongs what lies there side by side.
func (w *groupsWorker) multiply(p *groupsPart, panel, to, i int) {
	g, t := p.Groups, &w.tile
	row := panel * groupLanes
	cols := min(to*groupLanes, g.Rows) - row
	t.w, t.x, t.rows, t.panels = g.packed[panel*g.panelWords():], p.x.words[i*p.x.rowWords():], min(p.x.tile, p.x.m-i), to-panel
	direct := p.step == 1 && cols == t.panels*groupLanes
	if direct {
		t.dst, t.ldd = p.dst[i*p.rows+row:], p.rows
	} else {
		t.ldd = t.panels * groupLanes
		w.out = resize(w.out, t.rows*t.ldd)
		t.dst = w.out
	}
	t.sums = nil
	if p.sums != nil {
		w.sums = resize(w.sums, t.groups*t.rows*groupLanes)
		t.sums = w.sums
	}
	if p.x.whole {
		g.row.many(t)
	} else {
		g.row.groups(t)
	}
	for r := range t.rows {
		if !direct {
			dst := p.dst[(i+r)*p.rows+p.first+row*p.step:]
			for c, v := range w.out[r*t.ldd:][:cols] {
				dst[c*p.step] = v
			}
		}
		if p.sums == nil {
			continue
		}
		for c := range cols {
			sums := p.sums[(i+r)*p.total+p.firstSum+(row+c)*p.stepOfSum:]
			for k := range t.groups {
				sums[k] = w.sums[(k*t.rows+r)*groupLanes+c]
			}
		}
	}
}

// panelsAtOnce is how many panels several rows of activations are multiplied with in one call.
const panelsAtOnce = 2

// pairedRow is a row of products with functions for single panels and for pairs of them, listed by the number of rows of activations.
func pairedRow(op Op, isa string, runs func(cpu.Features) bool, single, pair []func(*groupTile)) Row {
	r := groupsRow(op, isa, runs, single)
	r.groups = func(t *groupTile) {
		if t.panels == panelsAtOnce && t.sums == nil {
			pair[t.rows-1](t)
		} else {
			single[t.rows-1](t)
		}
	}
	return r
}

// groupsRow is a row of products whose functions are listed by the number of rows of activations.
func groupsRow(op Op, isa string, runs func(cpu.Features) bool, f []func(*groupTile)) Row {
	return Row{Name: fmt.Sprintf("%s-%s-%dx%d", op, isa, len(f), groupLanes), Op: op, ISA: isa, MR: len(f), NR: groupLanes, runs: runs,
		groups: func(t *groupTile) { f[t.rows-1](t) }}
}
