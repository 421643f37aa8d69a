package program

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// newGraph is a kernel that runs a graph in the float executor: an island, or an operator that moves codes.
func newGraph(g *graph.Graph, threads int) (Kernel, error) {
	session, err := exec.New(g, exec.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	runner := session.NewRunner()
	return func(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		feeds := make(map[string]*tensor.Tensor, len(in))
		for i, v := range g.Inputs {
			feeds[g.Value(v).Name] = in[i]
		}
		return runner.Run(ctx, feeds, nil)
	}, nil
}
