package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
)

// Runs says where the elements of an array come from: Count runs of Size units of Unit bytes. Table, which is to be uploaded, has the
// unit of the input that every run begins with, or -1 for one that is filled.
type Runs struct {
	Unit, Size, Count int
	Table             []byte
}

// NewRuns returns runs of size elements of elementBytes each that begin at the elements starts; -1 is for one that is filled.
func NewRuns(starts []int32, size, elementBytes int) (Runs, error) {
	switch elementBytes {
	case 1, 2, 4, 8:
	default:
		return Runs{}, fmt.Errorf("cuda: elements of %d bytes", elementBytes)
	}
	if err := fits("runs", len(starts), size, elementBytes); err != nil {
		return Runs{}, err
	}
	if size < 1 {
		return Runs{}, fmt.Errorf("cuda: runs of %d elements", size)
	}
	all := uint64(size)
	for _, f := range starts {
		if f < -1 {
			return Runs{}, fmt.Errorf("cuda: a run from element %d", f)
		}
		if f > 0 {
			all |= uint64(f)
		}
	}
	unit := elementBytes
	for all *= uint64(elementBytes); unit < 16 && all%uint64(2*unit) == 0; {
		unit *= 2
	}
	r := Runs{Unit: unit, Size: size * elementBytes / unit, Count: len(starts), Table: make([]byte, 0, 4*len(starts))}
	for _, f := range starts {
		if f > 0 {
			f = int32(int64(f) * int64(elementBytes) / int64(unit))
		}
		r.Table = binary.LittleEndian.AppendUint32(r.Table, uint32(f))
	}
	return r, nil
}

// gatherParams mirrors Gather of gather.cu.
type gatherParams struct {
	src, dst, starts driver.Ptr
	count            uint32
	_                int32
	size             Divisor
	fill             [4]uint32
	_                int32
}

// GatherCodes fills dst with runs of src. table is where the table of r was uploaded; fill are the raw bits of what runs of -1 consist
// of. The table is trusted: what it says must lie in src.
func GatherCodes(s *Stream, dst, src, table Buffer, e Element, r *Runs, fill int32) error {
	count := r.Size * r.Count
	if r.Unit%e.Size() != 0 || count > math.MaxInt32 || e == Int64 {
		return fmt.Errorf("cuda: runs of units of %d bytes for %s", r.Unit, e)
	}
	if table.Bytes < len(r.Table) || dst.Bytes < count*r.Unit {
		return fmt.Errorf("cuda: %d bytes for %d runs of %d bytes with a table of %d", dst.Bytes, r.Count, r.Size*r.Unit, table.Bytes)
	}
	if (dst.Ptr|src.Ptr)%driver.Ptr(r.Unit) != 0 {
		return fmt.Errorf("cuda: runs of units of %d bytes from %#x to %#x", r.Unit, uint64(src.Ptr), uint64(dst.Ptr))
	}
	pattern := uint32(fill)
	switch e.Size() {
	case 1:
		pattern = pattern & 0xff * 0x01010101
	case 2:
		pattern = pattern & 0xffff * 0x00010001
	}
	p := gatherParams{src: src.Ptr, dst: dst.Ptr, starts: table.Ptr, count: uint32(count), size: DivisorOf(max(r.Size, 1)),
		fill: [4]uint32{pattern, pattern, pattern, pattern}}
	return overPieces(s, "gather", fmt.Sprintf("gather_%d", r.Unit), count, &p)
}

// turnCodesParams mirrors Turn of gather.cu.
type turnCodesParams struct {
	src, dst       driver.Ptr
	rows, columns  uint32
	tilesR, tilesC Divisor
}

// TurnCodes exchanges rows and columns: [batch][rows][columns] becomes [batch][columns][rows]. Planes [images][channels][positions]
// become channels-last so, and the other way round. e is any element.
func TurnCodes(s *Stream, dst, src Buffer, e Element, batch, rows, columns int) error {
	if err := fits("an array", batch, rows, columns); err != nil {
		return err
	}
	n := batch * rows * columns
	for _, b := range [...]Buffer{dst, src} {
		if err := holds("array", b, e, n); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	entry, tile := fmt.Sprintf("turn_%d", e.Size()), 32
	switch words := aligned(dst, src); {
	case words && e.Size() == 1 && rows%4 == 0 && columns%4 == 0:
		entry, tile = "turn_1x4", 64
	case words && e.Size() == 2 && rows%2 == 0 && columns%2 == 0:
		entry, tile = "turn_2x2", 64
	}
	r, c := (rows+tile-1)/tile, (columns+tile-1)/tile
	p := turnCodesParams{src: src.Ptr, dst: dst.Ptr, rows: uint32(rows), columns: uint32(columns), tilesR: DivisorOf(r), tilesC: DivisorOf(c)}
	return overBlocks(s, "gather", entry, batch*r*c, codeThreads, &p)
}
