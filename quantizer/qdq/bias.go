package qdq

import (
	"fmt"
	"math"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// biasTolerance is how far, relatively, the scale of an int32 bias may lie from input scale * weight scale to count as it: files
// hold the product rounded in other ways, and integer kernels add the bias to the sum whatever its scale says.
const biasTolerance = 1e-5

// biasScales gives integer biases exactly the scale of the sums they are added to, where the file has it up to rounding. Their
// integers stay.
func (r *reader) biasScales() error {
	order, err := r.g.Order()
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	for _, id := range order {
		n := r.g.Node(id)
		if n.Domain != "" || !graph.Slides(n.Op) && n.Op != "Gemm" {
			continue
		}
		b := n.Input(graph.BiasInput)
		x, w := last(r.q.reads[graph.Use{Node: id, Index: 0}]), last(r.q.reads[graph.Use{Node: id, Index: 1}])
		if c := r.q.codes[b]; c != nil && c.grid.dtype == tensor.Int32 && x != nil && w != nil && len(x.scale) == 1 {
			r.biasScaleOf(id, b, c, x, w)
		}
	}
	return nil
}

func last(chain []*grid) *grid {
	if len(chain) == 0 {
		return nil
	}
	return chain[len(chain)-1]
}

func (r *reader) biasScaleOf(id graph.NodeID, b graph.ValueID, c *code, x, w *grid) {
	own, channels := c.grid, c.codes.Len()
	if w.block > 0 || own.block > 0 || len(w.scale) > 1 && len(w.scale) != channels || len(own.scale) > 1 && len(own.scale) != channels {
		return
	}
	alpha := float32(1)
	if n := r.g.Node(id); n.Op == "Gemm" {
		alpha = n.Alpha()
	}
	want := *own
	if want.scale = make([]float32, len(w.scale)); len(w.scale) > 1 {
		want.axis = len(r.g.Const(b).Shape) - 1
	} else if len(own.scale) == 1 {
		want.axis = own.axis
	} else {
		want.axis = -1
	}
	want.zero = make([]int32, len(want.scale))
	moved := 0.0
	for i := range max(len(w.scale), len(own.scale)) {
		s := qmath.BiasScale(x.scale[0], float32(w.scale[min(i, len(w.scale)-1)]*alpha))
		off := math.Abs(float64(own.scale[min(i, len(own.scale)-1)])/float64(s) - 1)
		if own.zero[min(i, len(own.zero)-1)] != 0 || !(off <= biasTolerance) || !qmath.Representable(s) {
			return
		}
		moved = max(moved, off)
		want.scale[min(i, len(want.scale)-1)] = s
	}
	if want.same(own) {
		return
	}
	use := graph.Use{Node: id, Index: graph.BiasInput}
	f, held := b, want.code(c.codes)
	if u, sole := r.g.SoleUse(b); sole && u == use {
		r.g.SetConst(b, held.numbers)
	} else {
		f = r.g.AddConst(r.g.Value(b).Name, held.numbers)
		r.g.SetInput(id, graph.BiasInput, f)
	}
	r.q.codes[f] = held
	r.q.reads[use] = []*grid{&want}
	if moved > 0x1p-22 {
		r.q.Warnings = append(r.q.Warnings, tqc.Warning{Node: r.g.Node(id).Name, Value: moved,
			Text: "the scale of the bias is not quite input scale * weight scale; its integers are read with that product"})
	}
}
