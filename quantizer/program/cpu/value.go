package cpu

import (
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/quantizer/program/steps"
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
	// view says where the codes lie that are in the order of another tensor, of which this one is a move; else it is nil.
	view *view
	// sums are those of the rows, where summed says that they are known.
	sums   []int32
	summed bool
}

// view is how a moved tensor lies.
type view struct {
	strides []int // distance between neighbours by axis
	move    steps.Move
}

// strides returns the distance between neighbours by axis of a value that is row-major or a view.
func (v *value) strides() []int {
	if v.view != nil {
		return v.view.strides
	}
	strides, step := make([]int, len(v.shape)), 1
	for i := len(v.shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= v.shape[i]
	}
	return strides
}

// rowSums returns the sums of the value's rows of k codes, which lie in a. They are computed once for all that multiply it.
func (v *value) rowSums(par kernels.Parallel, a operand, rows, k int) []int32 {
	if !v.summed {
		v.sums, v.summed = sumRows(par, v.sums, a, rows, k), true
	}
	return v.sums
}

const noSlot = -1

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
	switch {
	case v.view != nil:
		codes = make([]uint8, len(v.codes))
		moveBytes(nil, codes, v.codes, &v.view.move, 0)
	case v.last && v.moved():
		codes = make([]uint8, len(v.codes))
		n, c, size := v.planes()
		tensor.TransposePlanes(codes, v.codes, n, size, c)
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

// channelsLast returns v with its bytes channels-last; v has at least three axes.
func (s *step) channelsLast(m *memory, v *value) *value { return s.laid(m, v, true) }

// rowMajor returns v with its bytes row-major.
func (s *step) rowMajor(m *memory, v *value) *value { return s.laid(m, v, false) }

func (s *step) laid(m *memory, v *value, last bool) *value {
	if v.view != nil {
		out := m.codes(v.dtype, v.shape, false)
		moveBytes(s.engine.par, out.codes, v.codes, &v.view.move, 0)
		v = out
	}
	if v.last == last || len(v.shape) < 3 {
		return v
	}
	if !v.moved() {
		return m.alias(v, v.shape, last)
	}
	out := m.codes(v.dtype, v.shape, last)
	n, c, size := v.planes()
	if last {
		s.engine.planes.Transpose(s.engine.par, out.codes, v.codes, n, c, size)
	} else {
		s.engine.planes.Transpose(s.engine.par, out.codes, v.codes, n, size, c)
	}
	return out
}
