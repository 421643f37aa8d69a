package calib

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// choose decides the automatic choices. On each kept sample, every operator that reads the tensor runs once per method from
// the float values, with that input alone quantized, and with the activation that is fused to it: what a Relu6 cuts off is no
// error. The method whose squared error at the operators' outputs, as a share of the squared outputs, is least over all kept
// samples wins, the simpler one on a tie. Where nobody reads the tensor the error of the tensor itself counts. Each thread
// holds all activations of one sample.
func (r *renderer) choose(ctx context.Context, list []*activation) error {
	var auto []*contest
	for _, a := range list {
		if a.asked == tqc.ObserverAuto && len(a.tried) > 1 {
			auto = append(auto, r.contest(a))
		}
	}
	if len(auto) == 0 {
		return nil
	}
	kept := r.stats.Kept()
	if len(kept) == 0 {
		return errors.New("calibrate: automatic choice needs the kept samples, and the statistics have none")
	}
	session, err := exec.New(r.g, exec.Options{Context: ctx})
	if err != nil {
		return err
	}
	scores := make([][]score, len(kept))
	err = parallel(ctx, len(kept), r.cfg.Threads, func(i int) error {
		var err error
		scores[i], err = r.judge(ctx, session.NewRunner(), kept[i], auto)
		return err
	})
	if err != nil {
		return err
	}
	for i, c := range auto {
		c.decide(i, scores)
	}
	return nil
}

// contest is one automatic choice.
type contest struct {
	*activation
	set       *tqc.Set
	consumers [][]graph.NodeID // an operator and what is fused to it
	distinct  []int            // by trial: the first trial with the same scale and zero point
}

// score holds squared errors by consumer and trial, and the squared outputs by consumer.
type score struct {
	errors [][]float64
	power  []float64
}

func (r *renderer) contest(a *activation) *contest {
	c := &contest{activation: a, set: r.set}
	seen := map[graph.NodeID]bool{}
	for _, id := range r.set.Group(a.slot.ID) {
		sl := r.set.Slot(id)
		if sl.Kind != tqc.Input || seen[sl.Node] || r.moves(sl.Node, a.slot.ID) || sl.State() == tqc.FP32 {
			continue
		}
		seen[sl.Node] = true
		c.consumers = append(c.consumers, r.set.Together(sl.Node, r.order))
	}
	for i := range a.tried {
		k := 0
		for !sameScale(a.tried[k].params, a.tried[i].params) {
			k++
		}
		c.distinct = append(c.distinct, k)
	}
	return c
}

// moves reports whether the output of a node has the scale of its input: its error is no more than the input's.
func (r *renderer) moves(n graph.NodeID, root tqc.SlotID) bool {
	for _, s := range r.set.Outputs(n) {
		if s != tqc.NoSlot && r.set.Root(s) == root {
			return true
		}
	}
	return false
}

func sameScale(a, b tqc.Params) bool {
	if len(a.Scale) != len(b.Scale) {
		return false
	}
	for i := range a.Scale {
		if a.Scale[i] != b.Scale[i] || a.ZeroPoint[i] != b.ZeroPoint[i] {
			return false
		}
	}
	return true
}

// judge scores all contests on one sample.
func (r *renderer) judge(ctx context.Context, runner *exec.Runner, k Kept, auto []*contest) ([]score, error) {
	values, err := runner.RunAll(ctx, k.Feeds, nil, nil)
	if err != nil {
		return nil, err
	}
	scores := make([]score, len(auto))
	for i, c := range auto {
		if len(c.consumers) == 0 {
			if scores[i], err = c.own(values[c.slot.Value]); err != nil {
				return nil, err
			}
			continue
		}
		for _, nodes := range c.consumers {
			errs := make([]float64, len(c.tried))
			power := 0.0
			for t, first := range c.distinct {
				if first < t {
					errs[t] = errs[first]
					continue
				}
				if errs[t], power, err = c.consume(ctx, runner, values, r.g, nodes, t); err != nil {
					return nil, err
				}
			}
			scores[i].errors = append(scores[i].errors, errs)
			scores[i].power = append(scores[i].power, power)
		}
	}
	return scores, nil
}

// own scores the tensor itself.
func (c *contest) own(t *tensor.Tensor) (score, error) {
	s := score{errors: [][]float64{make([]float64, len(c.tried))}, power: make([]float64, 1)}
	if t == nil {
		return s, nil
	}
	for i := range c.tried {
		q, err := c.quantized(i, t)
		if err != nil {
			return s, err
		}
		s.errors[0][i], s.power[0] = squares(q, t)
	}
	return s, nil
}

// consume runs one consumer with the inputs that read the tensor quantized by one trial, and measures its last output.
func (c *contest) consume(ctx context.Context, runner *exec.Runner, values []*tensor.Tensor, g *graph.Graph, nodes []graph.NodeID,
	trial int) (e, power float64, err error) {
	done := map[*tensor.Tensor]*tensor.Tensor{}
	head, last := nodes[0], nodes[len(nodes)-1]
	at := func(n *graph.Node, id graph.NodeID) bool { return n.ID == id && g.Node(id) == n }
	hooks := &exec.Hooks{
		Input: func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
			if s := c.set.Input(head, i); !at(n, head) || t.DType != tensor.Float32 || s == tqc.NoSlot || c.set.Root(s) != c.slot.ID {
				return t, nil
			}
			var err error
			if done[t] == nil {
				done[t], err = c.quantized(trial, t)
			}
			return done[t], err
		},
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
			if want := values[n.Outputs[i]]; at(n, last) && t.DType == tensor.Float32 && want != nil {
				de, dp := squares(t, want)
				e, power = e+de, power+dp
			}
			return nil
		},
	}
	_, _, err = runner.Resume(ctx, values, head, hooks, func(n graph.NodeID) bool { return slices.Contains(nodes, n) })
	if err != nil {
		return 0, 0, fmt.Errorf("calibrate: %w", err)
	}
	return e, power, nil
}

// quantized returns t quantized and dequantized by one trial.
func (c *contest) quantized(trial int, t *tensor.Tensor) (*tensor.Tensor, error) {
	out := &tensor.Tensor{DType: t.DType, Layout: t.Layout, Shape: t.Shape, Data: make([]float32, t.Len())}
	return out, sim.Apply(out, t, &c.slot.Config, &c.tried[trial].params, sim.Quantize)
}

// squares returns the sum of (got-want)^2 and of want^2.
func squares(got, want *tensor.Tensor) (e, power float64) {
	if got.Layout != want.Layout {
		got, want = got.ToRowMajor(), want.ToRowMajor()
	}
	q, f := got.F32(), want.F32()
	for i := range f {
		d := float64(q[i]) - float64(f[i])
		e += float64(d * d)
		power += float64(float64(f[i]) * float64(f[i]))
	}
	return e, power
}

// decide adds up the scores of all samples, in their order, and picks the least.
func (c *contest) decide(index int, scores [][]score) {
	c.errors = make([]float64, len(c.tried))
	for n := range scores[0][index].errors {
		power := 0.0
		sums := make([]float64, len(c.tried))
		for _, sample := range scores {
			s := sample[index]
			power += s.power[n]
			for t, e := range s.errors[n] {
				sums[t] += e
			}
		}
		for t, e := range sums {
			if power > 0 {
				e /= power
			}
			c.errors[t] += e
		}
	}
	for t, e := range c.errors {
		if e < c.errors[c.chosen] {
			c.chosen = t
		}
	}
}
