package cuda

import (
	"fmt"
	"math/bits"

	"qwb/kernels/cuda/driver"
	"qwb/kernels/qmath"
)

// poolParams mirrors Pool of pools.cu.
type poolParams struct {
	src, dst      driver.Ptr
	count         uint32
	flip, flipOut uint32
	channels      int32
	padding       int32
	lowest        int32
	pieces        Divisor
	out           [3]Divisor
	window        Window
	_             uint32
}

// poolOf returns a pool whose threads compute as many of the sizes of channels as divide them.
func poolOf(dst, src Buffer, out, in Element, images, channels int, w *Window, sizes ...int) (p poolParams, piece int, err error) {
	if err := fits("the input of a pool", images, channels, w.inSize()); err != nil {
		return p, 0, err
	}
	if err := fits("the output of a pool", images, channels, w.outSize()); err != nil {
		return p, 0, err
	}
	if err := codesIn("input", src, in, images*channels*w.inSize()); err != nil {
		return p, 0, err
	}
	if err := codesIn("output", dst, out, images*channels*w.outSize()); err != nil {
		return p, 0, err
	}
	piece = 1
	for _, n := range sizes {
		if channels%n == 0 && aligned(dst, src) {
			piece = n
			break
		}
	}
	p = poolParams{src: src.Ptr, dst: dst.Ptr, flip: in.flip(), flipOut: out.flip(), channels: int32(channels), window: *w,
		count: uint32(images * w.outSize() * (channels / piece)), pieces: DivisorOf(max(channels/piece, 1))}
	for a, n := range w.Out {
		p.out[a] = DivisorOf(max(int(n), 1))
	}
	return p, piece, nil
}

// MaxPoolCodes takes the largest code of every window, lowest where none lies inside. Images have their channels last:
// [images][z][y][x][channels].
func MaxPoolCodes(s *Stream, dst, src Buffer, e Element, images, channels int, w Window, lowest int32) error {
	sizes := []int{16, 4}
	if e.Size() == 2 {
		sizes = []int{8}
	}
	p, piece, err := poolOf(dst, src, e, e, images, channels, &w, sizes...)
	if err != nil {
		return err
	}
	p.lowest = lowest
	return overPieces(s, "pools", fmt.Sprintf("max_pool_%dx%d", e.Size(), piece), int(p.count), &p)
}

type averagePoolParams struct {
	pool    poolParams
	bytes   int32
	_       int32
	average Average
}

// AveragePoolCodes takes the mean of the codes of every window; with padding, positions of the padding count as zero points. Images
// have their channels last.
func AveragePoolCodes(s *Stream, dst, src Buffer, out, in Element, images, channels int, w Window, padding bool, a Average) error {
	var sizes []int
	if in.Size() == 1 {
		sizes = []int{4}
	}
	p := averagePoolParams{bytes: int32(out.Size()), average: a}
	var piece int
	var err error
	if p.pool, piece, err = poolOf(dst, src, out, in, images, channels, &w, sizes...); err != nil {
		return err
	}
	p.pool.padding = flag(padding)
	return overPieces(s, "pools", fmt.Sprintf("average_pool_%dx%d", in.Size(), piece), int(p.pool.count), &p)
}

// reduceParams mirrors Reduce of pools.cu.
type reduceParams struct {
	src, dst              driver.Ptr
	count, terms          uint32
	keptAxes, reducedAxes int32
	kept, reduced         [codeAxes]Divisor
	keptStep, reducedStep [codeAxes]int32
	outputs, together     int32
	bytes, outBytes       int32
	flip                  uint32
	_                     int32
}

// reduceOf returns a reduction of an array over axes of it, given from the front.
func reduceOf(dst, src Buffer, out, in Element, shape, axes []int) (reduceParams, error) {
	p := reduceParams{src: src.Ptr, dst: dst.Ptr, bytes: int32(in.Size()), outBytes: int32(out.Size()), flip: in.flip()}
	if err := fits("an array", shape...); err != nil {
		return p, err
	}
	reduced := make([]bool, len(shape))
	for _, a := range axes {
		if a < 0 || a >= len(shape) {
			return p, fmt.Errorf("cuda: axis %d of shape %v", a, shape)
		}
		reduced[a] = true
	}
	var sizes, steps [2][]int // kept, reduced
	n := 1
	for a := len(shape) - 1; a >= 0; a-- {
		k := int(flag(reduced[a]))
		sizes[k], steps[k] = append([]int{shape[a]}, sizes[k]...), append([]int{n}, steps[k]...)
		n *= shape[a]
	}
	counts := [2]*uint32{&p.count, &p.terms}
	for k, to := range [...]struct {
		size *[codeAxes]Divisor
		step *[codeAxes]int32
		axes *int32
	}{{&p.kept, &p.keptStep, &p.keptAxes}, {&p.reduced, &p.reducedStep, &p.reducedAxes}} {
		size, step := joinAxes(sizes[k], steps[k])
		if len(size) > codeAxes {
			return p, fmt.Errorf("cuda: axes %v of shape %v", axes, shape)
		}
		*counts[k], *to.axes = 1, int32(len(size))
		for a := range size {
			at := len(size) - 1 - a
			*counts[k] *= uint32(size[a])
			to.size[at], to.step[at] = DivisorOf(max(size[a], 1)), int32(step[0][a])
		}
	}
	if err := codesIn("input", src, in, n); err != nil {
		return p, err
	}
	if err := codesIn("output", dst, out, int(p.count)); err != nil {
		return p, err
	}
	if p.terms == 0 && p.count > 0 {
		return p, fmt.Errorf("cuda: axes %v of shape %v have no elements", axes, shape)
	}
	p.together = flag(p.terms > 1 && p.reducedStep[0] == 1)
	workers := 1 << bits.Len32(min(p.terms, 1<<11)/8) // eight terms for a thread, up to 256 threads
	p.outputs = int32(codeThreads / min(workers, codeThreads))
	if p.together == 0 {
		p.outputs = max(p.outputs, 32) // neighbouring outputs are read together
	}
	return p, nil
}

func (p *reduceParams) blocks() int { return (int(p.count) + int(p.outputs) - 1) / int(p.outputs) }

// columnsParams mirrors Columns of pools.cu.
type columnsParams struct {
	src, dst        driver.Ptr
	terms, channels uint32
	pieces          Divisor
	flip            uint32
	outBytes        int32
	_               int32
}

// columns returns the reduction of neighbouring columns of bytes, [outer][terms][channels], and how many blocks compute it; 0 where p is
// another.
func (p *reduceParams) columns() (c columnsParams, blocks int) {
	channels := int(p.kept[0].By)
	if p.bytes != 1 || p.reducedAxes != 1 || p.keptAxes > 2 || p.keptStep[0] != 1 || channels%4 != 0 || int(p.reducedStep[0]) != channels ||
		p.src%4 != 0 || p.keptAxes == 2 && int(p.keptStep[1]) != channels*int(p.terms) {
		return c, 0
	}
	pieces := (channels + 127) / 128
	c = columnsParams{src: p.src, dst: p.dst, terms: p.terms, channels: uint32(channels), pieces: DivisorOf(pieces), flip: p.flip,
		outBytes: p.outBytes}
	return c, int(p.count) / channels * pieces
}

// ReduceCodes takes the largest code, or the smallest, over axes of an array, which it leaves out.
func ReduceCodes(s *Stream, dst, src Buffer, e Element, shape, axes []int, largest bool) error {
	p, err := reduceOf(dst, src, e, e, shape, axes)
	if err != nil {
		return err
	}
	entry := "reduce_min"
	if largest {
		entry = "reduce_max"
		if c, blocks := p.columns(); blocks > 0 {
			return overBlocks(s, "pools", "columns_max", blocks, codeThreads, &c)
		}
	}
	return overBlocks(s, "pools", entry, p.blocks(), codeThreads, &p)
}

type meanParams struct {
	reduce  reduceParams
	average Average
}

type meanColumnsParams struct {
	columns columnsParams
	average Average
}

// MeanCodes takes the mean over axes of an array, which it leaves out. a is for as many codes as they have, without float32 terms.
func MeanCodes(s *Stream, dst, src Buffer, out, in Element, shape, axes []int, a Average) error {
	p := meanParams{average: a}
	var err error
	if p.reduce, err = reduceOf(dst, src, out, in, shape, axes); err != nil {
		return err
	}
	if qmath.AverageForm(a.Form) == qmath.AverageTerms {
		return fmt.Errorf("cuda: the mean of whole axes has no float32 terms")
	}
	if c, blocks := p.reduce.columns(); blocks > 0 {
		return overBlocks(s, "pools", "columns_mean", blocks, codeThreads, &meanColumnsParams{c, a})
	}
	return overBlocks(s, "pools", "mean", p.reduce.blocks(), codeThreads, &p)
}
