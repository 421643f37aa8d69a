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
	middle := int32(0)
	if signed {
		middle = 1 << (width - 1)
	}
	blocks := (m.k + m.block - 1) / m.block
	blob := m.block * width / 8
	packed, scales := make([]uint8, m.n*blocks*blob), make([]float32, m.n*blocks)
	zeroPitch := (blocks*width + 7) / 8
	zeros := make([]uint8, m.n*zeroPitch)
	code, s, z := t.Integers(), scale.F32(), zero.Integers()
	half, same := int32(1)<<(width-1), true
	put := func(to []uint8, i int, q int32) { to[i*width/8] |= uint8(q) << (i * width % 8) }
	for row := range m.n {
		for b := range blocks {
			at := granularity(row, b)
			scales[row*blocks+b] = s[at]
			same = same && z[at]+middle == half
			put(zeros[row*zeroPitch:], b, z[at]+middle)
			for i := range m.block {
				q := z[at] + middle // what fills the last block up stands for 0
				if k := b*m.block + i; k < m.k {
					q = code[m.at(row, k)] + middle
				}
				put(packed[(row*blocks+b)*blob:], i, q)
			}
		}
	}
	name := f.g.Value(w.x).Name
	in := []graph.ValueID{n.Inputs[0],
		f.g.AddConst(name+"_blocks", &tensor.Tensor{DType: tensor.Uint8, Shape: []int{m.n, blocks, blob}, Data: packed}),
		f.g.AddConst(name+"_block_scales", tensor.FromF32(scales, m.n, blocks))}
	if !same {
		in = append(in, f.g.AddConst(name+"_block_zero_points", &tensor.Tensor{DType: tensor.Uint8, Shape: []int{m.n, zeroPitch}, Data: zeros}))
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
