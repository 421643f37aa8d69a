package analysis

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
)

// layerResult is one operator on one sample.
type layerResult struct {
	outputs            []outputError
	clip, round        float64
	weight, activation float64
}

// layerwise quantizes each group alone, starting from the kept float activations.
func (w *worker) layerwise(ctx context.Context, res *sampleResult) error {
	res.layers = make([]layerResult, len(w.groups))
	for i := range w.groups {
		l, err := w.layer(ctx, &w.groups[i], res)
		if err != nil {
			return err
		}
		res.layers[i] = l
	}
	return nil
}

func (w *worker) layer(ctx context.Context, g *group, res *sampleResult) (l layerResult, err error) {
	float := w.kept.values[g.output]
	if float == nil {
		return l, fmt.Errorf("node %q: its output %q has no value", w.g.Node(g.node).Name, w.g.Value(g.output).Name)
	}
	clipped, weights := float, float
	if clips, err := g.clips(w.sim, w.kept.values); err != nil {
		return l, err
	} else if clips {
		if clipped, err = w.alone(ctx, g, sim.View{Mask: g.all, Mode: sim.Clip}, res); err != nil {
			return l, err
		}
	}
	if w.cfg.Split && g.weighted {
		if weights, err = w.alone(ctx, g, sim.View{Mask: g.weights}, res); err != nil {
			return l, err
		}
	}
	out, err := w.run(ctx, g, sim.View{Mask: g.all}, nil, res, func(q *tensor.Tensor) (err error) {
		if l.clip, l.round, err = parts(float, clipped, q); err == nil && w.cfg.Split {
			l.weight, l.activation, err = parts(float, weights, q)
		}
		return err
	})
	if err != nil {
		return l, err
	}
	l.outputs, err = w.compareOutputs(out)
	return l, err
}

// alone runs nothing but a group and returns its output.
func (w *worker) alone(ctx context.Context, g *group, view sim.View, res *sampleResult) (*tensor.Tensor, error) {
	own := w.kept.values[g.output]
	_, err := w.run(ctx, g, view, g.contains, res, func(t *tensor.Tensor) error {
		own = t.Clone()
		return nil
	})
	return own, err
}

// run runs a group, with what depends on it as far as until allows, under a view of the simulation. see is shown the group's
// output, valid during the call, unless nothing changes on the way there.
func (w *worker) run(ctx context.Context, g *group, view sim.View, until func(graph.NodeID) bool, res *sampleResult, see func(*tensor.Tensor) error) ([]*tensor.Tensor, error) {
	view.Scratch = &w.scratch
	hooks := withOutput(w.sim.NewHooks(view), func(n *graph.Node, i int, t *tensor.Tensor) error {
		if n.Outputs[i] == g.output {
			return see(t)
		}
		return nil
	})
	outputs, ran, err := w.runner.Resume(ctx, w.kept.values, g.node, hooks, until)
	res.forwards += w.work.share(ran)
	return outputs, err
}

// work says how large a share of a whole forward each node is: by multiply-accumulates where the graph has any, else by number.
type work struct {
	of    []float64
	total float64
}

func newWork(g *graph.Graph) work {
	w := work{of: make([]float64, g.NumNodes())}
	for _, id := range g.Nodes() {
		if macs, ok := g.MACs(id); ok {
			w.of[id] = float64(macs)
		}
		w.total += w.of[id]
	}
	if w.total == 0 {
		for _, id := range g.Nodes() {
			w.of[id] = 1
			w.total++
		}
	}
	return w
}

func (w work) share(ran []graph.NodeID) float64 {
	if w.total == 0 {
		return 0
	}
	var sum float64
	for _, id := range ran {
		sum += w.of[id]
	}
	return sum / w.total
}
