package tune

import (
	"qwb/calib/tune/round"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// matrix says where the weights of an operator lie as rows that multiply what it reads: of each group so many rows of k, one row per output
// channel of the group. Columns are in the order of observers.Gram.
type matrix struct {
	groups, rows, k int
	group, row      int // elements between groups, and between rows
	inner, outer    int // column i lies at i/inner*outer + i%inner
}

// matrixOf is the matrix of a Conv, ConvTranspose, Gemm or MatMul; not ok for other operators and shapes.
func matrixOf(n *graph.Node, w *tensor.Tensor) (m matrix, ok bool) {
	switch {
	case (n.Op == "Conv" || n.Op == "ConvTranspose") && len(w.Shape) > 2:
		g, taps := int(n.AttrInt("group", 1)), tensor.Count(w.Shape[2:])
		if g < 1 || w.Shape[0]%g != 0 {
			return m, false
		}
		if n.Op == "Conv" {
			k := w.Shape[1] * taps
			return matrix{g, w.Shape[0] / g, k, w.Shape[0] / g * k, k, k, k}, true
		}
		return matrix{g, w.Shape[1], w.Shape[0] / g * taps, w.Len() / g, taps, taps, w.Shape[1] * taps}, true
	case len(w.Shape) != 2:
	case n.Op == "Gemm" && n.AttrInt("transB", 0) != 0:
		return matrix{1, w.Shape[0], w.Shape[1], w.Len(), w.Shape[1], w.Shape[1], w.Shape[1]}, true
	case n.Op == "Gemm" || n.Op == "MatMul":
		return matrix{1, w.Shape[1], w.Shape[0], w.Len(), 1, 1, w.Shape[1]}, true
	}
	return m, false
}

// at is where column i of row r of a group lies in the row-major weight.
func (m *matrix) at(group, r, i int) int {
	return group*m.group + r*m.row + i/m.inner*m.outer + i%m.inner
}

// take returns the rows of a group.
func (m *matrix) take(w []float32, group int) []float64 {
	rows := make([]float64, m.rows*m.k)
	for r := range m.rows {
		for i := range m.k {
			rows[r*m.k+i] = float64(w[m.at(group, r, i)])
		}
	}
	return rows
}

// grids says which scale each weight of a group has.
func (m *matrix) grids(group int, shape []int, c *tqc.Config, p *tqc.Params) round.Grids {
	g := round.Grids{List: make([]qmath.Grid, len(p.Scale)), Row: make([]int, m.rows), Column: make([]int, m.k)}
	for i := range g.List {
		g.List[i] = p.Grid(c, i)
	}
	for r := range g.Row {
		g.Row[r] = scaleOf(shape, c, m.at(group, r, 0))
	}
	for i := range g.Column { // row and column are along different axes, or the axis of the scales is neither's
		g.Column[i] = scaleOf(shape, c, m.at(group, 0, i)) - g.Row[0]
	}
	return g
}

// scaleOf is the number of the scale of an element of a row-major tensor.
func scaleOf(shape []int, c *tqc.Config, element int) int {
	if c.Policy.Has(tqc.PerTensor) {
		return 0
	}
	axis := c.Axis
	if axis < 0 {
		axis += len(shape)
	}
	inner := tensor.Count(shape[axis+1:])
	along := element / inner % shape[axis]
	if c.Policy.Has(tqc.PerChannel) {
		return along
	}
	blocks := (shape[axis] + c.GroupSize - 1) / c.GroupSize
	return (element/inner/shape[axis]*blocks+along/c.GroupSize)*inner + element%inner
}
