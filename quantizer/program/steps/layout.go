package steps

import (
	"slices"

	"qwb/graph/tensor"
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
		transpose(dst[k*rows*cols:][:rows*cols], src[k*rows*cols:][:rows*cols], rows, cols)
	}
}

// transpose writes the rows x cols matrix src as cols x rows, in blocks that stay in the first-level cache.
func transpose[T any](dst, src []T, rows, cols int) {
	switch {
	case rows == 3: // colours
		a, b, c := src[:cols], src[cols:][:cols], src[2*cols:][:cols]
		for i, x := range a {
			d := dst[3*i:][:3]
			d[0], d[1], d[2] = x, b[i], c[i]
		}
		return
	case rows < 8:
		for r := range rows {
			for c, x := range src[r*cols:][:cols] {
				dst[c*rows+r] = x
			}
		}
		return
	}
	const block = 32
	for r0 := 0; r0 < rows; r0 += block {
		r1 := min(r0+block, rows)
		for c0 := 0; c0 < cols; c0 += block {
			c1 := min(c0+block, cols)
			for c := c0; c < c1; c++ {
				to := dst[c*rows:][:rows]
				for r := r0; r < r1; r++ {
					to[r] = src[r*cols+c]
				}
			}
		}
	}
}
