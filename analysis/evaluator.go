package analysis

import (
	"context"
	"errors"
	"io"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// Evaluator measures many quantizations of one graph on the same few samples: the float outputs are computed once.
type Evaluator struct {
	g       *graph.Graph
	session *exec.Session
	samples []*exec.Sample
	float   [][]*tensor.Tensor
	threads int
}

// NewEvaluator reads all samples into memory and runs them in float, threads at a time. An empty data set is an error.
func NewEvaluator(ctx context.Context, g *graph.Graph, samples exec.Iterator, threads int) (*Evaluator, error) {
	session, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, err
	}
	e := &Evaluator{g: g, session: session, threads: max(threads, 1)}
	for {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		e.samples = append(e.samples, s)
	}
	if len(e.samples) == 0 {
		return nil, errors.New("evaluate: the data set is empty")
	}
	e.float = make([][]*tensor.Tensor, len(e.samples))
	err = e.each(ctx, func() *exec.Hooks { return nil }, func(i int, out []*tensor.Tensor) error {
		e.float[i] = out
		return nil
	})
	return e, err
}

// Error runs the quantized graph and returns its error at the graph outputs: the largest NSR and MSE and the smallest cosine.
func (e *Evaluator) Error(ctx context.Context, q *sim.Simulator) (Error, error) {
	results := make([][]outputError, len(e.samples))
	err := e.each(ctx, func() *exec.Hooks { return q.Hooks(nil) }, func(i int, out []*tensor.Tensor) (err error) {
		results[i], err = compareOutputs(out, e.float[i])
		return err
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

// each runs all samples, hooks made once per thread, and hands the outputs to f, which may be called in parallel.
func (e *Evaluator) each(ctx context.Context, hooks func() *exec.Hooks, f func(i int, out []*tensor.Tensor) error) error {
	errs := make([]error, len(e.samples))
	next := make(chan int)
	var wg sync.WaitGroup
	for range e.threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			runner, h := e.session.NewRunner(), hooks()
			for i := range next {
				out, err := runner.Run(ctx, e.samples[i].Feeds, h)
				if err == nil {
					err = f(i, out)
				}
				errs[i] = err
			}
		}()
	}
	for i := range e.samples {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
