package exec

import (
	"qwb/graph/tensor"
	"qwb/kernels"
)

// factor is the right-hand side of a product: packed for the kernels in float32, as it lies in float64.
type factor[T float] struct {
	packed *kernels.GemmF32
	b      []T
	k, n   int
	rowLen int // from row to row of b, k rows of n elements, or n rows of k where trans
	trans  bool
}

// newFactor returns a right-hand side that lives for a few products; drop it afterwards.
func newFactor[T float](c *call, b []T, k, n, rowLen int, trans bool) *factor[T] {
	f := &factor[T]{b: b, k: k, n: n, rowLen: rowLen, trans: trans}
	if b32, ok := any(b).([]float32); ok {
		f.packed = c.run.borrowProduct()
		c.run.s.table.RepackGemmF32(f.packed, b32, k, n, rowLen, trans)
	}
	return f
}

// times is dst = a*b for m rows of a that begin lda elements apart; those of dst begin ldd apart.
func (f *factor[T]) times(par kernels.Parallel, dst []T, ldd int, a []T, lda, m int) {
	if f.packed != nil {
		f.packed.Run(par, any(dst).([]float32), ldd, any(a).([]float32), lda, m, kernels.Epilogue{})
		return
	}
	along, across := f.rowLen, 1
	if f.trans {
		along, across = 1, f.rowLen
	}
	for i := range m {
		for j := range f.n {
			sum := 0.0
			for p := range f.k {
				sum += float64(a[i*lda+p]) * float64(f.b[p*along+j*across])
			}
			dst[i*ldd+j] = T(sum)
		}
	}
}

// drop gives the memory of the packed matrix back.
func (f *factor[T]) drop(c *call) {
	if f.packed != nil {
		c.run.packed.Put(f.packed)
	}
}

// inFloat calls the float32 or the float64 form of an operator, whichever is the type of input 0; inputs 1 to n-1 must have
// that type too, where they are present.
func (c *call) inFloat(n int, f32, f64 func() error) error {
	d := c.raw(0).DType
	for i := 1; i < n; i++ {
		if t := c.raw(i); t != nil && t.DType != d {
			return badType(i, t.DType)
		}
	}
	switch d {
	case tensor.Float32:
		return f32()
	case tensor.Float64:
		return f64()
	}
	return badType(0, d)
}
