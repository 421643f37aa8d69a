package kernels

// StoreBlocks turns sums into real numbers as StoreF32 does and hands them to Done block by block, while they are in the cache: some
// rows of all columns of a panel. It serves functions of single elements that stand behind a product, and does not stand in a StoreAll.
type StoreBlocks struct {
	Scale
	// Done is called once for every block, by several goroutines at a time where the product runs in parallel. The block is its own
	// until it returns, to overwrite too.
	Done func(b *Block)
}

// Block is a part of a matrix: Rows rows from Row on of Cols columns from Col on. The element of row i and column j is
// Real[i*Stride+j]; what lies between Cols and Stride is undefined.
type Block struct {
	Real                         []float32
	Stride, Row, Col, Rows, Cols int
}

func (o *StoreBlocks) check(rows, cols int) { checkScale(&o.Scale, cols) }

func (o *StoreBlocks) store(s *Sums) {
	t, b := s.scaled(&o.Scale), s.block
	if b.Rows == 0 {
		b.Row, b.Col, b.Cols = s.Row, s.Col, s.Cols
	}
	b.Real = grown(b.Real, (b.Rows+s.Rows)*s.Stride)
	t.f32, t.ldd = b.Real[b.Rows*s.Stride:], s.Stride
	s.table.rows[OpScaleF32].store(t)
	b.Rows, b.Stride = b.Rows+s.Rows, s.Stride
}

// done hands over the block that is complete.
func (o *StoreBlocks) done(b *Block) {
	if b.Rows > 0 {
		o.Done(b)
	}
	b.Rows = 0
}

// grown returns s with n elements, of which those that it had before are kept.
func grown(s []float32, n int) []float32 {
	if n > cap(s) {
		s = append(make([]float32, 0, max(n, 2*cap(s))), s...)
	}
	return s[:n]
}
