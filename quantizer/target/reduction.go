package target

import (
	"slices"
	"strings"

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

// MovesOnes reports whether a Transpose that moves nothing but axes of one element reads a reduction that has left its axes out, as
// ReduceMean without keepdims: OpenVINO (2026.4) then hands out elements of other places, in float too.
func MovesOnes(g *graph.Graph, n *graph.Node) bool {
	p := g.Producer(n.Input(0))
	for p != graph.NoNode && g.Node(p).Op == "Identity" {
		p = g.Producer(g.Node(p).Input(0))
	}
	if n.Op != "Transpose" || !n.IsONNX() || p == graph.NoNode || !strings.HasPrefix(g.Node(p).Op, "Reduce") || g.Node(p).KeepDims() {
		return false
	}
	shape := g.Value(n.Inputs[0]).Shape
	perm, moves, last := n.AttrInts("perm"), false, int64(-1)
	for i := range shape {
		a := int64(len(shape) - 1 - i)
		if perm != nil {
			a = perm[i]
		}
		moves = moves || a != int64(i)
		if shape[a].Known() && shape[a].N == 1 {
			continue
		}
		if a < last {
			return false
		}
		last = a
	}
	return moves
}
