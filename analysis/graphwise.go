package analysis

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// outputError is the error at one graph output for one sample.
type outputError struct {
	Error
	mismatch float64 // integer outputs
	integer  bool
	loss     float64 // what the judge says; the NSR where it sees no class scores
	rows     int     // of class scores, and in how many another class has the highest
	changed  int
	noise    []float64 // by slice of the output
}

// compareOutputs measures the graph outputs q against those of the float run.
func (w *worker) compareOutputs(q []*tensor.Tensor) ([]outputError, error) {
	f, n := w.hide(w.outputsOf()), len(w.judge.logits)
	q = w.hide(q)
	out, err := w.judge.compareOutputs(q[:n], f[:n])
	if err == nil && len(w.judge.slices) > 0 {
		err = w.judge.noises(out, q[:n], f[:n])
	}
	if err != nil || !w.cfg.Layerwise && w.judge.Classes() { // not watched
		return out, err
	}
	for i, l := range w.judge.logits {
		if out[i].integer && w.judge.float { // as Judge.Losses has it
			continue
		}
		if out[i].loss = out[i].NSR; l.node != graph.NoNode {
			k := slices.Index(w.g.Outputs, l.value)
			s, err := centredNSR(q[k], f[k], l)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", w.g.Value(w.g.Outputs[i]).Name, err)
			}
			out[i].loss = s.nsr
		}
	}
	return out, nil
}

// hide takes padding out of outputs of the graph.
func (w *worker) hide(outputs []*tensor.Tensor) []*tensor.Tensor {
	if w.padded == nil {
		return outputs
	}
	list := make([]*tensor.Tensor, len(outputs))
	for k, t := range outputs {
		list[k] = unpadded(w.padded, w.g.Outputs[k], t)
	}
	return list
}

// compareOutputs measures the graph outputs q against the float ones.
func (j *Judge) compareOutputs(q, f []*tensor.Tensor) ([]outputError, error) {
	out := make([]outputError, len(q))
	for i := range q {
		if !f[i].DType.IsFloat() {
			m := Mismatch(q[i], f[i])
			out[i] = outputError{Error: Error{NSR: m, Cosine: 1 - m}, mismatch: m, integer: true}
			continue
		}
		e, err := Compare(j.unmasked(i, q[i], f[i]))
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", j.g.Value(j.g.Outputs[i]).Name, err)
		}
		out[i].Error = e
	}
	return out, nil
}

// graphwise runs the whole quantized graph on one sample and compares the graph outputs, and with cfg.Graphwise the output of
// every group, with the float run. A group's output is compared as its consumers read it: after its own slot quantized it.
func (w *worker) graphwise(ctx context.Context, s *exec.Sample, float *Verdict, res *sampleResult) error {
	hooks := w.full
	if w.cfg.Graphwise {
		res.graph, res.reach = make([]Error, len(w.groups)), make([]float64, len(w.groups))
		wants := func(v graph.ValueID) bool { return w.groupAt[v] != nil }
		hooks = looking(w.full, wants, func(n *graph.Node, i int, t *tensor.Tensor) error {
			v := n.Outputs[i]
			for _, k := range w.groupAt[v] {
				e, err := inside(unpadded(w.padded, v, t), unpadded(w.padded, v, w.kept.values[v]))
				if err != nil {
					return err
				}
				res.graph[k], res.reach[k] = e, reachOf(w.kept.values[v])
			}
			return nil
		})
	}
	var quantized Verdict
	out, err := w.runner.Run(ctx, w.rolling.Feeds(s), w.judge.Watch(hooks, &quantized))
	if err == nil {
		err = w.rolling.Keep(w.g, s, out)
	}
	if err != nil {
		return err
	}
	quantized.Outputs(out)
	w.judge.Hide(&quantized, s)
	res.forwards++
	if res.outputs, err = w.compareOutputs(out); err != nil {
		return err
	}
	if res.losses, err = w.judge.Losses(&quantized, float); err != nil {
		return err
	}
	for i := range res.outputs {
		s, err := w.judge.classes(i, &quantized, float)
		if err != nil {
			return err
		}
		res.outputs[i].rows, res.outputs[i].changed = s.rows, s.changed
	}
	res.sums, err = w.judge.sums(quantized.outputs, float.outputs, true)
	return err
}

// looking returns hooks that do what h does, and show f every output that wants names as h leaves it.
func looking(h *exec.Hooks, wants func(v graph.ValueID) bool, f func(n *graph.Node, i int, t *tensor.Tensor) error) *exec.Hooks {
	return chained(h, &exec.Hooks{Output: f, Wants: wants})
}
