package analysis

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// Watched returns a clone of g, which has the nodes and values of the judge's graph, with what is judged as its outputs, and behind those
// what Softmax reads where a judge looks at it. Whatever runs the clone can be judged.
func (j *Judge) Watched(g *graph.Graph) *graph.Graph {
	w := g.Clone()
	w.Outputs = slices.Clone(j.g.Outputs)
	for _, l := range j.logits {
		if l.node != graph.NoNode && !slices.Contains(w.Outputs, l.value) {
			w.Outputs = append(w.Outputs, l.value)
		}
	}
	return w
}

// Verdict is that of a run of the Watched clone w, given its outputs.
func (j *Judge) Verdict(w *graph.Graph, outputs []*tensor.Tensor) (*Verdict, error) {
	if len(outputs) != len(w.Outputs) || len(outputs) < len(j.logits) {
		return nil, fmt.Errorf("judge: %d outputs of a graph with %d", len(outputs), len(w.Outputs))
	}
	v := &Verdict{scores: make([]*tensor.Tensor, len(j.logits))}
	v.Outputs(outputs[:len(j.logits)])
	for i, l := range j.logits {
		if l.node != graph.NoNode {
			v.scores[i] = outputs[slices.Index(w.Outputs, l.value)]
		}
	}
	return v, nil
}

// LossesOf is Losses of anything that runs the graph: prepare is given g as the judge watches it and returns what runs it, which is called
// for one sample at a time. g has the nodes and values of the evaluator's graph.
func (e *Evaluator) LossesOf(ctx context.Context, g *graph.Graph, prepare func(watched *graph.Graph) (Forward, error)) (Losses, error) {
	w := e.judge.Watched(g)
	forward, err := prepare(w)
	if err != nil {
		return nil, err
	}
	var rolling exec.Rolling
	kept := exec.Work{Outputs: len(e.float)}
	c := collector[[]float64]{stage: "evaluate", threads: 1, graph: g, work: kept}
	c.worker = func() func(context.Context, int, *exec.Sample) ([]float64, error) {
		return func(ctx context.Context, i int, s *exec.Sample) ([]float64, error) {
			out, err := forward(ctx, rolling.Feeds(s))
			if err == nil {
				err = rolling.Keep(w, s, out)
			}
			if err != nil {
				return nil, err
			}
			v, err := e.judge.Verdict(w, out)
			if err != nil {
				return nil, err
			}
			e.judge.Hide(v, s)
			return e.losses(i, s, v)
		}
	}
	return c.run(ctx, e.samples())
}
