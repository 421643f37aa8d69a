package kernels

import (
	"sync"
	"sync/atomic"
)

// jobs keeps the memory of operations for the next ones, so that in the long run an operation allocates nothing. A table and
// what it packed share one.
type jobs struct{ jobs, workers, rows, groups, groupsWorkers sync.Pool }

// job is the memory of one operation: what its pieces share, and the functions of a piece, bound once.
type job struct {
	jobs    *jobs
	product product
	window  window
	pad     padding

	segs   []segment
	cut    []segment
	blocks []block
	left   []atomic.Int32

	productPiece, depthwisePiece, poolPiece, padPiece func(i int)
}

// worker is the memory of one piece.
type worker struct {
	tile  tile
	strip strip
	segs  []segment
	lines []float32 // input lines with their padding
}

// take returns a job that is not in use.
func (js *jobs) take() *job {
	if j, ok := js.jobs.Get().(*job); ok {
		return j
	}
	j := &job{jobs: js}
	j.productPiece = j.piece(func(i int, w *worker) { j.product.piece(i, &w.tile) })
	j.depthwisePiece = j.piece(func(i int, w *worker) { j.window.depthwise(i, w) })
	j.poolPiece = j.piece(func(i int, w *worker) { j.window.pool(i, w) })
	j.padPiece = func(i int) { j.pad.piece(i) }
	return j
}

// piece lends f a worker for each call.
func (j *job) piece(f func(i int, w *worker)) func(i int) {
	return func(i int) {
		w, ok := j.jobs.workers.Get().(*worker)
		if !ok {
			w = new(worker)
		}
		w.tile.strip = &w.strip
		f(i, w)
		w.tile, w.strip = tile{}, strip{}
		j.jobs.workers.Put(w)
	}
}

// release gives j back. It keeps no operand alive.
func (j *job) release() {
	j.product, j.window, j.pad = product{}, window{}, padding{}
	j.jobs.jobs.Put(j)
}
