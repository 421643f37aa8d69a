package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"qwb/kernels/cuda/driver"
)

// Runs says where the elements of an array come from: Count runs of Size units of Unit bytes. Table, which is to be uploaded, has the
// unit of the input that every run begins with, or -1 for one that is filled. It is empty where the runs begin in regular steps.
type Runs struct {
	Unit, Size, Count int
	Table             []byte

	first        int   // unit of the input, of regular runs
	sizes, steps []int // of them, units of a run included: axes from the slowest on
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
	r := Runs{Unit: unit, Size: size * elementBytes / unit, Count: len(starts)}
	list := slices.Clone(starts)
	for i, f := range list {
		if f > 0 {
			list[i] = int32(int64(f) * int64(elementBytes) / int64(unit))
		}
	}
	if r.regular(list) {
		return r, nil
	}
	for _, f := range list {
		r.Table = binary.LittleEndian.AppendUint32(r.Table, uint32(f))
	}
	return r, nil
}

// regular finds axes along which runs begin in equal steps; it is false where there are no such few.
func (r *Runs) regular(starts []int32) bool {
	if len(starts) == 0 || slices.Contains(starts, -1) {
		return false
	}
	r.first = int(starts[0])
	sizes, steps := []int{r.Size}, []int{1}
	for len(starts) > 1 {
		step, n := starts[1]-starts[0], 2
		for n < len(starts) && starts[n]-starts[n-1] == step {
			n++
		}
		// A step that goes on into the next line by chance makes the line too long.
		for ; n > 1 && !inLines(starts, n, step); n-- {
		}
		if n == 1 {
			return false
		}
		next := make([]int32, 0, len(starts)/n)
		for i := 0; i < len(starts); i += n {
			next = append(next, starts[i])
		}
		sizes, steps, starts = append(sizes, n), append(steps, int(step)), next
	}
	slices.Reverse(sizes)
	slices.Reverse(steps)
	joined, all := joinAxes(sizes, steps)
	if len(joined) > codeAxes {
		return false
	}
	r.sizes, r.steps = joined, all[0]
	return true
}

// inLines reports whether list consists of lines of n numbers in equal steps.
func inLines(list []int32, n int, step int32) bool {
	if len(list)%n != 0 {
		return false
	}
	for i, v := range list {
		if i%n != 0 && v-list[i-1] != step {
			return false
		}
	}
	return true
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

// strideParams mirrors Stride of gather.cu.
type strideParams struct {
	src, dst driver.Ptr
	count    uint32
	axes     int32
	size     [codeAxes]Divisor
	step     [codeAxes]int32
}

// GatherCodes fills dst with runs of src. table is where the table of r was uploaded; fill are the raw bits of what runs of -1 consist
// of. Where runs begin is trusted to lie in src.
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
	if r.sizes != nil {
		return r.inSteps(s, dst, src, count)
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

// inSteps moves regular runs: as matrices that are turned, where they are that, else unit by unit.
func (r *Runs) inSteps(s *Stream, dst, src Buffer, count int) error {
	src.Ptr += driver.Ptr(r.first * r.Unit)
	if t, ok := r.turned(); ok {
		return t.launch(s, dst, src, r.Unit)
	}
	p := strideParams{src: src.Ptr, dst: dst.Ptr, count: uint32(count), axes: int32(len(r.sizes))}
	for a, n := range slices.Backward(r.sizes) {
		at := len(r.sizes) - 1 - a
		p.size[at], p.step[at] = DivisorOf(n), int32(r.steps[a])
	}
	return overPieces(s, "gather", fmt.Sprintf("stride_%d", r.Unit), count, &p)
}

// turn is the transposition of matrices: see Turn of gather.cu.
type turn struct {
	outer, inner         int // matrices
	rows, columns        int
	pitch                int // of rows in the input
	outerStep, innerStep int
}

// turned recognizes transposed matrices: the fastest axis steps through the rows of the input, the one before it through columns.
func (r *Runs) turned() (t turn, ok bool) {
	n := len(r.sizes)
	if n < 2 || n > 4 || r.steps[n-2] != 1 || r.steps[n-1] < r.sizes[n-2] || r.Unit > 8 {
		return t, false
	}
	t = turn{outer: 1, inner: 1, rows: r.sizes[n-1], columns: r.sizes[n-2], pitch: r.steps[n-1]}
	if n > 2 {
		t.inner, t.innerStep = r.sizes[n-3], r.steps[n-3]
	}
	if n > 3 {
		t.outer, t.outerStep = r.sizes[n-4], r.steps[n-4]
	}
	return t, min(t.rows, t.columns) >= 4
}

// turnCodesParams mirrors Turn of gather.cu.
type turnCodesParams struct {
	src, dst                    driver.Ptr
	pitch, outerStep, innerStep int64
	rows, columns               uint32
	tilesR, tilesC, inner       Divisor
	_                           uint32
}

func (t *turn) launch(s *Stream, dst, src Buffer, size int) error {
	words := func(n int) bool { // that runs of n elements can be read and written as words
		return aligned(dst, src) && (t.rows|t.columns|t.pitch|t.outerStep|t.innerStep)%n == 0
	}
	entry, tile := fmt.Sprintf("turn_%d", size), 32
	switch {
	case size == 1 && words(4):
		entry, tile = "turn_1x4", 64
	case size == 2 && words(2):
		entry, tile = "turn_2x2", 64
	}
	r, c := (t.rows+tile-1)/tile, (t.columns+tile-1)/tile
	p := turnCodesParams{src: src.Ptr, dst: dst.Ptr, pitch: int64(t.pitch), outerStep: int64(t.outerStep), innerStep: int64(t.innerStep),
		rows: uint32(t.rows), columns: uint32(t.columns), tilesR: DivisorOf(r), tilesC: DivisorOf(c), inner: DivisorOf(t.inner)}
	return overBlocks(s, "gather", entry, t.outer*t.inner*r*c, codeThreads, &p)
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
	t := turn{outer: 1, inner: batch, rows: rows, columns: columns, pitch: columns, innerStep: rows * columns}
	return t.launch(s, dst, src, e.Size())
}
