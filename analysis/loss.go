package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Explanation says what the loss of an integer program against float is made of.
type Explanation struct {
	Profile string       `json:"profile"`
	Samples int          `json:"samples"`
	Outputs []OutputLoss `json:"outputs"` // of the whole graph
	Layers  []LayerLoss  `json:"layers"`  // each alone, from float inputs, in the order of the steps
	Seconds float64      `json:"seconds"`
}

// Loss is an error that was split into parts: what each kind of change does by itself. NSR is that of the whole, with integers
// against float; all parts are in its unit, over sum(y_0^2) + 1e-7, mean over samples.
//
// At a graph output a part is the NSR of the float network with that one change: Weights with weights rounded, Clip with activations
// clipped, Round what rounding the clipped ones adds, Bias what rounding the biases adds to rounded weights, Tables and Profile with every
// step's output moved by as much as its table, or its integers under the profile, are off at that step from float inputs. No part holds the
// rounding of activations but Round: a small change in front of it throws all later rounding anew, which is chance and no fault of the
// change. Parts that do not depend on each other sum to the NSR; Rest is what they do together.
// What tuning changed in weights and biases is part of Weights.
//
// At a step's own output a part is the projection of a change of the chain float -> weights rounded -> activations clipped -> activations
// rounded -> bias rounded -> tables -> integers on the whole error, <y_k - y_(k-1), y_n - y_0>. There nothing is thrown anew, and the parts
// sum to the NSR but for the rounding of the sums. A part may be negative, where its change makes up for others.
type Loss struct {
	NSR     float64 `json:"nsr"`
	Weights float64 `json:"weights"`
	// WeightsShift and WeightsNoise split Weights: into what one number per output channel takes away (the mean shift of the channel, as
	// the other samples show it, which a corrected bias repairs) and what it leaves. Nil with fewer than two samples, and for steps
	// without rounded weights.
	WeightsShift *float64 `json:"weights_shift,omitempty"`
	WeightsNoise *float64 `json:"weights_noise,omitempty"`
	Clip         float64  `json:"clip"`
	Round        float64  `json:"round"`
	Bias         float64  `json:"bias"`
	Tables       float64  `json:"tables"`
	Profile      float64  `json:"profile"`
	Rest         float64  `json:"rest"`
}

// OutputLoss is the loss at a graph output, and at those of its parts that count: see Judge.
type OutputLoss struct {
	Output string `json:"output"`
	Loss
	Slices []SliceLoss `json:"slices,omitempty"`
}

// LayerLoss is the loss of one step at its own output.
type LayerLoss struct {
	Node string `json:"node"`
	Op   string `json:"op"`
	Loss
}

// Stages: of a step's chain each with those before it, of the whole graph each alone.
const (
	stageFloat = iota
	stageWeights
	stageClip
	stageRound
	stageBias
	stageTables
	stageIntegers
	stages
)

// ExplainConfig says how Explain works.
type ExplainConfig struct {
	Set     *tqc.Set
	Program *lower.Program
	// Reference is the float graph, nil for the program's own: a tuned program's constants are other ones.
	Reference *graph.Graph
	Parts     []Slice         // of the outputs; none: those of FindSlices
	Backend   program.Backend // runs the integers; the zero value is the reference
	Threads   int             // that share the work of an operator, 0 for one
	Progress  func(done int)  // samples done; may be nil
}

// Explain splits the loss of a program against the float graph, at the graph outputs and at every step that computes. data starts the
// samples; it is called a second time, for the same ones, to see what of the weights' part is a shift of means. An empty data set is an
// error, and so is an output that is not finite. Memory: the activations of one sample, up to three times.
func Explain(ctx context.Context, data func() exec.Iterator, cfg ExplainConfig) (*Explanation, error) {
	samples := data()
	e, err := newExplainer(cfg)
	if err != nil {
		return nil, err
	}
	defer e.integer.Close()
	r := &Explanation{Profile: cfg.Program.Profile.Name}
	for {
		s, err := samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = e.sample(ctx, s.Feeds)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("explain: %w", err)
		}
		if r.Samples++; cfg.Progress != nil {
			cfg.Progress(r.Samples)
		}
	}
	if r.Samples == 0 {
		return nil, errors.New("explain: the data set is empty")
	}
	bySlice := e.slices.losses(len(e.outputs))
	for k, m := range e.outputs {
		if e.isFloat[k] {
			r.Outputs = append(r.Outputs, OutputLoss{e.g.Value(e.g.Outputs[k]).Name, m.mean(), bySlice[k]})
		}
	}
	for i := range e.layers {
		l := &e.layers[i]
		n := e.g.Node(l.step.Node)
		loss := l.loss.mean()
		if len(l.shift.own) > 1 {
			moved := l.shift.part()
			noise := loss.Weights - moved
			loss.WeightsShift, loss.WeightsNoise = &moved, &noise
		}
		r.Layers = append(r.Layers, LayerLoss{n.Name, n.Op, loss})
	}
	if r.Samples < 2 {
		return r, nil
	}
	if err := e.repaired(ctx, data(), r); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return r, nil
}

// explainer is the state of one Explain.
type explainer struct {
	cfg     ExplainConfig
	g       *graph.Graph
	float   *graph.Graph        // what float is
	runner  *exec.Runner        // of float
	tuned   *exec.Runner        // of g, whose constants may be tuned ones
	hooks   [stages]*exec.Hooks // of the simulated stages
	integer *program.Executor
	outputs []aloneMeter
	slices  *sliceMeter
	isFloat []bool
	counts  *counts // outputs whose size depends on the numbers are left out
	layers  []layerChain
}

func newExplainer(cfg ExplainConfig) (*explainer, error) {
	g := cfg.Program.Graph
	runs := cfg.Reference
	if runs == nil {
		runs = g
	}
	session, err := exec.New(runs, exec.Options{Threads: max(cfg.Threads, 1)})
	if err != nil {
		return nil, err
	}
	tuned := session
	if runs != g {
		if tuned, err = exec.New(g, exec.Options{Threads: max(cfg.Threads, 1)}); err != nil {
			return nil, err
		}
	}
	backend := cfg.Backend
	if backend.Name == "" {
		backend = program.Reference
	}
	e := &explainer{cfg: cfg, g: g, float: runs, runner: session.NewRunner(), tuned: tuned.NewRunner(),
		outputs: make([]aloneMeter, len(g.Outputs)), isFloat: make([]bool, len(g.Outputs)), counts: countsOf(g)}
	e.slices = newSliceMeter(g, e.counts, cfg.Parts)
	if e.integer, err = program.New(cfg.Program, backend, max(cfg.Threads, 1)); err != nil {
		return nil, err
	}
	s, err := sim.New(g, cfg.Set, sim.Options{})
	if err != nil {
		return nil, err
	}
	e.simulate(s)
	e.findLayers()
	return e, nil
}

// simulate makes the hooks of the stages in front of the integers. Weights and biases are rounded in the tuned graph, activations in
// float.
func (e *explainer) simulate(s *sim.Simulator) {
	set := e.cfg.Set
	bias := func(id tqc.SlotID) bool { return set.Slot(id).Weight && set.Slot(id).Config.BeyondFloat() }
	weights := func(id tqc.SlotID) bool { return set.Slot(id).Weight && !bias(id) }
	activations := sim.Activations(set)
	view := func(mask func(tqc.SlotID) bool, mode sim.Mode) *exec.Hooks {
		return s.NewHooks(sim.View{Mask: mask, Mode: mode})
	}
	e.hooks[stageWeights] = view(weights, sim.Quantize)
	e.hooks[stageClip] = view(activations, sim.Clip)
	e.hooks[stageRound] = view(activations, sim.Quantize)
	e.hooks[stageBias] = view(sim.Weights(set), sim.Quantize)
}

// chained puts one after the other: what a returns is what b sees. At most one of them changes states inside of operators.
func chained(a, b *exec.Hooks) *exec.Hooks {
	sees := func(h *exec.Hooks, v graph.ValueID) bool {
		return (h.Input != nil || h.Output != nil) && (h.Wants == nil || h.Wants(v))
	}
	both := *a
	if b.State != nil || b.Cell != nil {
		both.State, both.Cell = b.State, b.Cell
	}
	both.Input, both.Output = nil, func(n *graph.Node, i int, t *tensor.Tensor) error {
		for _, h := range []*exec.Hooks{a, b} {
			if h.Output != nil && sees(h, n.Outputs[i]) {
				if err := h.Output(n, i, t); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if a.Input != nil || b.Input != nil {
		both.Input = func(n *graph.Node, i int, t *tensor.Tensor) (_ *tensor.Tensor, err error) {
			for _, h := range []*exec.Hooks{a, b} {
				if h.Input != nil && sees(h, n.Inputs[i]) {
					if t, err = h.Input(n, i, t); err != nil {
						return nil, err
					}
				}
			}
			return t, nil
		}
	}
	both.Wants = func(v graph.ValueID) bool { return sees(a, v) || sees(b, v) }
	return &both
}

// sample adds what one sample shows.
func (e *explainer) sample(ctx context.Context, feeds map[string]*tensor.Tensor) error {
	values, err := e.runner.RunAll(ctx, feeds, nil, nil)
	if err != nil {
		return err
	}
	for _, v := range e.g.Inputs {
		if t := feeds[e.g.Value(v).Name]; t != nil {
			values[v] = t
		}
	}
	var moves [stages]moves
	moves[stageTables], moves[stageIntegers] = map[graph.ValueID]*tensor.Tensor{}, map[graph.ValueID]*tensor.Tensor{}
	for i := range e.layers {
		if err := e.layers[i].sample(ctx, e, values, &moves); err != nil {
			return e.g.ErrorAt("explain", e.layers[i].step.Node, err)
		}
	}
	var alone [stages][]*tensor.Tensor
	for stage := stageFloat; stage < stages; stage++ {
		hooks, runner := e.hooks[stage], e.runner
		if moves[stage] != nil {
			hooks = e.moved(moves[stage])
		}
		if stage == stageWeights || stage == stageBias {
			runner = e.tuned
		}
		if alone[stage], err = runner.Run(ctx, feeds, hooks); err != nil {
			return err
		}
	}
	whole, err := e.integer.Run(ctx, feeds, nil)
	if err != nil {
		return err
	}
	if err := e.slices.add(&alone, whole); err != nil {
		return err
	}
	for k := range e.outputs {
		if !alone[stageFloat][k].DType.IsFloat() || e.counts.counted[e.g.Outputs[k]] {
			continue
		}
		e.isFloat[k] = true
		var list [stages]*tensor.Tensor
		for stage := range list {
			list[stage] = exec.Floats(alone[stage][k])
		}
		if err := e.outputs[k].add(&list, exec.Floats(whole[k])); err != nil {
			return fmt.Errorf("output %q: %w", e.g.Value(e.g.Outputs[k]).Name, err)
		}
	}
	e.integer.Reuse(whole)
	return nil
}

// moves are by how much tensors are moved, row-major.
type moves map[graph.ValueID]*tensor.Tensor

// moved returns hooks that move tensors where they are computed.
func (e *explainer) moved(by moves) *exec.Hooks {
	return &exec.Hooks{
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
			d := by[n.Outputs[i]]
			if d == nil || !e.own(n) {
				return nil
			}
			if t.Layout == tensor.ChannelsLast {
				d = d.ToChannelsLast()
			}
			if d.Len() != t.Len() {
				return fmt.Errorf("%s cannot be moved by %s", t.Type(), d.Type())
			}
			x := t.F32()
			for k, v := range d.F32() {
				x[k] += v
			}
			return nil
		},
		Wants: func(v graph.ValueID) bool { return by[v] != nil },
	}
}
