// Gradients writes an ONNX model that computes, beside what it computes, the gradients with respect to all its float inputs of the sum of
// its first output times a tensor that is fed as "seed". See torch.py.
//
//	go run ./examples/gradients IN.onnx OUT.onnx
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"qwb/graph"
	"qwb/graph/grad"
	"qwb/graph/onnx"
	"qwb/graph/passes"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gradients IN.onnx OUT.onnx")
		os.Exit(2)
	}
	if err := differentiate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gradients:", err)
		os.Exit(1)
	}
}

func differentiate(in, out string) error {
	m, _, err := onnx.Open(in)
	if err != nil {
		return err
	}
	defer m.Close()
	g := m.Graph.Clone()
	if _, err := passes.Run(context.Background(), g, passes.Normalize); err != nil { // constants are computed
		return err
	}
	if err := errors.Join(graph.InferShapes(g)...); err != nil {
		return err
	}
	y := g.Value(g.Outputs[0])
	seed, err := g.AddValue(graph.Value{Name: "seed", DType: y.DType, Shape: y.Shape})
	if err != nil {
		return err
	}
	var inputs []graph.ValueID
	for _, v := range g.Inputs {
		if g.Const(v) == nil && g.Value(v).DType.IsFloat() {
			inputs = append(inputs, v)
		}
	}
	g.Inputs = append(g.Inputs, seed)
	list, err := grad.Add(g, map[graph.ValueID]graph.ValueID{g.Outputs[0]: seed}, inputs)
	if err != nil {
		return err
	}
	for i, v := range list {
		if v == graph.NoValue {
			return fmt.Errorf("%s does not depend on %s", y.Name, g.Value(inputs[i]).Name)
		}
		if err := g.Rename(v, "gradient of "+g.Value(inputs[i]).Name); err != nil {
			return err
		}
	}
	g.Outputs = append(g.Outputs[:1], list...)
	return m.WithGraph(g).Save(out, onnx.SaveOptions{})
}
