package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"
)

// data makes n numbers.
type data func(rng *rand.Rand, n int) []float32

// ordinary numbers are normally distributed.
func ordinary(rng *rand.Rand, n int) []float32 {
	return fill(n, func() float32 { return float32(rng.NormFloat64()) })
}

// wide numbers range over the exponents whose products neither overflow nor vanish; sums of them round often.
func wide(rng *rand.Rand, n int) []float32 {
	return fill(n, func() float32 { return float32(math.Ldexp(rng.Float64()*2-1, rng.IntN(60)-30)) })
}

// extreme numbers are all bit patterns of float32 with NaN and infinities made rare, and zeros of both signs, denormals and
// the largest numbers made frequent.
func extreme(rng *rand.Rand, n int) []float32 {
	return fill(n, func() float32 {
		switch rng.IntN(40) {
		case 0:
			return float32(math.Inf(1 - 2*rng.IntN(2)))
		case 1:
			return float32(math.NaN())
		case 2, 3, 4:
			return float32(math.Copysign(0, -1))
		case 5, 6, 7:
			return 0
		case 8, 9, 10:
			return math.Float32frombits(rng.Uint32N(1<<23) | rng.Uint32N(2)<<31)
		case 11:
			return math.MaxFloat32
		}
		if x := math.Float32frombits(rng.Uint32()); x-x == 0 {
			return x
		}
		return 1
	})
}

func fill(n int, next func() float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = next()
	}
	return x
}

// Canary is Memory with a margin of known numbers around every slice.
type Canary struct{ blocks [][]byte }

const margin = 256 // bytes: one tile row of the widest vectors, twice

// canary is a NaN: read by mistake, it shows in the result.
var canary = [4]byte{0xfe, 0xca, 0xc0, 0x7f}

// New returns n zeros.
func (c *Canary) New(n int) []float32 {
	b := c.NewBytes(4 * n)
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// NewBytes returns n zeros.
func (c *Canary) NewBytes(n int) []byte {
	words := make([]float32, (margin+n+margin+3)/4) // aligned as float32 is
	block := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), margin+n+margin)
	for i := range margin {
		block[i], block[margin+n+i] = canary[i%4], canary[i%4]
	}
	c.blocks = append(c.blocks, block)
	return block[margin : margin+n : margin+n]
}

// Check looks at the margins.
func (c *Canary) Check() error {
	blocks := c.blocks
	c.blocks = nil
	for _, b := range blocks {
		n := len(b) - 2*margin
		for i := range margin {
			for _, at := range []int{i, margin + n + i} {
				if b[at] != canary[i%4] {
					return fmt.Errorf("byte %d of a slice of %d was overwritten with %d", at-margin, n, b[at])
				}
			}
		}
	}
	return nil
}
