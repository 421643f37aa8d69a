package onnx

import "qwb/graph"

// biasNode ends the name of the Add that stands behind a MatMul in the place of a Gemm of more than two axes.
const biasNode = "_bias"

// matrices returns g with MatMul and Add in the place of every Gemm whose data have more than two axes, which the Gemm of ONNX does not
// take; g itself where there is none. Such a Gemm has factors 1 and no matrix that is transposed.
func matrices(g *graph.Graph) (*graph.Graph, error) {
	var list []graph.NodeID
	for _, id := range g.Nodes() {
		if n := g.Node(id); n.Op == "Gemm" && n.Domain == "" && g.GemmRank(n) > 2 {
			list = append(list, id)
		}
	}
	if len(list) == 0 {
		return g, nil
	}
	g = g.Clone()
	for _, id := range list {
		n := g.Node(id)
		n.Op, n.Attrs = "MatMul", nil
		bias := n.Input(graph.BiasInput)
		if bias == graph.NoValue {
			continue
		}
		g.SetInput(id, graph.BiasInput, graph.NoValue)
		y := n.Outputs[0]
		v := *g.Value(y)
		v.Name = g.FreshName(v.Name + "_product")
		product, err := g.AddValue(v)
		if err == nil {
			err = g.SetOutput(id, 0, product)
		}
		if err == nil {
			_, err = g.AddNode(graph.Node{Name: g.FreshName(g.Node(id).Name + biasNode), Op: "Add", Inputs: []graph.ValueID{product, bias},
				Outputs: []graph.ValueID{y}})
		}
		if err != nil {
			return nil, g.ErrorAt("", id, err)
		}
	}
	return g, nil
}

// Linears returns g, as a file has it, with the Gemms of more than two axes for which MatMul and Add were written; g itself where there are
// none. The name of the Add tells.
func Linears(g *graph.Graph) *graph.Graph {
	out := g
	for _, id := range g.Nodes() {
		n := g.Node(id)
		at, ok := g.LookupNode(n.Name + biasNode)
		if n.Op != "MatMul" || !ok || g.Node(at).Op != "Add" {
			continue
		}
		if use, sole := g.SoleUse(n.Outputs[0]); !sole || use.Node != at || use.Index != 0 {
			continue
		}
		if out == g {
			out = g.Clone()
		}
		add := *out.Node(at)
		product, bias, y := add.Inputs[0], add.Inputs[1], add.Outputs[0]
		if out.RemoveNode(at); out.SetOutput(id, 0, y) == nil {
			out.Node(id).Op = "Gemm"
			out.SetInput(id, graph.BiasInput, bias)
			out.RemoveValue(product)
		}
	}
	return out
}
