package tune

import (
	"qwb/calib/tune/round"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// matrix says where the weights of an operator lie as rows that multiply what it reads: of each group one row per output channel. Columns
// are in the order of observers.Gram.
type matrix struct {
	graph.Linear
}

// matrixOf is the matrix of a Conv, ConvTranspose, Gemm or MatMul; not ok for other operators and shapes.
func matrixOf(n *graph.Node, w *tensor.Tensor) (m matrix, ok bool) {
	l, ok := graph.LinearOf(n, graph.WeightInput, w.Shape)
	if !ok || graph.Slides(n.Op) == (len(w.Shape) == 2) {
		return m, false
	}
	return matrix{l}, true
}

// take returns the rows of a group.
func (m *matrix) take(w []float32, group int) []float64 {
	rows := make([]float64, m.Rows()*m.K())
	for r := range m.Rows() {
		for i := range m.K() {
			rows[r*m.K()+i] = float64(w[m.At(group, r, i)])
		}
	}
	return rows
}

// gridsOf are the grids of all scales.
func gridsOf(c *tqc.Config, p *tqc.Params) []qmath.Grid {
	list := make([]qmath.Grid, len(p.Scale))
	for i := range list {
		list[i] = p.Grid(c, i)
	}
	return list
}

// grids says which grid of a list each weight of a group has; the list fits the weight.
func (m *matrix) grids(group int, shape []int, c *tqc.Config, list []qmath.Grid) round.Grids {
	parts, _ := tqc.PartsOf(&tensor.Tensor{Shape: shape}, c)
	g := round.Grids{List: list, Row: make([]int, m.Rows()), Column: make([]int, m.K())}
	for r := range g.Row {
		g.Row[r] = parts.Of(m.At(group, r, 0))
	}
	for i := range g.Column { // row and column are along different axes, or the axis of the scales is neither's
		g.Column[i] = parts.Of(m.At(group, 0, i)) - g.Row[0]
	}
	return g
}
