package analysis

import (
	"context"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// layerResult is one operator on one sample.
type layerResult struct {
	outputs            []outputError
	clip, round        float64
	weight, activation float64
	read               float64
	bounded            bool    // outputs follow from the local error; see bounds.go
	clipped            float64 // what clipping takes away from the tensors that are quantized; see group.clips
	// unclipped and unsplit say that clip, or weight, activation and read, were not measured; see viewed.
	unclipped, unsplit bool
}

// layerwise quantizes each group of a range alone, starting from the kept float activations.
func (w *worker) layerwise(ctx context.Context, res *sampleResult, r int) error {
	res.layers, res.reach = make([]layerResult, len(w.groups)), make([]float64, len(w.groups))
	for i := range w.queues { // a sample that failed may have left some
		w.queues[i].layers = w.queues[i].layers[:0]
	}
	from, to := w.span(r)
	for i := to - 1; i >= from; i-- { // what follows first; see beside
		l, err := w.layer(ctx, i, res)
		if err != nil {
			return err
		}
		outputs := res.layers[i].outputs // may be known already: the last to wait takes the others along
		if res.layers[i] = l; outputs != nil {
			res.layers[i].outputs = outputs
		}
	}
	for stage := range w.stages {
		if err := w.drain(ctx, stage, res); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) layer(ctx context.Context, i int, res *sampleResult) (l layerResult, err error) {
	g := &w.groups[i]
	float, err := w.floatOf(ctx, g, res)
	if err != nil {
		return l, err
	}
	res.reach[i] = reachOf(float)
	clipped, weights := float, float
	var last *tqc.Slot
	if l.clipped, last, err = g.clips(w.sim, w.kept.values); err != nil {
		return l, err
	}
	l.unclipped = last == nil && g.products && !viewed(w.index) && l.clipped > 0 && l.clipped <= w.clips[i]
	if last != nil {
		w.own[clipping] = copied(w.own[clipping], float)
		clipped = w.own[clipping]
		if err = sim.Apply(clipped, float, &last.Config, w.sim.Set().Params(last.ID), sim.Clip); err != nil {
			return l, w.g.ErrorAt("analyze", g.node, err)
		}
	} else if l.clipped > 0 && !l.unclipped {
		if clipped, err = w.alone(ctx, g, clipping, float, w.hooks(i, clipping), res); err != nil {
			return l, err
		}
	}
	l.unsplit = w.cfg.Split && !viewed(w.index)
	if w.cfg.Split && g.weighted && !l.unsplit {
		if weights, err = w.alone(ctx, g, weightsOnly, float, w.hooks(i, weightsOnly), res); err != nil {
			return l, err
		}
	}
	if w.cfg.Split && g.reads != nil && !l.unsplit {
		q, err := w.alone(ctx, g, reading, float, w.hooks(i, reading), res)
		if err != nil {
			return l, err
		}
		if _, l.read, err = w.local(g, float, float, q); err != nil {
			return l, err
		}
	}
	seen := false
	see := func(q *tensor.Tensor) (err error) {
		seen = true
		if l.clip, l.round, err = w.local(g, float, clipped, q); err == nil && w.cfg.Split {
			l.weight, l.activation, err = w.local(g, float, weights, q)
		}
		return err
	}
	if gain, next := w.gains != nil && w.gains[i] != nil, w.beside(i, res); gain || next != nil {
		q, err := w.alone(ctx, g, rounded, float, w.hooks(i, everything), res)
		if err == nil {
			err = see(q)
		}
		if err == nil && gain {
			l.outputs, l.bounded = w.bound(i, l.clip+l.round)
		} else if err == nil {
			l.outputs, l.bounded, err = w.below(ctx, i, next, res)
		}
		if err != nil || l.bounded {
			return l, err
		}
	}
	if l.outputs, err = w.perturbed(ctx, i, see, res); err == nil && !seen {
		err = see(float)
	}
	return l, err
}

// floatOf begins a group, with what is known of the float run, and returns its output there.
func (w *worker) floatOf(ctx context.Context, g *group, res *sampleResult) (*tensor.Tensor, error) {
	w.known = append(w.known[:0], w.kept.values...)
	for _, v := range g.between {
		w.known[v] = nil
	}
	float := w.kept.values[g.output]
	if float == nil {
		for _, id := range g.nodes { // what equals a kept value would end the run
			for _, v := range w.g.Node(id).Outputs {
				if v != graph.NoValue {
					w.known[v] = nil
				}
			}
		}
		return w.alone(ctx, g, everything, nil, &exec.Hooks{}, res)
	}
	return float, nil
}

// local is local of the output of a group, without padding. Where middle is float itself it stays so.
func (w *worker) local(g *group, float, middle, q *tensor.Tensor) (first, second float64, err error) {
	f := unpadded(w.padded, g.output, float)
	if middle == float {
		return local(f, f, unpadded(w.padded, g.output, q))
	}
	return local(f, unpadded(w.padded, g.output, middle), unpadded(w.padded, g.output, q))
}

// perturbed quantizes group i, shows see its output unless nothing changes there, and returns the error of the graph outputs: nil
// where the restart waits in front of a stage.
func (w *worker) perturbed(ctx context.Context, i int, see func(*tensor.Tensor) error, res *sampleResult) ([]outputError, error) {
	g := &w.groups[i]
	var until func(graph.NodeID) bool
	var reached *tensor.Tensor
	stage, waits := w.enters(g), graph.NoValue
	if stage >= 0 {
		until, waits = w.before(stage), w.stages[stage].value
	}
	wants := func(v graph.ValueID) bool { return v == g.output || v == waits }
	out, err := w.run(ctx, g, w.hooks(i, everything), until, res, wants, func(v graph.ValueID, t *tensor.Tensor) error {
		if v == waits && !sameAs(w.kept.values[v], t) {
			w.reached = copied(w.reached, t)
			reached = w.reached
		}
		if v == g.output {
			return see(t)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case reached != nil:
		return nil, w.wait(ctx, stage, i, reached, res)
	case until != nil:
		out = w.outputsOf()
	}
	return w.compareOutputs(out)
}

// What the error of a row is made of, by clipping and rounding and by weights and activations, is measured on two samples of sixteen: each
// of these views runs the operator once more. On the others clipping makes of what it takes away from tensors what it makes on those; where
// it takes away more than beyond times what it does on the first sample, it is measured.
func viewed(sample int) bool { return sample%16 < 2 }

// Views of one group.
const (
	everything = iota
	clipping
	weightsOnly
	reading // what the group reads that others round
	rounded // no view: memory for what everything makes of a float output that is in memory itself
)

// hooks are those of a view of group i. Their memory is that of the worker: one of them is used at a time. They know every slot: all
// of them are kept for the next sample where weights are in memory, which take more.
func (w *worker) hooks(i, view int) *exec.Hooks {
	hooks := w.hooked[i][view]
	if hooks == nil {
		v := sim.View{Mask: w.groups[i].all, Scratch: &w.scratch}
		switch view {
		case clipping:
			v.Mode = sim.Clip
		case weightsOnly:
			v.Mask = w.groups[i].weights
		case reading:
			v.Mask = w.groups[i].reads
		}
		hooks = w.sim.NewHooks(v)
		if w.g.Store == nil {
			w.hooked[i][view] = hooks
		}
	}
	return hooks
}

// alone runs nothing but a group under hooks and returns its output, in the memory w.own[at]: unchanged where nothing changes
// on the way there.
func (w *worker) alone(ctx context.Context, g *group, at int, unchanged *tensor.Tensor, hooks *exec.Hooks,
	res *sampleResult) (*tensor.Tensor, error) {
	return w.upTo(ctx, g, g.output, g.contains, at, unchanged, hooks, res)
}

// upTo is alone as far as a value further on, through nodes that within names.
func (w *worker) upTo(ctx context.Context, g *group, to graph.ValueID, within func(graph.NodeID) bool, at int, unchanged *tensor.Tensor,
	hooks *exec.Hooks, res *sampleResult) (*tensor.Tensor, error) {
	own := unchanged
	wants := func(v graph.ValueID) bool { return v == to }
	_, err := w.run(ctx, g, hooks, within, res, wants, func(_ graph.ValueID, t *tensor.Tensor) error {
		w.own[at] = copied(w.own[at], t)
		own = w.own[at]
		return nil
	})
	if err == nil && own == nil {
		err = fmt.Errorf("node %q: the value %q behind it is not computed", w.g.Node(g.node).Name, w.g.Value(to).Name)
	}
	return own, err
}

// run runs a group under hooks, with what depends on it as far as until allows. see is shown the values that wants names, valid
// during the call, unless nothing changes on the way there.
func (w *worker) run(ctx context.Context, g *group, hooks *exec.Hooks, until func(graph.NodeID) bool, res *sampleResult,
	wants func(graph.ValueID) bool, see func(graph.ValueID, *tensor.Tensor) error) ([]*tensor.Tensor, error) {
	hooks = looking(hooks, wants, func(n *graph.Node, i int, t *tensor.Tensor) error { return see(n.Outputs[i], t) })
	outputs, ran, err := w.runner.Resume(ctx, w.known, g.node, hooks, until)
	res.work += w.work.sum(ran)
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

func (w work) sum(ran []graph.NodeID) (sum float64) {
	for _, id := range ran {
		sum += w.of[id]
	}
	return sum
}

// share is the share of a whole forward that so much work is.
func (w work) share(sum float64) float64 {
	if w.total == 0 {
		return 0
	}
	return sum / w.total
}
