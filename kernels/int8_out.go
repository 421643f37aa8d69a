package kernels

// Output says what becomes of the sums of an integer product: *StoreS32, *StoreScaled, *StoreF32, *StoreBlocks, *StoreShifted or
// StoreFunc. The tables of numbers that they hold have one entry for every column of the whole product. Run checks the lengths of
// slices; that the numbers are sound, Check of Scale and Shift does once for many runs.
type Output interface {
	check(rows, cols int) // panics if a slice is too short
	store(s *Sums)
}

// Sums are finished sums of a product: those of Rows rows from Row on and Cols columns from Col on. The sum of row Row+i and column
// Col+j is Acc[i*Stride+j].
type Sums struct {
	Acc                  []int32
	Stride               int
	Row, Col, Rows, Cols int

	table *Table
	out   *outTile // memory for calls of output kernels
	block *Block   // that StoreBlocks fills
}

// StoreS32 stores the sums as they are, those of row i from Dst[i*Ldd] on.
type StoreS32 struct {
	Dst []int32
	Ldd int
}

func (o *StoreS32) check(rows, cols int) { checkMatrix("dst", len(o.Dst), rows, cols, o.Ldd) }

func (o *StoreS32) store(s *Sums) {
	for i := range s.Rows {
		copy(o.Dst[(s.Row+i)*o.Ldd+s.Col:][:s.Cols], s.Acc[i*s.Stride:])
	}
}

// StoreFunc is called with every sum once, by several goroutines at a time where the product runs in parallel. The Sums are
// the callee's until it returns, to overwrite too. How many a call gets depends on the table.
type StoreFunc func(s *Sums)

func (f StoreFunc) check(rows, cols int) {}

func (f StoreFunc) store(s *Sums) { f(s) }
