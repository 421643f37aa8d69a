package program

import (
	"context"
	"sync"

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
	idle := sync.Pool{New: func() any { return session.NewRunner() }}
	return func(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		feeds := make(map[string]*tensor.Tensor, len(in))
		for i, v := range g.Inputs {
			feeds[g.Value(v).Name] = in[i]
		}
		runner := idle.Get().(*exec.Runner)
		out, err := runner.Run(ctx, feeds, nil)
		if err == nil { // else its memory may be in any state
			idle.Put(runner)
		}
		return out, err
	}, nil
}
