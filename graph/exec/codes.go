package exec

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// Products of 8-bit codes run on the integer kernels, which multiply uint8 by int8 and add in int32, exactly. int8 on the left is
// moved up by 128 for them and uint8 on the right down by 128, the zero points with them.

// codeMemory is what products of codes need beside operands and results. It belongs to a runner and grows as needed.
type codeMemory struct {
	left, padded, result []uint8
	row, column          []int32
	window               []int32
	right                kernels.GemmU8S8 // a right-hand side that is not constant
	meter                *kernels.Meter
}

// isCode reports whether a type is one of 8-bit codes.
func isCode(d tensor.DType) bool { return d == tensor.Uint8 || d == tensor.Int8 }

// bytesOf returns the 8-bit codes of a left-hand side as bytes, and by how much they were moved.
func (c *call) bytesOf(t *tensor.Tensor) (b []uint8, moved int32) {
	codes, ok := t.Data.([]int8)
	if !ok {
		return t.Data.([]uint8), 0
	}
	m := &c.run.codes
	m.left = resize(m.left, len(codes))
	c.parallel(len(codes), 1, func(lo, hi int) {
		for i, q := range codes[lo:hi] {
			m.left[lo+i] = uint8(q) ^ 0x80
		}
	})
	return m.left, 128
}

// zeros returns the zero points in input i plus moved: one if they are all equal, else n. An absent input is one of 0.
func (c *call) zeros(i, n int, moved int32) ([]int32, error) {
	if !c.has(i) {
		return []int32{moved}, nil
	}
	list, err := unpackInts(c.in(i))
	if err != nil {
		return nil, err
	}
	if len(list) != 1 && len(list) != n {
		return nil, fmt.Errorf("input %d: %d zero points for %d", i, len(list), n)
	}
	out, equal := make([]int32, len(list)), true
	for k, z := range list {
		out[k] = z + moved
		equal = equal && z == list[0]
	}
	if equal {
		out = out[:min(1, len(out))]
	}
	return out, nil
}

// codeResult is where the sums of a product of codes go: to int32 as they are, to float32 or to codes by scale. cols is the length
// of a row.
type codeResult struct {
	out   *tensor.Tensor
	cols  int
	scale kernels.Scale
	bytes []uint8 // of codes; moved up by 128 where they are int8
	add   []int32 // added to the sums before, by element; or nil
}

// rawResult stores the sums in out.
func rawResult(out *tensor.Tensor, cols int) *codeResult { return &codeResult{out: out, cols: cols} }

// realResult stores sum*factor + bias, a factor and a bias for each column, bias may be nil.
func realResult(out *tensor.Tensor, factor, bias []float32) (*codeResult, error) {
	if out.DType != tensor.Float32 {
		return nil, fmt.Errorf("a result of type %s is not supported", out.DType)
	}
	r := &codeResult{out: out, cols: len(factor), scale: kernels.Scale{Factor: factor, Bias: bias}}
	return r, r.scale.Check()
}

// gridResult stores clamp(round half to even(sum*factor) + zero point), a factor for each column.
func (c *call) gridResult(out *tensor.Tensor, factor []float32, zero int32) (*codeResult, error) {
	limits := bounds[out.DType]
	if zero < limits[0] || zero > limits[1] {
		return nil, fmt.Errorf("zero point %d of a result of type %s", zero, out.DType)
	}
	r := &codeResult{out: out, cols: len(factor), scale: kernels.Scale{Factor: factor, Zero: uint8(zero - limits[0])}}
	if b, ok := out.Data.([]uint8); ok {
		r.bytes = b
	} else {
		c.run.codes.result = resize(c.run.codes.result, out.Len())
		r.bytes = c.run.codes.result
	}
	return r, r.scale.Check()
}

// from returns the kernels' output for the rows that begin at element at.
func (r *codeResult) from(at int) kernels.Output {
	if r.add == nil {
		return r.store(at)
	}
	return kernels.StoreAll{kernels.StoreFunc(func(s *kernels.Sums) {
		for i := range s.Rows {
			acc, add := s.Acc[i*s.Stride:][:s.Cols], r.add[at+(s.Row+i)*r.cols+s.Col:]
			for j := range acc {
				acc[j] += add[j]
			}
		}
	}), r.store(at)}
}

func (r *codeResult) store(at int) kernels.Output {
	switch {
	case r.bytes != nil:
		return &kernels.StoreScaled{Dst: r.bytes[at:], Ldd: r.cols, Scale: r.scale}
	case r.scale.Factor != nil:
		return &kernels.StoreF32{Dst: r.out.F32()[at:], Ldd: r.cols, Scale: r.scale}
	}
	return &kernels.StoreS32{Dst: tensor.Of[int32](r.out)[at:], Ldd: r.cols}
}

// finish writes what the kernels cannot.
func (r *codeResult) finish(c *call) {
	if codes, ok := r.out.Data.([]int8); ok {
		moveDown(c, codes, r.bytes)
	}
}

// unevenZeros is an output that adds to the sums what zero points contribute that differ from row to row or from column to column:
// k*zr*zc - zr*columnSum - zc*rowSum, and stores them by out. zr and zc have one element or one for each row and column; of rows
// they are repeated.
func unevenZeros(k int, zr, zc, rowSums, columnSums []int32, out kernels.Output) kernels.Output {
	return kernels.StoreAll{kernels.StoreFunc(func(s *kernels.Sums) {
		for i := range s.Rows {
			r := s.Row + i
			z, sum := zr[r%len(zr)], rowSums[r]
			acc := s.Acc[i*s.Stride:][:s.Cols]
			for j := range acc {
				zc := zc[(s.Col+j)%len(zc)]
				acc[j] += int32(k)*z*zc - z*columnSums[s.Col+j] - zc*sum
			}
		}
	}), out}
}

// quantizeBytes quantizes to uint8 on the kernels. It returns false for grids that they do not know.
func (c *call) quantizeBytes(dst []uint8, src []float32, g qmath.Grid) bool {
	s := kernels.CodesOf(g, 0)
	if g.Rounding != qmath.HalfEven || s.Check() != nil {
		return false
	}
	c.parallel(len(src), 2, func(lo, hi int) { c.run.s.table.ToCodes(dst[lo:hi], src[lo:hi], &s) })
	return true
}

// quantizeSigned is quantizeBytes to int8.
func (c *call) quantizeSigned(dst []int8, src []float32, g qmath.Grid) bool {
	mem := &c.run.codes
	mem.result = resize(mem.result, len(dst))
	g.ZeroPoint, g.QMin, g.QMax = g.ZeroPoint+128, g.QMin+128, g.QMax+128
	if !c.quantizeBytes(mem.result, src, g) {
		return false
	}
	moveDown(c, dst, mem.result)
	return true
}

// moveDown writes bytes less 128.
func moveDown(c *call, dst []int8, src []uint8) {
	c.parallel(len(dst), 1, func(lo, hi int) {
		for i, b := range src[lo:hi] {
			dst[lo+i] = int8(b ^ 0x80)
		}
	})
}
