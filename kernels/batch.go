package kernels

// Batch runs several products as one: GemmF32.AddTo and ConvF32.AddTo put them in, Run computes them. Where they read the same
// activations, the pieces that read the same rows follow each other, so that the rows are read from memory once. Every product
// gives the bits that it gives alone. The zero value is ready, and memory is kept for the next use; a Batch is for one goroutine.
type Batch struct {
	jobs   []*job
	pieces []batchPiece
	piece  func(i int) // bound once
}

// batchPiece is a piece of one of the products.
type batchPiece struct{ job, piece int }

// Len returns how many products wait.
func (b *Batch) Len() int { return len(b.jobs) }

// add takes j, whose product is p.
func (b *Batch) add(j *job, p *product) {
	if p.prepare(j) > 0 {
		b.jobs = append(b.jobs, j)
		return
	}
	j.release()
}

// Run computes what was put in and empties the batch. The destinations are undefined before.
func (b *Batch) Run(par Parallel) {
	if len(b.jobs) == 0 {
		return
	}
	b.pieces = b.pieces[:0]
	for row, left := 0, true; left; row++ {
		left = false
		for k, j := range b.jobs {
			p := &j.product
			for col := 0; row < p.rowPieces && col < p.colPieces; col++ {
				b.pieces = append(b.pieces, batchPiece{k, row*p.colPieces + col})
			}
			left = left || row+1 < p.rowPieces
		}
	}
	if b.piece == nil {
		b.piece = func(i int) { b.jobs[b.pieces[i].job].productPiece(b.pieces[i].piece) }
	}
	par.Run(len(b.pieces), b.piece)
	b.Clear()
}

// Clear forgets what was put in.
func (b *Batch) Clear() {
	for k, j := range b.jobs {
		j.release()
		b.jobs[k] = nil
	}
	b.jobs = b.jobs[:0]
}
