package cuda

import (
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// Codes of Gram have at most 13 bits: two signed bytes, of magnitude up to 32 and 64. A product of two such bytes, or the sum of the two
// products of unequal ones, is at most 4096, so that 32 bits hold the sums of gramSlice rows: 4096*(2^19-32) < 2^31. Those of all slices
// are added in 64 bits.
const (
	gramLimit = 1<<12 - 1
	gramStep  = 32
	gramTile  = 64
	gramSlice = 1<<19 - gramStep
)

type gramCodesParams struct {
	x, codes, at, odd driver.Ptr
	by, limit         float64
	n, run            uint32
}

// GramCodes writes the integers of x, float32, for Gram: those of f, whose step is a power of two, 0 where x is not finite. The run
// elements from i*run on go to codes from at[i] on. odd counts how many had to be limited, and how many are not finite: two uint64.
func GramCodes(s *Stream, codes, odd, x, at Buffer, run int, f qmath.Fixed) error {
	n := x.Bytes / 4
	if m, _ := math.Frexp(f.Step); m != 0.5 || f.Step < 0x1p-1000 || f.Limit < 0 || f.Limit > gramLimit {
		return fmt.Errorf("cuda: no codes of step %g and limit %d", f.Step, f.Limit)
	}
	if run < 1 || n > math.MaxInt32 || at.Bytes/4 != (n+run-1)/run || odd.Bytes != 16 {
		return fmt.Errorf("cuda: %d codes in runs of %d do not go to %d places", n, run, at.Bytes/4)
	}
	p := gramCodesParams{x.Ptr, codes.Ptr, at.Ptr, odd.Ptr, 1 / f.Step, float64(f.Limit), uint32(n), uint32(run)}
	k, err := s.Device.Kernel("gram", "gram_codes")
	if err != nil {
		return err
	}
	blocks := min((n+255)/256, 8*max(s.Device.Multiprocessors, 1))
	return Launch(s, k, driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, driver.Dim{X: 256, Y: 1, Z: 1}, 0, &p)
}

type gramParams struct {
	codes, base, offset, sums driver.Ptr
	rows, each, columns, k    int32
	span, tiles               int32
}

// GramSumsBytes is how many bytes the sums of Gram have: int64, of each group k x k, of which those from the diagonal on are used, then of
// each group k.
func GramSumsBytes(groups, k int) int { return 8 * groups * k * (k + 1) }

// Gram adds to sums the products of each two elements of a group in one row, and the elements. Element c of row r is the code at
// base[r]+offset[c], the columns of each group one after the other (see observers.GramRows).
func Gram(s *Stream, sums, codes, base, offset Buffer, groups, k int) error {
	rows := base.Bytes / 4
	if groups < 1 || k < 1 || offset.Bytes != 4*groups*k || sums.Bytes != GramSumsBytes(groups, k) || rows > math.MaxInt32-gramSlice {
		return fmt.Errorf("cuda: sums of %d groups of %d elements are not in %d bytes", groups, k, sums.Bytes)
	}
	p := gramParams{codes: codes.Ptr, base: base.Ptr, offset: offset.Ptr, sums: sums.Ptr, rows: int32(rows),
		columns: int32(groups * k), k: int32(k)}
	p.span = int32(max(1, gramTile/k) * k)
	p.tiles = (p.span + gramTile - 1) / gramTile
	blocks := int((p.columns+p.span-1)/p.span) * int(p.tiles*(p.tiles+1)/2)
	// Slices of rows where there are few blocks.
	slices := min((rows+1023)/1024, max(1, 4*max(s.Device.Multiprocessors, 1)/blocks))
	slices = max(slices, (rows+gramSlice-1)/gramSlice)
	if slices > 0 {
		p.each = int32((rows/slices + gramStep) / gramStep * gramStep)
		p.each = min(p.each, gramSlice)
	}
	kernel, err := s.Device.Kernel("gram", "gram")
	if err != nil {
		return err
	}
	return Launch(s, kernel, driver.Dim{X: uint32(blocks), Y: uint32(slices), Z: 1}, driver.Dim{X: 128, Y: 1, Z: 1}, 0, &p)
}
