package cuda

import (
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
)

// Kernels over codes take whole arrays of fewer than 2^31 elements. They compute what package qmath defines, bit for bit. Buffers that
// are aligned to 16 bytes are read and written several codes at a time; others serve as well.

// Lines says how many codes a kernel computes and where it writes them: N codes, in lines of Width that begin every Stride codes of the
// output. With Width 0 they lie together, as they do in the input.
type Lines struct{ N, Width, Stride int }

// linesParams mirrors Lines of codes.cu.
type linesParams struct {
	src, dst driver.Ptr
	stride   int64
	count    uint32
	vector   uint32
	width    Divisor
	flip     uint32
}

// span returns the codes of the output that lines extend over.
func (l *Lines) span() int {
	if l.N == 0 {
		return 0
	}
	return (l.N/l.Width-1)*l.Stride + l.Width
}

// params checks lines of codes and returns them as kernels have them; pieces have so many codes, 1 for a kernel without pieces.
func (l Lines) params(dst, src Buffer, out, in Element, piece int) (linesParams, error) {
	if l.Width == 0 {
		l.Width, l.Stride = max(l.N, 1), max(l.N, 1)
	}
	if l.N < 0 || l.Width < 1 || l.Stride < l.Width || l.N%l.Width != 0 || l.N > math.MaxInt32 {
		return linesParams{}, fmt.Errorf("cuda: %d codes in lines of %d every %d", l.N, l.Width, l.Stride)
	}
	if err := codesIn("input", src, in, l.N); err != nil {
		return linesParams{}, err
	}
	if err := codesIn("output", dst, out, l.span()); err != nil {
		return linesParams{}, err
	}
	p := linesParams{src: src.Ptr, dst: dst.Ptr, stride: int64(l.Stride), count: uint32(l.N), width: DivisorOf(l.Width), flip: in.flip()}
	if whole := l.Width == l.N || l.Width%piece == 0 && l.Stride%piece == 0; whole && aligned(dst, src) && piece > 1 {
		p.vector = 1
	}
	return p, nil
}

// codesIn reports a buffer that has not n codes of type e.
func codesIn(what string, b Buffer, e Element, n int) error {
	if !e.IsCode() {
		return fmt.Errorf("cuda: %s are no codes", e)
	}
	return holds(what, b, e, n)
}

func holds(what string, b Buffer, e Element, n int) error {
	if n < 0 || b.Bytes/e.Size() < n {
		return fmt.Errorf("cuda: %s: %d bytes for %d elements of %s", what, b.Bytes, n, e)
	}
	return nil
}

// aligned reports whether all buffers begin at multiples of 16 bytes.
func aligned(all ...Buffer) bool {
	for _, b := range all {
		if b.Ptr%16 != 0 {
			return false
		}
	}
	return true
}

// codeThreads is the size of the blocks of kernels over codes. Arrays that fill the device leave each thread several pieces of work:
// enough to make up for what a block begins with, few enough that blocks end at different times.
const (
	codeThreads    = 256
	codeBlocks     = 8 // of a multiprocessor that is full
	plainPieces    = 2
	preparedPieces = 4 // of kernels whose blocks begin with a table
)

// overPieces launches a kernel whose threads go through n pieces of work, overTable one whose blocks make themselves a table first.
func overPieces[P any](s *Stream, file, entry string, n int, p *P) error {
	return overBlocks(s, file, entry, blocksFor(s.Device, n, plainPieces), codeThreads, p)
}

func overTable[P any](s *Stream, file, entry string, n int, p *P) error {
	return overBlocks(s, file, entry, blocksFor(s.Device, n, preparedPieces), codeThreads, p)
}

func blocksFor(d *Device, n, each int) int {
	most := (n + codeThreads - 1) / codeThreads
	return max(most/each, min(most, codeBlocks*max(d.Multiprocessors, 1)))
}

// pieces is how many pieces of work count codes are, where pieces have size codes.
func pieces(count, vector uint32, size int) int {
	if vector == 0 {
		return int(count)
	}
	return max((int(count)+size-1)/size, int(count)%size)
}

type mapParams struct {
	lines linesParams
	table driver.Ptr
}

// MapCodes replaces every code by an entry of a table: 256 or 65,536 codes of the output's type, by the raw byte or word of the input's.
func MapCodes(s *Stream, dst, src Buffer, out, in Element, l Lines, table Buffer) error {
	piece := 16
	if in.Size() == 2 || out.Size() == 2 {
		piece = 8
	}
	p := mapParams{table: table.Ptr}
	var err error
	if p.lines, err = l.params(dst, src, out, in, piece); err != nil {
		return err
	}
	if err := holds("table", table, out, 1<<(8*in.Size())); err != nil {
		return err
	}
	p.lines.flip = 0
	return overTable(s, "codes", fmt.Sprintf("map_%d_%d", in.Size(), out.Size()), pieces(p.lines.count, p.lines.vector, piece), &p)
}

type recodeParams struct {
	lines   linesParams
	in, out int32
	lo, hi  int32
	rescale Rescale
}

// ClampCodes limits codes of one type to [lo, hi].
func ClampCodes(s *Stream, dst, src Buffer, e Element, l Lines, lo, hi int32) error {
	piece := 16 / e.Size()
	p := recodeParams{lo: lo, hi: hi}
	var err error
	if p.lines, err = l.params(dst, src, e, e, piece); err != nil {
		return err
	}
	return overPieces(s, "codes", fmt.Sprintf("clamp_%d", e.Size()), pieces(p.lines.count, p.lines.vector, piece), &p)
}

// RescaleCodes brings codes to another grid and limits them to [lo, hi]. For codes of 8 bits MapCodes is faster.
func RescaleCodes(s *Stream, dst, src Buffer, out, in Element, l Lines, r Rescale, lo, hi int32) error {
	p := recodeParams{in: int32(in.Size()), out: int32(out.Size()), lo: lo, hi: hi, rescale: r}
	var err error
	entry, piece := "recode", 1
	if in.Size() == 2 && out.Size() == 2 {
		entry, piece = "recode_words", 4
	}
	if p.lines, err = l.params(dst, src, out, in, piece); err != nil {
		return err
	}
	return overPieces(s, "codes", entry, pieces(p.lines.count, p.lines.vector, piece), &p)
}

type convertParams struct {
	src, dst, odd driver.Ptr
	count         uint32
	vector        uint32
	flip          uint32
	quantizer     Quantizer
}

// QuantizeCodes makes n codes of float32 numbers. odd is two uint32: the first becomes 1 where a number is NaN, which gets the code of 0,
// the second where one is infinite; without memory nobody looks.
func QuantizeCodes(s *Stream, dst, src Buffer, out Element, n int, q Quantizer, odd Buffer) error {
	p := convertParams{src: src.Ptr, dst: dst.Ptr, odd: odd.Ptr, count: uint32(n), vector: uint32(flag(aligned(dst, src))), quantizer: q}
	if err := convertible(dst, src, Float32, out, out, n); err != nil {
		return err
	}
	return overPieces(s, "codes", fmt.Sprintf("quantize_%d", out.Size()), pieces(p.count, p.vector, 4), &p)
}

// DequantizeCodes makes n float32 numbers of codes on a grid with this zero point and scale.
func DequantizeCodes(s *Stream, dst, src Buffer, in Element, n int, zero int32, scale float32) error {
	p := convertParams{src: src.Ptr, dst: dst.Ptr, count: uint32(n), vector: uint32(flag(aligned(dst, src))), flip: in.flip(),
		quantizer: Quantizer{Zero: zero, Scale: scale}}
	if err := convertible(dst, src, in, Float32, in, n); err != nil {
		return err
	}
	return overPieces(s, "codes", fmt.Sprintf("dequantize_%d", in.Size()), pieces(p.count, p.vector, 4), &p)
}

func convertible(dst, src Buffer, from, to, codes Element, n int) error {
	if err := fits("an array", n); err != nil {
		return err
	}
	if !codes.IsCode() {
		return fmt.Errorf("cuda: %s are no codes", codes)
	}
	if err := holds("input", src, from, n); err != nil {
		return err
	}
	return holds("output", dst, to, n)
}
