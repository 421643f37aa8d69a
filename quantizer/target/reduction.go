package target

import (
	"slices"

	"qwb/graph"
)

// AxesRead is the opset from which on OpenVINO (2026.4) reads the axes of ReduceL1, ReduceLogSum and ReduceLogSumExp. From 13 on it looks
// for them in an input, which these have from 18 on, and reduces all axes where there is none.
const AxesRead = 18

// MisreadsAxes reports whether a graph, or a body in it, has a reduction whose axes OpenVINO does not read.
func MisreadsAxes(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(id graph.NodeID) bool {
		n := g.Node(id)
		return misreadsAxes(g, n) || slices.ContainsFunc(n.Subgraphs(), MisreadsAxes)
	})
}

func misreadsAxes(g *graph.Graph, n *graph.Node) bool {
	opset := g.Opset("")
	return n.IsONNX() && slices.Contains([]string{"ReduceL1", "ReduceLogSum", "ReduceLogSumExp"}, n.Op) && len(n.AttrInts("axes")) > 0 &&
		13 <= opset && opset < AxesRead
}
