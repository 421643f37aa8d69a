package kernels

// rowGrain is how many elements of row operations are worth a piece of their own.
const rowGrain = 1 << 13

// rowArgs are the arguments of row operations and the sums they return. They are reused from row to row.
type rowArgs struct {
	table *Table
	tile  tile
	sums  [rowLanes]float64
	tops  [rowLanes]float32
	rest  [rowLanes]float32
	strip strip
	units unitsArgs
}

// borrow returns arguments for calls of rows, which would be allocated anew otherwise.
func (t *Table) borrow() *rowArgs {
	w, _ := t.spare.Get().(*rowArgs)
	if w == nil {
		w = new(rowArgs)
	}
	w.table = t
	return w
}

// giveBack takes them back; they hold on to nothing of the caller's.
func (t *Table) giveBack(w *rowArgs) {
	w.tile, w.units.tile = tile{}, unitsTile{}
	t.spare.Put(w)
}

// rowJob is a row operation on all its rows.
type rowJob struct {
	dst, src, scale, bias []float32
	mean, inv             []float32 // by row
	n                     int       // elements of a row of src
	number                float64   // what is added to a variance, or what sums are divided by
	row                   func(j *rowJob, w *rowArgs, i int)

	table        *Table
	rows, pieces int
}

// sharedRows is a row operation in progress, with the function of a piece bound once, so that nothing is allocated.
type sharedRows struct {
	rowJob
	piece func(i int)
}

// input is row i of src.
func (j *rowJob) input(i int) []float32 { return j.src[i*j.n:][:j.n] }

// perRow calls j.row for each of the rows.
func (t *Table) perRow(par Parallel, rows int, j rowJob) {
	s, _ := t.jobs.rows.Get().(*sharedRows)
	if s == nil {
		s = new(sharedRows)
		s.piece = s.run
	}
	j.table, j.rows, j.pieces = t, rows, piecesOf(rows, max(1, rowGrain/max(j.n, 1)))
	s.rowJob = j
	par.Run(j.pieces, s.piece)
	s.rowJob = rowJob{}
	t.jobs.rows.Put(s)
}

// run computes the rows of a piece.
func (s *sharedRows) run(i int) {
	w := s.table.borrow()
	for k := part(s.rows, s.pieces, i); k < part(s.rows, s.pieces, i+1); k++ {
		s.row(&s.rowJob, w, k)
	}
	s.table.giveBack(w)
}
