package verify

import (
	"fmt"

	"qwb/graph"
	"qwb/kernels/qmath"
)

// describe writes a multiplier as a person reads it.
func describe(m qmath.Multiplier) string {
	if m.Scale == 0 {
		return fmt.Sprintf("%d * 2^%d", m.M, m.Shift-31)
	}
	s := fmt.Sprintf("%g", m.Scale)
	if m.Bias != 0 {
		s += fmt.Sprintf(", bias %g", m.Bias)
	}
	if m.Out != 0 {
		s += fmt.Sprintf(", out %g", m.Out)
	}
	return s
}

// function returns nodes, which compute every element from the one at the same place, as a graph of the value x, of any shape.
func (p *premises) function(x graph.ValueID, nodes []graph.NodeID) (*graph.Graph, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("a function without operators")
	}
	y := p.g.Node(nodes[len(nodes)-1]).Outputs[0]
	g, err := graph.Extract(p.g, []graph.ValueID{x}, []graph.ValueID{y})
	if err != nil {
		return nil, err
	}
	for _, v := range g.Values() {
		if g.Const(v) == nil {
			g.Value(v).Shape = nil
		}
	}
	return g, nil
}
