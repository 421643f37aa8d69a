package exec

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// nbitsEvals are the products with weights of a few bits.
var nbitsEvals = []evaluator{
	{op: "MatMulNBits", build: buildMatMulNBits},
}

// nbits is the attributes of MatMulNBits: a weight of n rows of k codes, in blocks of block codes that share scale and zero point.
type nbits struct{ n, k, bits, block int }

// buildMatMulNBits is A * B' + bias with the inputs A, B (uint8: by row and block, the codes of a block packed, the first in the
// low bits), scales (one per row and block), zero points (packed like B, by row; or of the type of A; absent 2^(bits-1)), g_idx,
// which is refused, and bias. B is dequantized once; products are float32 whatever accuracy_level allows.
func buildMatMulNBits(n *graph.Node, _ int64) (evalFunc, error) {
	w := nbits{int(n.AttrInt("N", 0)), int(n.AttrInt("K", 0)), int(n.AttrInt("bits", 4)), n.Quantize().Block}
	if w.bits != 2 && w.bits != 4 && w.bits != 8 {
		return nil, fmt.Errorf("%d bits are not supported", w.bits)
	}
	if w.n < 1 || w.k < 1 || w.block < 1 || w.block*w.bits%8 != 0 || max(w.n, w.k, w.block) > math.MaxInt32 {
		return nil, fmt.Errorf("attributes N %d, K %d, block_size %d", w.n, w.k, w.block)
	}
	if n.Input(4) != graph.NoValue {
		return nil, fmt.Errorf("g_idx is not supported")
	}
	return func(c *call) error {
		x := c.in(0)
		if x.DType != tensor.Float32 {
			return badType(0, x.DType)
		}
		if len(x.Shape) == 0 || x.Shape[len(x.Shape)-1] != w.k {
			return fmt.Errorf("input A %s, K is %d", x.Type(), w.k)
		}
		g, ok := derived[*kernels.GemmF32](c, 1)
		if !ok {
			b, err := w.dequantize(c)
			if err != nil {
				return err
			}
			if g = c.run.s.table.PackGemmF32(b, w.k, w.n, w.k, true); c.fixed(2) && (!c.has(3) || c.fixed(3)) {
				derive(c, 1, g)
			}
		}
		out, err := c.out(0)
		if err != nil {
			return err
		}
		var ep kernels.Epilogue
		if bias := c.in(5); bias != nil {
			if bias.DType != tensor.Float32 || bias.Len() != w.n {
				return fmt.Errorf("bias %s for %d columns", bias.Type(), w.n)
			}
			ep.Bias = bias.F32()
		}
		g.Run(c.run.s.par, out.F32(), w.n, x.F32(), w.k, x.Len()/w.k, ep)
		return nil
	}, nil
}

// blocks is how many blocks a row has; the last one may be partly filled.
func (w nbits) blocks() int { return (w.k + w.block - 1) / w.block }

// code returns code i of a run of packed codes.
func (w nbits) code(packed []uint8, i int) int32 {
	return int32(packed[i*w.bits/8]>>(i*w.bits%8)) & (1<<w.bits - 1)
}

// dequantize returns the n rows of k weights.
func (w nbits) dequantize(c *call) ([]float32, error) {
	blocks := w.blocks()
	codes, ok := c.in(1).Data.([]uint8)
	blob := w.block * w.bits / 8
	if !ok || len(codes) != w.n*blocks*blob {
		return nil, fmt.Errorf("input B %s for %d rows of %d blocks of %d bytes", c.in(1).Type(), w.n, blocks, blob)
	}
	scales := c.in(2).F32()
	if len(scales) != w.n*blocks {
		return nil, fmt.Errorf("scales %s for %d rows of %d blocks", c.in(2).Type(), w.n, blocks)
	}
	zero, err := w.zeros(c.in(3))
	if err != nil {
		return nil, err
	}
	out := make([]float32, w.n*w.k)
	for row := range w.n {
		for k := range w.k {
			i := row*blocks + k/w.block
			code := w.code(codes[i*blob:][:blob], k%w.block)
			out[row*w.k+k] = zero(row, k/w.block, code, scales[i])
		}
	}
	return out, nil
}

// zeros returns the function that dequantizes a code of a row's block with the zero points t.
func (w nbits) zeros(t *tensor.Tensor) (func(row, block int, code int32, scale float32) float32, error) {
	blocks := w.blocks()
	if t == nil {
		middle := int32(1) << (w.bits - 1)
		return func(_, _ int, code int32, scale float32) float32 {
			return qmath.Grid{Scale: scale, ZeroPoint: middle}.Dequantize(code)
		}, nil
	}
	switch z := t.Data.(type) {
	case []uint8:
		pitch := (blocks*w.bits + 7) / 8
		if len(z) == w.n*pitch && t.DType == tensor.Uint8 {
			return func(row, block int, code int32, scale float32) float32 {
				return qmath.Grid{Scale: scale, ZeroPoint: w.code(z[row*pitch:][:pitch], block)}.Dequantize(code)
			}, nil
		}
	case []float32:
		if len(z) == w.n*blocks {
			return func(row, block int, code int32, scale float32) float32 {
				return (float32(code) - z[row*blocks+block]) * scale
			}, nil
		}
	}
	return nil, fmt.Errorf("zero points %s for %d rows of %d blocks of %d-bit codes", t.Type(), w.n, blocks, w.bits)
}
