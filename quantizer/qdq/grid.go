package qdq

import (
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// grid is what a Q or DQ says: scales and zero points, and the type of the integers. It shares no memory with the file.
type grid struct {
	scale []float32
	zero  []int32 // as many as scales
	dtype tensor.DType
	axis  int // of the scales, from the front; -1: one scale
	block int // elements along axis that share a scale; 0: one
	// low and high are the integers that may occur: those of the type, or fewer.
	low, high int32
}

// same reports whether two grids are one.
func (a *grid) same(b *grid) bool {
	return a.dtype == b.dtype && a.low == b.low && a.high == b.high && a.axis == b.axis && a.block == b.block && slices.Equal(a.scale, b.scale) && slices.Equal(a.zero, b.zero)
}

// sameChain reports whether tensors are brought to the same grids in turn.
func sameChain(a, b []*grid) bool {
	return slices.EqualFunc(a, b, func(x, y *grid) bool { return x.same(y) })
}

// limits are the integer ranges of the types of Q and DQ.
var limits = map[tensor.DType][2]int32{
	tensor.Uint8: {0, 255}, tensor.Int8: {-128, 127}, tensor.Uint16: {0, 65535}, tensor.Int16: {-32768, 32767},
	tensor.Uint4: {0, 15}, tensor.Int4: {-8, 7}, tensor.Uint2: {0, 3}, tensor.Int2: {-2, 1}, tensor.Int32: {-1 << 31, 1<<31 - 1},
}

// gridOf reads scale and zero point of integers of type d, for a tensor of the given shape whose scales lie along attribute axis
// of n. constant says that it is one: a single scale with an axis then counts as one per channel.
func gridOf(g *graph.Graph, n *graph.Node, scale, zero graph.ValueID, d tensor.DType, shape graph.Shape, constant bool) (*grid, error) {
	s := g.Const(scale)
	switch {
	case s == nil:
		return nil, errors.New("the scale is computed when the model runs: a plan holds constant scales only")
	case s.DType != tensor.Float32:
		return nil, fmt.Errorf("scale of type %s: only float32", s.Type())
	}
	all, known := limits[d]
	if !known {
		return nil, fmt.Errorf("integers of type %s", d)
	}
	out := &grid{scale: slices.Clone(s.ToRowMajor().F32()), dtype: d, axis: -1,
		low: int32(n.AttrInt(lowAttr, int64(all[0]))), high: int32(n.AttrInt(highAttr, int64(all[1])))}
	for _, v := range out.scale {
		if !qmath.Representable(v) {
			return nil, fmt.Errorf("scale %g", v)
		}
	}
	if err := out.readZero(g, zero); err != nil {
		return nil, err
	}
	if len(out.scale) == 1 && len(s.Shape) <= 1 && !(constant && len(s.Shape) == 1 && n.Attr("axis") != nil) {
		return out, nil
	}
	return out, out.readAxis(n, s, shape)
}

func (q *grid) readZero(g *graph.Graph, v graph.ValueID) error {
	if v == graph.NoValue {
		q.zero = make([]int32, len(q.scale))
		return nil
	}
	t := g.Const(v)
	if t == nil {
		return errors.New("the zero point is computed when the model runs: a plan holds constant ones only")
	}
	if t.DType != q.dtype {
		return fmt.Errorf("zero point %s for integers of type %s", t.Type(), q.dtype)
	}
	var err error
	if q.zero, err = integers(t); err != nil {
		return fmt.Errorf("zero point: %w", err)
	}
	if q.zero = slices.Clone(q.zero); len(q.zero) == 1 && len(q.scale) > 1 {
		q.zero = slices.Repeat(q.zero, len(q.scale))
	}
	if len(q.zero) != len(q.scale) {
		return fmt.Errorf("%d zero points for %d scales", len(q.zero), len(q.scale))
	}
	return nil
}

func (q *grid) readAxis(n *graph.Node, s *tensor.Tensor, shape graph.Shape) error {
	axis := n.Quantize().Axis
	if len(shape) == 1 && axis == 1 {
		axis = 0
	}
	axis, ok := graph.Axis(axis, len(shape))
	if !ok {
		return fmt.Errorf("scales along axis %d of a tensor %s", n.Axis(), shape)
	}
	q.axis = axis
	block := int64(n.Quantize().Block)
	if len(s.Shape) == 1 && block == 0 {
		if d := shape[axis]; d.Known() && d.N != int64(len(q.scale)) {
			return fmt.Errorf("%d scales along axis %d of a tensor %s", len(q.scale), axis, shape)
		}
		return nil
	}
	if block < 1 || block > 1<<30 || len(s.Shape) != len(shape) {
		return fmt.Errorf("scale %s with block_size %d for a tensor %s", s.Type(), block, shape)
	}
	for i, d := range shape {
		want := d.N
		if i == axis {
			want = (d.N + block - 1) / block
		}
		if !d.Known() || want != int64(s.Shape[i]) {
			return fmt.Errorf("scale %s with block_size %d for a tensor %s", s.Type(), block, shape)
		}
	}
	q.block = int(block)
	return nil
}

// index returns the scale of every element of a row-major tensor.
func (q *grid) index(shape []int) func(i int) int {
	if q.axis < 0 {
		return func(int) int { return 0 }
	}
	n, inner := shape[q.axis], tensor.Count(shape[q.axis+1:])
	if q.block == 0 {
		return func(i int) int { return i / inner % n }
	}
	blocks := (n + q.block - 1) / q.block
	return func(i int) int { return (i/(inner*n)*blocks+i/inner%n/q.block)*inner + i%inner }
}

// whole reports whether all integers of the type may occur.
func (q *grid) whole() bool { return limits[q.dtype] == [2]int32{q.low, q.high} }

// at returns the grid of scale c.
func (q *grid) at(c int) qmath.Grid {
	return qmath.Grid{Scale: q.scale[c], ZeroPoint: q.zero[c], QMin: q.low, QMax: q.high}
}

// dequantize returns the numbers that integers stand for.
func (q *grid) dequantize(codes []int32, shape []int) *tensor.Tensor {
	out := tensor.New(tensor.Float32, shape...)
	x, of := out.F32(), q.index(shape)
	for i, c := range codes {
		x[i] = q.at(of(i)).Dequantize(c)
	}
	return out
}

// integers returns the codes of a constant, row-major.
func integers(t *tensor.Tensor) ([]int32, error) {
	_, known := limits[t.DType]
	if codes := t.ToRowMajor().Integers(); known && codes != nil {
		return codes, nil
	}
	return nil, fmt.Errorf("no integers of a quantized tensor in %s", t.Type())
}
