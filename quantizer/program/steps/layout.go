package steps

import (
	"slices"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/lower"
)

// WantedLast says, by tensor, whether its first readers compute channels-last: convolutions and pools, and what passes bytes on to
// them.
func WantedLast(p *lower.Program) []bool {
	wants := make([]bool, len(p.Tensors))
	for _, s := range slices.Backward(p.Steps) {
		want := false
		switch op := s.Op.(type) {
		case *lower.Linear:
			want = op.Kind == "Conv"
		case *lower.MaxPool, *lower.Average:
			want = true
		case *lower.Requantize, *lower.Clamp, *lower.Table, *lower.Sum, *lower.Product, *lower.Concat:
			want = s.Outputs[0] != lower.NoTensor && wants[s.Outputs[0]]
		}
		for _, id := range s.Inputs {
			wants[id] = wants[id] || want && len(p.Tensors[id].Shape) > 2
		}
	}
	return wants
}

// MemoryShape is a shape in the order of memory.
func MemoryShape(shape []int, last bool) []int {
	if !last {
		return shape
	}
	return append(append([]int{shape[0]}, shape[2:]...), shape[1])
}

// Moved reports whether the elements of a tensor lie elsewhere channels-last than row-major.
func Moved(shape []int) bool {
	return len(shape) > 2 && shape[1] != 1 && tensor.Count(shape[2:]) != 1
}

// Planes transposes planes of bytes in pieces that goroutines share, one call at a time and without taking memory.
type Planes struct {
	dst, src           []uint8
	rows, cols, pieces int // pieces of a plane
	run                func(i int)
}

// Transpose is tensor.TransposePlanes.
func (p *Planes) Transpose(par kernels.Parallel, dst, src []uint8, n, rows, cols int) {
	if n*rows*cols == 0 {
		return
	}
	if p.run == nil {
		p.run = p.piece
	}
	p.dst, p.src, p.rows, p.cols = dst, src, rows, cols
	p.pieces = min(cols, (rows*cols+transposeGrain-1)/transposeGrain)
	par.Run(n*p.pieces, p.run)
	p.dst, p.src = nil, nil
}

func (p *Planes) piece(i int) {
	size, at := p.rows*p.cols, i%p.pieces
	lo, hi := at*p.cols/p.pieces, (at+1)*p.cols/p.pieces
	tensor.TransposeColumns(p.dst[i/p.pieces*size:][:size], p.src[i/p.pieces*size:][:size], p.rows, p.cols, lo, hi)
}

// transposeGrain is how many elements are worth a piece of their own.
const transposeGrain = 1 << 15
