package verify

import (
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/target"
)

// cells is an LSTM of integers with scales of the plan. Its constants and grids are held to graph and plan; what the cells compute of
// them is that of one operator, which tests hold to LiteRT in every integer.
type cells struct {
	*layer
	got            *lower.RunTime
	x, state, cell qmath.Grid
}

func (l *layer) deriveCells(op *lower.RunTime) (operation, error) {
	c := &cells{layer: l, got: op}
	x := l.seen(l.node.ID, 0)
	if x == nil || len(l.step.Inputs) != len(op.Graph.Inputs) || len(l.step.Outputs) != len(op.Graph.Outputs) {
		return nil, fmt.Errorf("its data are not quantized, or %d inputs and %d outputs are not those of the operator", len(l.step.Inputs),
			len(l.step.Outputs))
	}
	c.x, c.state, c.cell = *x, *x, target.CellParams.Grid(&target.CellConfig, 0)
	c.state.Scale, c.state.ZeroPoint = target.StateScale, 0
	for i := 1; i >= 0; i-- {
		if g := l.slotGrid(l.set.Output(l.node.ID, i)); g != nil {
			c.state = *g
		}
	}
	return c, nil
}

func (c *cells) compare(f *faults) {
	g := c.got.Graph
	id, ok := g.LookupNode(c.node.Name)
	ok = ok && g.Node(id).Op == "IntegerLSTM" && len(g.Node(id).Inputs) == 7
	if flag(f, "operator "+c.node.Name, true, ok); !ok {
		return
	}
	n := g.Node(id)
	flag(f, "attribute direction", true, n.AttrStr("direction", "forward") == c.node.AttrStr("direction", "forward"))
	grids := []qmath.Grid{c.x, c.state, c.cell}
	for k, want := range grids {
		name := []string{"x", "h", "c"}[k]
		number(f, name+" scale", 0, want.Scale, n.AttrFloat(name+"_scale", 0))
		number(f, name+" zero point", 0, want.ZeroPoint, int32(n.AttrInt(name+"_zero_point", 0)))
	}
	var w qmath.Grid
	for i, name := range []string{graph.WeightInput: "w", graph.RecurrenceInput: "r"} {
		if name == "" {
			continue
		}
		grid := c.set.Grid(c.set.Input(c.node.ID, i), 0)
		if i == graph.WeightInput {
			w = grid
		}
		numbers(f, name+" code", quantized(grid, c.g.Const(c.node.Inputs[i])), integersOf(g.Const(n.Inputs[i])))
		var scale []float32
		if a := n.Attr(name + "_scale"); a != nil {
			scale = a.Floats
		}
		numbers(f, name+" scale", []float32{grid.Scale}, scale)
	}
	shape := c.g.Const(c.node.Inputs[graph.WeightInput]).Shape
	bias := make([]int32, shape[0]*shape[1])
	if b := c.g.Const(c.node.Input(3)); b != nil {
		real := b.ToRowMajor().F32()
		for k := range bias {
			at := k/shape[1]*2*shape[1] + k%shape[1]
			bias[k] = int32(qmath.HalfEven.Round(float64(real[at]+real[at+shape[1]]) / float64(c.x.Scale*w.Scale)))
		}
	}
	numbers(f, "bias", bias, integersOf(g.Const(n.Inputs[3])))
	for i := 5; i <= 6; i++ {
		if own := c.g.Const(c.node.Input(i)); own != nil {
			numbers(f, fmt.Sprintf("input %d", i), quantized(grids[i-4], own), integersOf(g.Const(n.Inputs[i])))
		}
	}
}

// quantized are the codes of a constant.
func quantized(grid qmath.Grid, t *tensor.Tensor) (codes []int32) {
	for _, v := range t.ToRowMajor().F32() {
		codes = append(codes, grid.Quantize(v))
	}
	return codes
}

// integersOf are those of a constant, none where it is absent.
func integersOf(t *tensor.Tensor) []int32 {
	if t == nil {
		return nil
	}
	return t.ToRowMajor().Integers()
}

// exact knows no number of an LSTM.
func (c *cells) exact(*computer, []*tensor.Tensor) ([]*exact, error) {
	return make([]*exact, len(c.step.Outputs)), nil
}
