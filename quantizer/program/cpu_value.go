package program

import (
	"qwb/graph/tensor"
)

// value is a tensor during a run of the CPU backend.
type value struct {
	dtype tensor.DType
	shape []int // logical
	// codes are 8-bit integers; those of int8 are 128 above their code. With last they lie channels-last.
	codes []uint8
	last  bool
	// t is a tensor of anything else, row-major.
	t    *tensor.Tensor
	slot int // of the memory, noSlot where it lies elsewhere
}

const noSlot = -1

// bias is what is added to a code of type d to make it a byte.
func bias(d tensor.DType) int32 {
	if d == tensor.Int8 {
		return 128
	}
	return 0
}

// valueOf returns the value of a row-major tensor: bytes where it is 8-bit integers that stand for real numbers.
func valueOf(t *tensor.Tensor, quantized bool) *value {
	v := &value{dtype: t.DType, shape: t.Shape, slot: noSlot}
	switch d := t.Data.(type) {
	case []uint8:
		if quantized {
			v.codes = d
			return v
		}
	case []int8:
		if quantized {
			v.codes = make([]uint8, len(d))
			for i, q := range d {
				v.codes[i] = uint8(q) ^ 0x80
			}
			return v
		}
	}
	v.t = t
	return v
}

// tensor returns the value in the type that the program declares, row-major.
func (v *value) tensor() *tensor.Tensor {
	if v == nil {
		return nil
	}
	if v.t != nil {
		return v.t
	}
	codes := v.codes
	if v.last && v.moved() {
		codes = make([]uint8, len(v.codes))
		n, c, size := v.planes()
		transposePlanes(codes, v.codes, n, size, c)
	}
	out := tensor.New(v.dtype, v.shape...)
	switch d := out.Data.(type) {
	case []uint8:
		copy(d, codes)
	case []int8:
		for i, q := range codes {
			d[i] = int8(q ^ 0x80)
		}
	}
	return out
}

func tensorsOf(list []*value) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(list))
	for i, v := range list {
		out[i] = v.tensor()
	}
	return out
}

// planes returns the dimensions of a value of rank 3 or more: images, channels, positions.
func (v *value) planes() (n, c, size int) {
	return v.shape[0], v.shape[1], tensor.Count(v.shape[2:])
}

// moved reports whether the elements of v lie elsewhere channels-last than row-major.
func (v *value) moved() bool {
	if len(v.shape) < 3 {
		return false
	}
	_, c, size := v.planes()
	return c != 1 && size != 1
}

// transposePlanes writes n planes of rows x cols as cols x rows.
func transposePlanes[T any](dst, src []T, n, rows, cols int) {
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
