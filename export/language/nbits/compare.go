package nbits

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
)

// Compare compares a graph that was read from a written file with that it was built of: every weight, as the file's codes and scales say
// it, may differ from the source by half a step of its block, by a whole one at code 7 of 4 bits, which stands for what would be 8 too, or
// more where a searched scale cuts it off; every other constant is the same. It returns the number of weights that were compared and the
// largest error in steps.
func Compare(source, back *graph.Graph, o Options) (compared int64, largest float64, err error) {
	block, err := o.block()
	if err != nil {
		return 0, 0, err
	}
	for _, id := range source.Nodes() {
		n := source.Node(id)
		other, ok := back.LookupNode(n.Name)
		if !ok {
			return 0, 0, fmt.Errorf("export: the written file has no node %q", n.Name)
		}
		m := back.Node(other)
		quantized := n.Op == "Gemm" && o.fits(block, source.Const(n.Inputs[1]).Shape[1]) != 0
		for i, v := range n.Inputs {
			want := source.Const(v)
			if want == nil {
				continue
			}
			if quantized && i == 1 {
				most, err := compareWeights(want, back, m, o)
				if err != nil {
					return 0, 0, fmt.Errorf("export: node %q: %w", n.Name, err)
				}
				compared, largest = compared+int64(want.Len()), max(largest, most)
				continue
			}
			at := i
			if quantized {
				at = 5 // the bias
			}
			if got := back.Const(m.Input(at)); got == nil || !tensor.Equal(want, got) {
				return 0, 0, fmt.Errorf("export: node %q: input %d is not that of the source", n.Name, i)
			}
		}
	}
	return compared, largest, nil
}

// compareWeights reads codes and scales by the definition of MatMulNBits.
func compareWeights(want *tensor.Tensor, g *graph.Graph, n *graph.Node, o Options) (largest float64, err error) {
	codes, scales := g.Const(n.Input(1)), g.Const(n.Input(2))
	rows, cols, width, block := int(n.AttrInt("N", 0)), int(n.AttrInt("K", 0)), int(n.AttrInt("bits", 4)), n.Quantize().Block
	if n.Op != "MatMulNBits" || codes == nil || scales == nil || rows != want.Shape[0] || cols != want.Shape[1] ||
		width != o.Bits || block < 1 {
		return 0, fmt.Errorf("%s with N %d, K %d, %d bits for weights %v", n.Op, rows, cols, width, want.Shape)
	}
	blocks := (cols + block - 1) / block
	packed, s, w := codes.Data.([]uint8), scales.F32(), want.F32()
	if len(packed) != rows*blocks*block*width/8 || len(s) != rows*blocks {
		return 0, fmt.Errorf("%d bytes of codes and %d scales", len(packed), len(s))
	}
	rule := o.rule(n.Name, block)
	last, least := int(rule.Max), int(rule.Least())
	for r := range rows {
		for k := range cols {
			bit := (r*blocks*block + k) * width
			code := int(packed[bit/8]>>(bit%8))&(1<<width-1) - 1<<(width-1)
			scale := s[r*blocks+k/block]
			steps := qmath.Steps(w[r*cols+k], int8(code), scale)
			cut := rule.Search && (code == last || code == least) || code == last && last != -least && steps <= 1.0001
			if tiny := math.Abs(float64(w[r*cols+k])) < 0x1p-130; !(steps <= 0.5001) && !cut && !tiny {
				return 0, fmt.Errorf("weight [%d,%d] %g is %d steps of %g: %.3g steps apart", r, k, w[r*cols+k], code, scale, steps)
			}
			if !math.IsInf(steps, 0) {
				largest = max(largest, steps)
			}
		}
	}
	return largest, nil
}
