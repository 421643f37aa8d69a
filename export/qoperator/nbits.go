package qoperator

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// channelBlock is the length of the blocks that repeat the scale of a channel, where the weights have as many rows.
const channelBlock = 128

// matMulNBits makes a MatMulNBits of a product of floats with quantized weights: codes of 4 or 8 bits with a row for each output, in blocks
// along the axis that is summed. One scale per channel or tensor is that of all its blocks. nil without a change means that the weights
// are not quantized, or are those of a convolution, which has no such form.
func (f *folder) matMulNBits(id graph.NodeID) error {
	n := f.g.Node(id)
	w, ok := f.of(n.Input(graph.WeightInput))
	if n.Op != "MatMul" && n.Op != "Gemm" || !ok {
		return nil
	}
	t, scale, zero := f.g.Const(w.x), f.g.Const(w.scale), f.g.Const(w.zero)
	if t == nil || scale == nil || zero == nil || scale.DType != tensor.Float32 {
		return nil // computed
	}
	width, signed := t.DType.Bits(), t.DType == tensor.Int4 || t.DType == tensor.Int8
	switch {
	case !signed && t.DType != tensor.Uint4 && t.DType != tensor.Uint8:
		return fmt.Errorf("weights of type %s: MatMulNBits has 4 and 8 bits", t.DType)
	case len(t.Shape) != 2:
		return fmt.Errorf("weights %v: MatMulNBits has a matrix", t.Shape)
	}
	m, err := matrixOf(n, t.Shape)
	if err != nil {
		return err
	}
	granularity, err := m.granularity(w.dq, scale)
	if err != nil {
		return err
	}
	var bias graph.ValueID = graph.NoValue
	if v := n.Input(graph.BiasInput); n.Op == "Gemm" && v != graph.NoValue {
		if b := f.g.Const(v); b == nil || b.DType != tensor.Float32 || b.Len() != m.n || b.Shape[len(b.Shape)-1] != m.n {
			return errors.New("its bias is not one constant per output")
		}
		bias = v
	}
	x := &blocked{matrix: m, width: width}
	if signed {
		x.middle = 1 << (width - 1)
	}
	same := x.pack(t.Integers(), scale.F32(), zero.Integers(), granularity)
	name := f.g.Value(w.x).Name
	in := []graph.ValueID{n.Inputs[0],
		f.g.AddConst(name+"_blocks", &tensor.Tensor{DType: tensor.Uint8, Shape: []int{m.n, x.blocks, x.blob}, Data: x.codes}),
		f.g.AddConst(name+"_block_scales", tensor.FromF32(x.scales, m.n, x.blocks))}
	if !same {
		in = append(in, f.g.AddConst(name+"_block_zero_points",
			&tensor.Tensor{DType: tensor.Uint8, Shape: []int{m.n, x.zeroPitch}, Data: x.zeros}))
	}
	if bias != graph.NoValue {
		for len(in) < 5 {
			in = append(in, graph.NoValue)
		}
		in = append(in, f.vector(bias, m.n))
	}
	whole := graph.Node{Name: n.Name, Domain: microsoft, Op: matMulNBits, Inputs: in, Outputs: slices.Clone(n.Outputs), Attrs: []graph.Attr{
		graph.Int("K", int64(m.k)), graph.Int("N", int64(m.n)), graph.Int("bits", int64(width)), graph.Int("block_size", int64(m.block))}}
	y, output := n.Outputs[0], f.g.Outputs
	f.g.Outputs = append(slices.Clone(output), y) // it is not removed with its node
	f.g.RemoveNode(id)
	f.g.Outputs = output
	f.contrib = true
	_, err = f.g.AddNode(whole)
	return err
}

// blocked are the weights of a MatMulNBits: of each row blocks of codes, with a scale and a zero point each.
type blocked struct {
	*matrix
	width        int
	middle       int32 // what makes a code unsigned
	blocks, blob int   // of a row, and bytes of one
	zeroPitch    int
	codes, zeros []uint8
	scales       []float32
}

// pack lays out codes. It reports whether all zero points are in the middle, which a file need not have.
func (x *blocked) pack(code []int32, scale []float32, zero []int32, granularity func(row, block int) int) (same bool) {
	x.blocks, x.blob = (x.k+x.block-1)/x.block, x.block*x.width/8
	x.codes, x.scales = make([]uint8, x.n*x.blocks*x.blob), make([]float32, x.n*x.blocks)
	x.zeroPitch = (x.blocks*x.width + 7) / 8
	x.zeros = make([]uint8, x.n*x.zeroPitch)
	half := int32(1) << (x.width - 1)
	same = true
	put := func(to []uint8, i int, q int32) { to[i*x.width/8] |= uint8(q) << (i * x.width % 8) }
	for row := range x.n {
		for b := range x.blocks {
			at := granularity(row, b)
			x.scales[row*x.blocks+b] = scale[at]
			same = same && zero[at]+x.middle == half
			put(x.zeros[row*x.zeroPitch:], b, zero[at]+x.middle)
			for i := range x.block {
				q := zero[at] + x.middle // what fills the last block up stands for 0
				if k := b*x.block + i; k < x.k {
					q = code[x.at(row, k)] + x.middle
				}
				put(x.codes[(row*x.blocks+b)*x.blob:], i, q)
			}
		}
	}
	return same
}

const matMulNBits = "MatMulNBits"

// vector returns a constant of n numbers with one axis.
func (f *folder) vector(v graph.ValueID, n int) graph.ValueID {
	t := *f.g.Const(v)
	if len(t.Shape) == 1 {
		return v
	}
	t.Shape = []int{n}
	return f.g.AddConst(f.g.Value(v).Name+"_vector", &t)
}

// matrix is a weight of n rows of k numbers each, as MatMulNBits has it.
type matrix struct {
	n, k, block int
	sum         int // the axis of the stored weights that is summed
}

// at is the place of a number in the stored weights.
func (m *matrix) at(row, k int) int {
	if m.sum == 0 {
		return k*m.n + row
	}
	return row*m.k + k
}

// matrixOf describes weights of a MatMul or Gemm.
func matrixOf(n *graph.Node, shape []int) (*matrix, error) {
	m := &matrix{n: shape[1], k: shape[0]}
	if n.Op != "Gemm" {
		return m, nil
	}
	g := n.Gemm()
	if g.Alpha != 1 || g.TransA || n.Input(graph.BiasInput) != graph.NoValue && g.Beta != 1 {
		return nil, errors.New("alpha, beta or transA: MatMulNBits has none of them")
	}
	if g.TransB {
		m.n, m.k, m.sum = shape[0], shape[1], 1
	}
	return m, nil
}

// granularity chooses the length of the blocks and returns which of the stored scales a block has.
func (m *matrix) granularity(dq *graph.Node, scale *tensor.Tensor) (func(row, block int) int, error) {
	block := int(dq.AttrInt("block_size", 0))
	axis, ok := graph.Axis(dq.Axis(), 2)
	switch {
	case block > 0:
		blocks := (m.k + block - 1) / block
		if !ok || axis != m.sum || block < 16 || bits.OnesCount(uint(block)) != 1 || scale.Len() != m.n*blocks {
			return nil, fmt.Errorf("blocks of %d along axis %d: those of MatMulNBits are a power of two, 16 or more, along the axis that is summed",
				block, axis)
		}
		m.block = block
		if m.sum == 0 {
			return func(row, b int) int { return b*m.n + row }, nil
		}
		return func(row, b int) int { return row*blocks + b }, nil
	case scale.Len() != 1 && (!ok || axis == m.sum || scale.Len() != m.n):
		return nil, fmt.Errorf("%d scales along axis %d", scale.Len(), axis)
	}
	for m.block = channelBlock; m.block > 16 && m.block > m.k; {
		m.block /= 2
	}
	if scale.Len() == 1 {
		return func(int, int) int { return 0 }, nil
	}
	return func(row, _ int) int { return row }, nil
}
