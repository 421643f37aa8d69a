// Package nbits makes an ONNX model of a language model whose products with weights are MatMulNBits of com.microsoft: codes of 8 or 4 bits
// in blocks of a row, with a float32 scale each. Embedding, norms and biases stay float32.
//
// Unstable: it may change without notice.
package nbits

import (
	"fmt"
	"math/bits"
	"strings"

	"qwb/export/language/weights"
	"qwb/graph"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/qmath"
)

// DefaultBlock is how many neighbours share a scale unless something else is asked for.
const DefaultBlock = 32

// leastBlock is the smallest block that MatMulNBits has.
const leastBlock = 16

const domain = "com.microsoft"

// Options say how weights are written.
type Options struct {
	Bits     int                    // 8 or 4
	Block    int                    // a power of two, 16 or more; 0: DefaultBlock
	Fallback string                 // of weights.Fallbacks; empty: the last block of a row is filled up
	Search   bool                   // scales with the smallest squared error
	Searches func(role string) bool // of Search: for the matrices of a role; nil: of all
	Parallel kernels.Parallel       // never changes a result
	Producer string
	Version  string
}

// block returns the size of the blocks after checking it.
func (o *Options) block() (int, error) {
	if o.Block == 0 {
		return DefaultBlock, nil
	}
	if o.Block < leastBlock || bits.OnesCount(uint(o.Block)) != 1 {
		return 0, fmt.Errorf("export: blocks of %d elements: those of MatMulNBits are a power of two, %d or more", o.Block, leastBlock)
	}
	return o.Block, nil
}

// fits returns the size of the blocks of rows of cols elements: 0 where there is none.
func (o *Options) fits(block, cols int) int {
	for cols%block != 0 && o.Fallback != "" {
		if block /= 2; o.Fallback != weights.FallbackAdjust || block < leastBlock {
			return 0
		}
	}
	return block
}

// rule says how blocks become codes; the code in the middle of the unsigned ones stands for 0.
func (o *Options) rule(node string, block int) qmath.GroupRule {
	role := node[strings.LastIndexByte(node, '.')+1:] // layers.3.query, classifier
	search := o.Search && (o.Searches == nil || o.Searches(role))
	r := qmath.GroupRule{Size: block, Max: qmath.GroupMax, Rounding: qmath.HalfEven, Search: search}
	if o.Bits == 4 {
		r.Max, r.Min = qmath.Int4Max, qmath.Int4Min
	}
	return r
}

// Build returns a model in which every Gemm of g (as checkpoint.Graph makes them: weights with a row for each output) is a MatMulNBits. g
// is not changed, and its constants are shared. All codes are in memory.
func Build(g *graph.Graph, o Options) (*onnx.Model, error) {
	block, err := o.block()
	if err != nil {
		return nil, err
	}
	out := g.Clone()
	out.Opsets = append(out.Opsets, graph.Opset{Domain: domain, Version: 1})
	for _, id := range out.Nodes() {
		if out.Node(id).Op != "Gemm" {
			continue
		}
		if err := o.replace(out, id, block); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
	}
	if err := out.Check(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	graph.InferShapes(out) // the file states the types of its values
	return &onnx.Model{Graph: out, ProducerName: o.Producer, ProducerVersion: o.Version}, nil
}

// replace puts a MatMulNBits in the place of a Gemm.
func (o *Options) replace(g *graph.Graph, id graph.NodeID, block int) error {
	n := *g.Node(id)
	w := g.Const(n.Inputs[1])
	if w == nil || w.DType != tensor.Float32 || len(w.Shape) != 2 || !n.Gemm().TransB {
		return fmt.Errorf("node %q: %s has no weights with a row for each output", n.Name, n.Op)
	}
	rows, cols := w.Shape[0], w.Shape[1]
	asked := block
	if block = o.fits(block, cols); block == 0 && o.Fallback == weights.FallbackIgnore {
		return nil // it stays a Gemm
	} else if block == 0 {
		return fmt.Errorf("node %q: blocks of %d elements (with adjust, halves down to %d) do not divide rows of %d", n.Name, asked,
			leastBlock, cols)
	}
	blocks := (cols + block - 1) / block
	codes := &tensor.Tensor{DType: tensor.Uint8, Shape: []int{rows, blocks, block * o.Bits / 8},
		Data: make([]uint8, rows*blocks*block*o.Bits/8)}
	scales := make([]float32, rows*blocks)
	if !o.quantize(n.Name, codes.Data.([]uint8), scales, w.F32(), cols, block) {
		return fmt.Errorf("node %q: a weight is NaN or infinite", n.Name)
	}
	inputs := []graph.ValueID{n.Inputs[0], g.AddConst(n.Name+".codes", codes),
		g.AddConst(n.Name+".scales", tensor.FromF32(scales, rows, blocks))}
	if bias := n.Input(2); bias != graph.NoValue {
		inputs = append(inputs, graph.NoValue, graph.NoValue, bias)
	}
	weight, result := n.Inputs[1], n.Outputs[0]
	g.RemoveNode(id)
	g.RemoveValue(weight) // unless the embedding reads it
	_, err := g.AddNode(graph.Node{Name: n.Name, Domain: domain, Op: "MatMulNBits", Inputs: inputs, Outputs: []graph.ValueID{result},
		Attrs: []graph.Attr{
			graph.Int("K", int64(cols)), graph.Int("N", int64(rows)), graph.Int("bits", int64(o.Bits)), graph.Int("block_size", int64(block)),
		}})
	return err
}

// quantize packs a matrix. The last block of a row may be filled up with codes for 0. It reports whether all weights are finite.
func (o *Options) quantize(node string, packed []uint8, scales, w []float32, cols, block int) bool {
	rule := o.rule(node, block)
	blocks := (cols + block - 1) / block
	rows, width := len(w)/cols, blocks*block*o.Bits/8
	ok := make([]bool, rows)
	o.Parallel.Run(rows, func(r int) {
		codes := make([]int8, blocks*block)
		ok[r] = rule.Quantize(codes[:cols], scales[r*blocks:][:blocks], w[r*cols:][:cols])
		pack(packed[r*width:][:width], codes, o.Bits)
	})
	for _, fine := range ok {
		if !fine {
			return false
		}
	}
	return true
}

// pack raises codes to be unsigned and writes them one after the other, the first into the low bits.
func pack(dst []uint8, codes []int8, bits int) {
	for i := range dst {
		if bits == 8 {
			dst[i] = uint8(codes[i]) ^ 0x80
		} else {
			dst[i] = uint8(codes[2*i]+8) | uint8(codes[2*i+1]+8)<<4
		}
	}
}
