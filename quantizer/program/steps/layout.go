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

// TransposePlanes writes n planes of rows x cols as cols x rows.
func TransposePlanes[T any](dst, src []T, n, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	for k := range n {
		transpose(dst[k*rows*cols:][:rows*cols], src[k*rows*cols:][:rows*cols], rows, cols, 0, cols)
	}
}

// Planes transposes planes of bytes in pieces that goroutines share, one call at a time and without taking memory.
type Planes struct {
	dst, src           []uint8
	rows, cols, pieces int // pieces of a plane
	run                func(i int)
}

// Transpose is TransposePlanes.
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
	transpose(p.dst[i/p.pieces*size:][:size], p.src[i/p.pieces*size:][:size], p.rows, p.cols, lo, hi)
}

// transposeGrain is how many elements are worth a piece of their own.
const transposeGrain = 1 << 15

// transpose writes columns from lo to hi of the rows x cols matrix src as rows of dst, in blocks whose lines stay in the first-level cache.
func transpose[T any](dst, src []T, rows, cols, lo, hi int) {
	if rows == 3 { // colours
		a, b, c := src[:hi], src[cols:][:hi], src[2*cols:][:hi]
		for i := lo; i < hi; i++ {
			d := dst[3*i:][:3]
			d[0], d[1], d[2] = a[i], b[i], c[i]
		}
		return
	}
	const block = 128
	for ; lo < hi; lo += block {
		to := min(lo+block, hi)
		r := 0
		for ; r+8 <= rows; r += 8 {
			s := src[r*cols:]
			a, b, c, d := s[:to], s[cols:][:to], s[2*cols:][:to], s[3*cols:][:to]
			e, f, g, h := s[4*cols:][:to], s[5*cols:][:to], s[6*cols:][:to], s[7*cols:][:to]
			for i := lo; i < to; i++ {
				o := (*[8]T)(dst[i*rows+r:])
				o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7] = a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]
			}
		}
		for ; r < rows; r++ {
			for i, x := range src[r*cols:][lo:to] {
				dst[(lo+i)*rows+r] = x
			}
		}
	}
}
