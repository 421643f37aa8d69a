package qdq

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// grid is what a Q or DQ says: scales and zero points, and the type of the codes. It shares no memory with the file.
type grid struct {
	scale []float32
	zero  []int32 // as many as scales
	dtype tensor.DType
	axis  int // of the scales, from the front; -1: one scale
	block int // elements along axis that share a scale; 0: one
	// low and high are the integers that may occur: those of the type, or fewer. Of floats, the smallest and the largest number.
	low, high int32
	// blocks says how scales of blocks are stored; of NV, global is the scale of the tensor.
	blocks tqc.BlockScales
	global float32
	// runTime: the scale is computed when the model runs, from the tensor; there is none here.
	runTime bool
	// rows: of run time, one for each row of the last axis; zeros: with zero points.
	rows, zeros bool
}

// same reports whether two grids are one.
func (a *grid) same(b *grid) bool {
	return a.dtype == b.dtype && a.low == b.low && a.high == b.high && a.axis == b.axis && a.block == b.block && a.blocks == b.blocks &&
		a.global == b.global && a.runTime == b.runTime && a.rows == b.rows && a.zeros == b.zeros &&
		slices.Equal(a.scale, b.scale) && slices.Equal(a.zero, b.zero)
}

// sameChain reports whether tensors are brought to the same grids in turn.
func sameChain(a, b []*grid) bool {
	return slices.EqualFunc(a, b, func(x, y *grid) bool { return x.same(y) })
}

// limits are the ranges of the types of Q and DQ.
var limits = map[tensor.DType][2]int32{
	tensor.Uint8: {0, 255}, tensor.Int8: {-128, 127}, tensor.Uint16: {0, 65535}, tensor.Int16: {-32768, 32767},
	tensor.Uint4: {0, 15}, tensor.Int4: {-8, 7}, tensor.Uint2: {0, 3}, tensor.Int2: {-2, 1}, tensor.Int32: {-1 << 31, 1<<31 - 1},
	tensor.Float8E4M3FN: {-448, 448}, tensor.Float8E5M2: {-57344, 57344}, tensor.Float4E2M1: {-6, 6},
}

// floats are the types whose codes are bit patterns of floats.
var floats = map[tensor.DType]qmath.NumberType{tensor.Float8E4M3FN: qmath.FloatE4M3, tensor.Float8E5M2: qmath.FloatE5M2,
	tensor.Float4E2M1: qmath.FloatE2M1}

// format is what the codes stand for before the scale.
func (q *grid) format() qmath.Format {
	return qmath.Format{Bits: q.dtype.Bits(), QMin: q.low, QMax: q.high, Type: floats[q.dtype]}
}

// dynamicGrid is that of DynamicQuantizeLinear.
func dynamicGrid() *grid { return &grid{dtype: tensor.Uint8, axis: -1, high: 255, runTime: true} }

// rowGrid is that of rows, or of an image, by the number of graph.RowCodes.
func rowGrid(how int64) *grid {
	return &grid{dtype: tensor.Int8, axis: -1, low: -128, high: 127, runTime: true, rows: how != graph.ImageAsymmetric,
		zeros: how != graph.RowsSymmetric}
}

// rows gives the data of operators that make codes of their rows a grid of run time; what has a grid, or no weights of integers, has none.
func (r *reader) rows() error {
	for _, id := range r.g.Nodes() {
		n := r.g.Node(id)
		how := n.AttrInt(graph.RowCodes, 0)
		if how == 0 {
			continue
		}
		n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a graph.Attr) bool { return a.Name == graph.RowCodes })
		data := graph.Use{Node: id, Index: 0}
		if len(r.q.reads[data]) == 0 && len(r.q.reads[graph.Use{Node: id, Index: graph.WeightInput}]) > 0 {
			r.q.reads[data] = []*grid{rowGrid(how)}
		}
	}
	return nil
}

// gridOf reads scale and zero point of integers of type d, for a tensor of the given shape whose scales lie along attribute axis
// of n. constant says that it is one: a single scale with an axis then counts as one per channel.
func gridOf(g *graph.Graph, n *graph.Node, scale, zero graph.ValueID, d tensor.DType, shape graph.Shape, constant bool) (*grid, error) {
	all, known := limits[d]
	if !known {
		return nil, fmt.Errorf("codes of type %s", d)
	}
	out := &grid{dtype: d, axis: -1, low: int32(n.AttrInt(lowAttr, int64(all[0]))), high: int32(n.AttrInt(highAttr, int64(all[1])))}
	s, err := out.readScale(g, scale)
	if err != nil {
		return nil, err
	}
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
	if err := out.readAxis(n, s, shape); err != nil {
		return nil, err
	}
	return out, out.readBlocks()
}

// readScale reads a constant scale: float32, a power of two, or E4M3 dequantized by one float32. It returns the tensor of the scales.
func (q *grid) readScale(g *graph.Graph, v graph.ValueID) (*tensor.Tensor, error) {
	s := g.Const(v)
	if p := g.Producer(v); s == nil && p != graph.NoNode && isDequantize(g.Node(p)) {
		return q.readTwoLevels(g, g.Node(p))
	}
	switch {
	case s == nil:
		return nil, errors.New("the scale is computed when the model runs: a plan holds constant scales, and those of DynamicQuantizeLinear")
	case s.DType == tensor.Float8E8M0:
		q.blocks = tqc.MX
		for _, code := range s.ToRowMajor().Integers() {
			q.scale = append(q.scale, qmath.DecodeE8M0(uint8(code)))
		}
	case s.DType != tensor.Float32:
		return nil, fmt.Errorf("scale of type %s: only float32 and powers of two", s.Type())
	default:
		q.scale = slices.Clone(s.ToRowMajor().F32())
	}
	return s, nil
}

func (q *grid) readTwoLevels(g *graph.Graph, n *graph.Node) (*tensor.Tensor, error) {
	codes, whole, zero := g.Const(n.Input(0)), g.Const(n.Input(1)), g.Const(n.Input(2))
	if codes == nil || codes.DType != tensor.Float8E4M3FN || whole == nil || whole.DType != tensor.Float32 || whole.Len() != 1 ||
		zero != nil && (zero.Len() != 1 || zero.Integers() == nil || zero.Integers()[0] != 0) {
		return nil, fmt.Errorf("scales of %q: only those of NVFP4, E4M3 times one float32, are dequantized", n.Name)
	}
	codec := qmath.Codec{Format: qmath.FormatOf(qmath.FloatE4M3), Scale: whole.F32()[0]}
	for _, code := range codes.ToRowMajor().Integers() {
		q.scale = append(q.scale, codec.Dequantize(code))
	}
	q.blocks, q.global = tqc.NV, codec.Scale
	return codes, nil
}

// readBlocks says which blocks a plan has for what the file holds: MX are powers of two for 32 elements of a float, NV are E4M3 for 16 of
// E2M1. Other powers of two are free scales.
func (q *grid) readBlocks() error {
	_, float := floats[q.dtype]
	pow2 := !slices.ContainsFunc(q.scale, func(s float32) bool { f, _ := math.Frexp(float64(s)); return f != 0.5 })
	switch {
	case q.blocks == tqc.NV && (q.block != 16 || q.dtype != tensor.Float4E2M1):
		return fmt.Errorf("scales of two levels for blocks of %d %s: only 16 f4e2m1", q.block, q.dtype)
	case q.blocks == tqc.MX && q.block != 32:
		q.blocks = tqc.FreeScales
	case q.block == 32 && float && pow2:
		q.blocks = tqc.MX
	}
	return nil
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
	if _, float := floats[q.dtype]; float && slices.ContainsFunc(q.zero, func(z int32) bool { return z != 0 }) {
		return fmt.Errorf("zero point of %s that is not 0", q.dtype)
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

// at returns what the codes of scale c mean.
func (q *grid) at(c int) qmath.Codec {
	return qmath.Codec{Format: q.format(), Scale: q.scale[c], ZeroPoint: q.zero[c]}
}

// stretch is how many codes are read at a time, so that they stay in the processor's cache.
const stretch = 4096

// reach returns the least and the largest of some codes and 0.
func reach(codes *tensor.Tensor) (low, high int32) {
	list := make([]int32, min(codes.Len(), stretch))
	for i := 0; i < codes.Len(); i += len(list) {
		list = list[:min(codes.Len()-i, len(list))]
		codes.IntegersAt(i, list)
		for _, q := range list {
			low, high = min(low, q), max(high, q)
		}
	}
	return low, high
}

// dequantize returns the numbers that integers stand for.
func (q *grid) dequantize(codes *tensor.Tensor) *tensor.Tensor {
	out := tensor.New(tensor.Float32, codes.Shape...)
	x, shape := out.F32(), codes.Shape
	of, run := q.index(shape), len(x) // of codes with one scale
	switch {
	case q.axis >= 0 && q.block == 0:
		run = tensor.Count(shape[q.axis+1:])
	case q.axis >= 0:
		run = 1
	}
	list := make([]int32, min(run, stretch))
	for i := 0; i < len(x); i += run {
		codec := q.at(of(i))
		for part := x[i:][:run]; len(part) > 0; part = part[min(len(part), len(list)):] {
			own := list[:min(len(part), len(list))]
			codes.IntegersAt(i+run-len(part), own)
			codec.DequantizeSlice(part[:len(own)], own)
		}
	}
	return out
}

// stored returns a constant of codes, row-major.
func stored(t *tensor.Tensor) (*tensor.Tensor, error) {
	if _, known := limits[t.DType]; known {
		return t.ToRowMajor(), nil
	}
	return nil, fmt.Errorf("no integers of a quantized tensor in %s", t.Type())
}

// integers are the codes of a constant, row-major.
func integers(t *tensor.Tensor) ([]int32, error) {
	codes, err := stored(t)
	if err != nil {
		return nil, err
	}
	return codes.Integers(), nil
}
