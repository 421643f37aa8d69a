package passes

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// evaluateFactor bounds what computing a node may take in memory, as a multiple of what its result may: scratch memory is more.
const evaluateFactor = 16

// evaluate runs one node on its constant operands in the float executor, sums accumulated in float64, and returns its outputs. read is
// the size of the operands in bytes.
func evaluate(ctx context.Context, g *graph.Graph, id graph.NodeID, read int) ([]*tensor.Tensor, error) {
	n := *g.Node(id)
	if n.Op == "Identity" && n.Domain == "" { // weights that many operators share stay one
		return []*tensor.Tensor{g.Const(n.Input(0))}, nil
	}
	one := graph.New(n.Name, g.Opset(""))
	one.Opsets = g.Opsets
	seen := map[graph.ValueID]graph.ValueID{graph.NoValue: graph.NoValue}
	inputs := n.Inputs
	n.Inputs, n.Outputs = nil, nil
	for _, v := range inputs {
		if _, known := seen[v]; !known {
			seen[v] = one.AddConst(g.Value(v).Name, g.Const(v))
		}
		n.Inputs = append(n.Inputs, seen[v])
	}
	for _, v := range g.Node(id).Outputs {
		if v == graph.NoValue {
			n.Outputs = append(n.Outputs, v)
			continue
		}
		out, err := one.AddValue(graph.Value{Name: g.Value(v).Name})
		if err != nil {
			return nil, err
		}
		n.Outputs = append(n.Outputs, out)
		one.Outputs = append(one.Outputs, out)
	}
	if _, err := one.AddNode(n); err != nil {
		return nil, err
	}
	session, err := exec.New(one, exec.Options{Context: ctx, Float64: true, Memory: int64(evaluateFactor * max(read, maxFolded))})
	if err != nil {
		return nil, err
	}
	computed, err := session.NewRunner().Run(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	results := make([]*tensor.Tensor, len(n.Outputs))
	for i, v := range n.Outputs {
		if v != graph.NoValue {
			results[i], computed = computed[0], computed[1:]
		}
	}
	return results, nil
}
