package cuda

import (
	"fmt"
	"math"

	"qwb/kernels/cuda/driver"
)

// The float kernels compute what package kernels/ref defines for ref.FMA32, bit for bit but for the payload of NaNs. Arrays have fewer
// than 2^31 elements.

// FloatEpilogue is what happens to a finished sum, as ref.Epilogue: bias, sum with another array, limits. The zero value does nothing.
type FloatEpilogue struct {
	Bias    driver.Ptr // one per column; 0: none
	Add     driver.Ptr // an array like the result; 0: none
	Limited bool
	Lo, Hi  float32
}

// right mirrors Right of float_gemm.cuh.
type right struct {
	b, c, bias, add  driver.Ptr
	bRow, bCol, cRow int32
	m, n, k          int32
	limited          int32
	lo, hi           float32
	_                uint32
}

func (r *right) epilogue(ep FloatEpilogue) {
	r.bias, r.add, r.lo, r.hi = ep.Bias, ep.Add, ep.Lo, ep.Hi
	if ep.Limited {
		r.limited = 1
	}
}

// fits reports sizes that kernels cannot count.
func fits(what string, sizes ...int) error {
	n := 1
	for _, s := range sizes {
		if s < 0 {
			return fmt.Errorf("cuda: %s of size %d", what, s)
		}
		if s > 0 && n > math.MaxInt32/s {
			return fmt.Errorf("cuda: %s of more than 2^31 elements", what)
		}
		n *= s
	}
	return nil
}

// blocksPerSM bounds the blocks of a grid-stride loop per multiprocessor: their threads go round more often instead.
const blocksPerSM = 64

// overElements launches a kernel whose threads go through count elements.
func overElements[P any](s *Stream, file, entry string, count, threads int, p *P) error {
	if count == 0 {
		return nil
	}
	k, err := s.Device.Kernel(file, entry)
	if err != nil {
		return err
	}
	blocks := min(floatParts(count, threads), blocksPerSM*max(s.Device.Multiprocessors, 1))
	return Launch(s, k, driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, driver.Dim{X: uint32(threads), Y: 1, Z: 1}, 0, p)
}

// overBlocks launches a kernel with a number of blocks.
func overBlocks[P any](s *Stream, file, entry string, blocks, threads int, p *P) error {
	if blocks == 0 {
		return nil
	}
	if blocks > math.MaxInt32 {
		return fmt.Errorf("cuda: %s.%s: %d blocks", file, entry, blocks)
	}
	k, err := s.Device.Kernel(file, entry)
	if err != nil {
		return err
	}
	return Launch(s, k, driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, driver.Dim{X: uint32(threads), Y: 1, Z: 1}, 0, p)
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// floatParts is how many parts of a size n elements make, the last one perhaps smaller.
func floatParts(n, size int) int { return (n + size - 1) / size }
