package cuda

import (
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
)

// FloatProduct is the product of two matrices, or of many pairs of them: ref.Gemm with ref.FMA32 for each. The product at index i of the
// axes Batch, the last one fastest, takes its operands at the sum of the steps ABatch and BBatch and puts its result at CBatch*i, counted
// in order.
type FloatProduct struct {
	A, B, C        driver.Ptr
	M, N, K        int
	ARow, ACol     int // element (i, k) of the left-hand side is at i*ARow + k*ACol
	BRow, BCol     int // element (k, j) of the right-hand side is at k*BRow + j*BCol
	CRow, CBatch   int // element (i, j) of the result at i*CRow + j
	Batch          []int
	ABatch, BBatch []int
	FloatEpilogue
}

// floatGemm mirrors FloatGemm of float_gemm.cu.
type floatGemm struct {
	right          right
	a              driver.Ptr
	cBatch         int64
	aBatch, bBatch [4]int64
	dims           [4]int32
	aRow, aCol     int32
	rows, columns  int32
}

// Launch puts the product on a stream. Few rows, few tiles and many tiles have kernels of their own; the bits are the same.
func (p *FloatProduct) Launch(s *Stream) error {
	if len(p.Batch) > 4 || len(p.ABatch) != len(p.Batch) || len(p.BBatch) != len(p.Batch) {
		return fmt.Errorf("cuda: products over %d axes with steps for %d and %d", len(p.Batch), len(p.ABatch), len(p.BBatch))
	}
	g := floatGemm{a: p.A, cBatch: int64(p.CBatch), dims: [4]int32{1, 1, 1, 1}, aRow: int32(p.ARow), aCol: int32(p.ACol)}
	count := 1
	for i, n := range p.Batch {
		d := 4 - len(p.Batch) + i
		g.dims[d], g.aBatch[d], g.bBatch[d] = int32(n), int64(p.ABatch[i]), int64(p.BBatch[i])
		count *= n
	}
	if count == 0 || p.M == 0 || p.N == 0 {
		return nil
	}
	extent := func(rows, row, cols, col int) int { return max(rows-1, 0)*row + max(cols-1, 0)*col }
	for _, n := range []int{extent(p.M, p.ARow, p.K, p.ACol), extent(p.K, p.BRow, p.N, p.BCol), p.M, p.N, p.K, p.CRow} {
		if n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("cuda: a product of %dx%d by %dx%d", p.M, p.K, p.K, p.N)
		}
	}
	g.right = right{b: p.B, c: p.C, bRow: int32(p.BRow), bCol: int32(p.BCol), cRow: int32(p.CRow), m: int32(p.M), n: int32(p.N), k: int32(p.K)}
	g.right.epilogue(p.FloatEpilogue)
	entry, rows, columns := floatTile(s.Device, p.M, p.N, count)
	threads := floatThreads
	entry = "gemm" + entry
	if p.M <= 16 {
		entry, rows, columns, threads = "gemm_rows", 8, 128, 128
	}
	g.rows, g.columns = int32(floatParts(p.M, rows)), int32(floatParts(p.N, columns))
	return overBlocks(s, "float_gemm", entry, int(g.rows)*int(g.columns)*count, threads, &g)
}

// floatThreads is how many threads compute a tile of floatTile.
const floatThreads = 256

// floatTile returns the kernel for count products of m rows and n columns: the large tile where there is work for all multiprocessors.
func floatTile(d *Device, m, n, count int) (entry string, rows, columns int) {
	if n > 64 && m > 64 && floatParts(m, 128)*floatParts(n, 128)*count >= d.Multiprocessors {
		return "128", 128, 128
	}
	return "64", 64, 64
}
