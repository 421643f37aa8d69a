package main

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// evaluate runs one node of g alone, with sums in float64.
func evaluate(g *graph.Graph, n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	one := graph.New("step", g.Opset(""))
	one.Opsets = g.Opsets
	feeds := map[string]*tensor.Tensor{}
	node := graph.Node{Name: n.Name, Op: n.Op, Domain: n.Domain, Attrs: n.Attrs}
	for i, t := range in {
		if t == nil {
			node.Inputs = append(node.Inputs, graph.NoValue)
			continue
		}
		val := graph.Value{Name: fmt.Sprintf("in%d", i), DType: t.DType, Shape: graph.Static(t.Shape...)}
		if g.Const(n.Inputs[i]) != nil && t.DType != tensor.Float32 {
			val.Const = t // a shape, axes: operators want it ahead of time
		}
		v, err := one.AddValue(val)
		if err != nil {
			return nil, err
		}
		if val.Const == nil {
			one.Inputs = append(one.Inputs, v)
			feeds[val.Name] = t
		}
		node.Inputs = append(node.Inputs, v)
	}
	for i, v := range n.Outputs {
		out := graph.NoValue
		if v != graph.NoValue {
			var err error
			if out, err = one.AddValue(graph.Value{Name: fmt.Sprintf("out%d", i)}); err != nil {
				return nil, err
			}
			one.Outputs = append(one.Outputs, out)
		}
		node.Outputs = append(node.Outputs, out)
	}
	if _, err := one.AddNode(node); err != nil {
		return nil, err
	}
	graph.InferShapes(one)
	s, err := exec.New(one, exec.Options{Float64: true})
	if err != nil {
		return nil, err
	}
	results, err := s.NewRunner().Run(context.Background(), feeds, nil)
	if err != nil {
		return nil, err
	}
	full := make([]*tensor.Tensor, len(n.Outputs))
	for i, v := range n.Outputs {
		if v != graph.NoValue {
			full[i], results = results[0].ToRowMajor(), results[1:]
		}
	}
	return full, nil
}
