package cpu

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// island is a part of the graph in float, or a product with scales of run time. Its outputs stay where they are from run to run.
type island struct {
	graph  *graph.Graph
	runner *exec.Runner
	feeds  map[string]*tensor.Tensor
	outs   []*tensor.Tensor
	values []value
}

func newIsland(e *engine, g *graph.Graph) (kernel, error) {
	session, err := exec.New(g, exec.Options{Threads: e.threads, Parallel: e.par})
	if err != nil {
		return nil, err
	}
	n := len(g.Outputs)
	return &island{graph: g, runner: session.NewRunner(), feeds: map[string]*tensor.Tensor{}, outs: make([]*tensor.Tensor, n),
		values: make([]value, n)}, nil
}

func (c *island) run(ctx context.Context, s *step, m *memory) error {
	for i, v := range c.graph.Inputs {
		c.feeds[c.graph.Value(v).Name] = s.in[i].tensor()
	}
	if err := c.runner.RunInto(ctx, c.feeds, nil, c.outs); err != nil {
		return err
	}
	for i, t := range c.outs {
		if s.engine.program.Tensors[s.Outputs[i]].Quantized() { // of an LSTM of integers
			s.out[i] = valueOf(t, true)
			continue
		}
		c.values[i] = value{dtype: t.DType, shape: t.Shape, t: t, slot: noSlot}
		s.out[i] = &c.values[i]
	}
	return nil
}
