package qdq

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/tqc"
)

// six is the upper end of a Relu6, and how near to it the end of a grid lies whose range was clipped by one.
const (
	six     = 6
	nearSix = 1e-3
)

// implied puts back activations that a file leaves to its quantizers. ONNX Runtime's quantizer drops a Relu, or a Clip from 0, behind an
// operator where the grid of unsigned codes begins at 0: Q clips by itself. In float the network would be without them. A grid that begins
// at 0 right behind a sum of products, or an Add of numbers that may be negative, is such a place; where it ends at 6 the activation was a
// Relu6. The quantized network stays the same, bit for bit.
func (r *reader) implied() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	count, first := 0, ""
	for _, id := range order {
		n := r.g.Node(id)
		if n.Domain != "" || !r.signedSum(n) {
			continue
		}
		q := common(r.g, r.q.reads, r.q.outputs, n.Outputs[0])
		if q == nil || !q.fromZero() {
			continue
		}
		if err := r.activate(id, q); err != nil {
			return r.g.ErrorAt(stage, id, err)
		}
		if count++; count == 1 {
			first = n.Name
		}
	}
	if count > 0 {
		r.q.Warnings = append(r.q.Warnings,
			tqc.Warning{Node: first, Value: float64(count), Text: fmt.Sprintf("%s put back that the file leaves to its "+
				"quantizers: their grids begin at 0", plain.Count(count, "activation"))})
	}
	return nil
}

// signedSum reports whether an operator sums products or numbers, of which some may be negative.
func (r *reader) signedSum(n *graph.Node) bool {
	switch n.Op {
	case "Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "BatchNormalization":
	default:
		return false
	}
	for i, v := range n.Inputs {
		if v == graph.NoValue {
			continue
		}
		chain := r.q.reads[graph.Use{Node: n.ID, Index: i}]
		if len(chain) == 0 || !chain[len(chain)-1].fromZero() {
			return true
		}
	}
	return false
}

// fromZero reports whether the smallest number of a grid is 0: one scale, integers, the zero point at their lower end.
func (q *grid) fromZero() bool {
	return !q.runTime && q.axis < 0 && q.block == 0 && floats[q.dtype] == 0 && len(q.zero) == 1 && q.zero[0] == q.low
}

// activate puts a Relu, or a Clip to [0, 6], behind node id. Its output takes the place of the node's, with name, readers and grids.
func (r *reader) activate(id graph.NodeID, q *grid) error {
	n := r.g.Node(id)
	v := r.g.Value(n.Outputs[0])
	sum, err := r.g.AddValue(graph.Value{Name: r.g.FreshName(v.Name + "_sum"), DType: v.DType, Shape: v.Shape})
	if err != nil {
		return err
	}
	out := v.ID
	if err := r.g.SetOutput(id, 0, sum); err != nil {
		return err
	}
	a := graph.Node{Name: r.g.FreshName(n.Name + "_activation"), Op: "Relu", Inputs: []graph.ValueID{sum}, Outputs: []graph.ValueID{out}}
	if end := float64(q.high-q.low) * float64(q.scale[0]); math.Abs(end-six) <= nearSix*six {
		a.Op = "Clip"
		if r.g.Opset("") < 11 {
			a.Attrs = []graph.Attr{graph.Float("min", 0), graph.Float("max", six)}
		} else {
			a.Inputs = append(a.Inputs, r.limit(a.Name+"_min", 0), r.limit(a.Name+"_max", six))
		}
	}
	_, err = r.g.AddNode(a)
	return err
}

// limit adds a constant of one number.
func (r *reader) limit(name string, x float32) graph.ValueID {
	return r.g.AddConst(r.g.FreshName(name), tensor.FromF32([]float32{x}))
}
