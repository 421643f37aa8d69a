package analysis

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Evaluator measures many quantizations of one graph on the same samples: the float outputs are computed once and kept.
type Evaluator struct {
	g       *graph.Graph
	session *exec.Session
	samples func() exec.Iterator
	float   [][]*tensor.Tensor
	threads int
}

// NewEvaluator runs all samples in float, threads at a time. samples gives the data set from its beginning each time it is
// called: it is read again for every quantization, so that memory holds no more of it than is being worked on. An empty data set
// is an error.
func NewEvaluator(ctx context.Context, g *graph.Graph, samples func() exec.Iterator, threads int) (*Evaluator, error) {
	session, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	e := &Evaluator{g: g, session: session, samples: samples, threads: threads}
	e.float, err = outputs(ctx, e, nil, func(_ int, out []*tensor.Tensor) ([]*tensor.Tensor, error) { return out, nil })
	return e, err
}

// Error runs the quantized graph and returns its error at the graph outputs: the largest NSR and MSE and the smallest cosine.
func (e *Evaluator) Error(ctx context.Context, q *sim.Simulator) (Error, error) {
	results, err := outputs(ctx, e, q, func(i int, out []*tensor.Tensor) ([]outputError, error) {
		return compareOutputs(e.g, out, e.float[i])
	})
	if err != nil {
		return Error{}, err
	}
	meters := make([]meter, len(e.g.Outputs))
	for _, r := range results {
		for k := range meters {
			meters[k].add(r[k].Error)
		}
	}
	return worst(meters, results[0]), nil
}

// outputs runs all samples, quantized unless q is nil, and collects what f makes of the graph outputs. f is called in parallel.
func outputs[T any](ctx context.Context, e *Evaluator, q *sim.Simulator, f func(i int, out []*tensor.Tensor) (T, error)) ([]T, error) {
	c := collector[T]{stage: "evaluate", threads: e.threads, worker: func() func(context.Context, int, *exec.Sample) (T, error) {
		runner := e.session.NewRunner()
		var hooks *exec.Hooks
		if q != nil {
			hooks = q.Hooks(nil)
		}
		return func(ctx context.Context, i int, s *exec.Sample) (T, error) {
			out, err := runner.Run(ctx, s.Feeds, hooks)
			if err != nil {
				var none T
				return none, err
			}
			return f(i, out)
		}
	}}
	return c.run(ctx, e.samples())
}
