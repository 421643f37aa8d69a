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

// Loss is an error that was split into parts along the chain float -> weights rounded -> activations clipped -> activations rounded
// -> bias rounded -> tables -> integers under the profile. Each part is the projection of its step's change on the whole error,
// <y_k - y_(k-1), y_n - y_0>, over sum(y_0^2) + 1e-7, mean over samples: the parts sum to the NSR. A part may be negative, where its
// change makes up for others; all are 0 where the whole is 0.
type Loss struct {
	NSR     float64 `json:"nsr"`
	Weights float64 `json:"weights"`
	Clip    float64 `json:"clip"`
	Round   float64 `json:"round"`
	Bias    float64 `json:"bias"`
	Tables  float64 `json:"tables"`
	Profile float64 `json:"profile"`
	// Rest is what the parts leave over, by the rounding of their sums.
	Rest float64 `json:"rest"`
}

// OutputLoss is the loss at a graph output.
type OutputLoss struct {
	Output string `json:"output"`
	Loss
}

// LayerLoss is the loss of one step at its own output.
type LayerLoss struct {
	Node string `json:"node"`
	Op   string `json:"op"`
	Loss
}

// Stages of the chain.
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
	Backend   program.Backend // runs the integers; the zero value is the reference
	Threads   int             // that share the work of an operator, 0 for one
	Progress  func(done int)  // samples done; may be nil
}

// Explain splits the loss of a program against the float graph, at the graph outputs and at every step that computes. An empty data
// set is an error, and so is an output that is not finite. Memory: the activations of one sample and the outputs of the chain.
func Explain(ctx context.Context, samples exec.Iterator, cfg ExplainConfig) (*Explanation, error) {
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
	for k, m := range e.outputs {
		if e.isFloat[k] {
			r.Outputs = append(r.Outputs, OutputLoss{e.g.Value(e.g.Outputs[k]).Name, m.mean()})
		}
	}
	for i := range e.layers {
		l := &e.layers[i]
		n := e.g.Node(l.step.Node)
		r.Layers = append(r.Layers, LayerLoss{n.Name, n.Op, l.loss.mean()})
	}
	return r, nil
}

// explainer is the state of one Explain.
type explainer struct {
	cfg     ExplainConfig
	g       *graph.Graph
	runner  *exec.Runner
	hooks   [stages]*exec.Hooks // of the simulated stages
	integer *program.Executor
	outputs []lossMeter
	isFloat []bool
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
	backend := cfg.Backend
	if backend.Name == "" {
		backend = program.Reference
	}
	e := &explainer{cfg: cfg, g: g, runner: session.NewRunner(), outputs: make([]lossMeter, len(g.Outputs)), isFloat: make([]bool, len(g.Outputs))}
	if e.integer, err = program.New(cfg.Program, backend, max(cfg.Threads, 1)); err != nil {
		return nil, err
	}
	s, err := sim.New(g, cfg.Set, sim.Options{Runs: runs})
	if err != nil {
		return nil, err
	}
	e.simulate(s)
	return e, e.findLayers()
}

// simulate makes the hooks of the stages in front of the integers.
func (e *explainer) simulate(s *sim.Simulator) {
	set := e.cfg.Set
	bias := func(id tqc.SlotID) bool { return set.Slot(id).Weight && set.Slot(id).Config.Bits > 24 }
	weights := func(id tqc.SlotID) bool { return set.Slot(id).Weight && !bias(id) }
	activations := sim.Activations(set)
	view := func(mask func(tqc.SlotID) bool, mode sim.Mode) *exec.Hooks {
		return s.NewHooks(sim.View{Mask: mask, Mode: mode})
	}
	e.hooks[stageWeights] = view(weights, sim.Quantize)
	e.hooks[stageClip] = chained(view(weights, sim.Quantize), view(activations, sim.Clip))
	e.hooks[stageRound] = view(func(id tqc.SlotID) bool { return !bias(id) }, sim.Quantize)
	e.hooks[stageBias] = view(nil, sim.Quantize)
	e.hooks[stageTables] = chained(view(nil, sim.Quantize), e.tables())
}

// chained puts one after the other: what a returns is what b sees.
func chained(a, b *exec.Hooks) *exec.Hooks {
	return &exec.Hooks{
		Input: func(n *graph.Node, i int, t *tensor.Tensor) (*tensor.Tensor, error) {
			v := n.Inputs[i]
			var err error
			if a.Input != nil && (a.Wants == nil || a.Wants(v)) {
				if t, err = a.Input(n, i, t); err != nil {
					return nil, err
				}
			}
			if b.Input != nil && (b.Wants == nil || b.Wants(v)) {
				return b.Input(n, i, t)
			}
			return t, nil
		},
		Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
			v := n.Outputs[i]
			if a.Output != nil && (a.Wants == nil || a.Wants(v)) {
				if err := a.Output(n, i, t); err != nil {
					return err
				}
			}
			if b.Output != nil && (b.Wants == nil || b.Wants(v)) {
				return b.Output(n, i, t)
			}
			return nil
		},
		Wants: func(v graph.ValueID) bool {
			return (a.Wants == nil || a.Wants(v)) || (b.Wants == nil || b.Wants(v))
		},
	}
}

// sample adds what one sample shows.
func (e *explainer) sample(ctx context.Context, feeds map[string]*tensor.Tensor) error {
	var chain [stages][]*tensor.Tensor
	values, err := e.runner.RunAll(ctx, feeds, nil, nil)
	if err != nil {
		return err
	}
	for _, v := range e.g.Inputs {
		if t := feeds[e.g.Value(v).Name]; t != nil {
			values[v] = t
		}
	}
	for stage := stageFloat; stage < stageIntegers; stage++ {
		if chain[stage], err = e.runner.Run(ctx, feeds, e.hooks[stage]); err != nil {
			return err
		}
	}
	if chain[stageIntegers], err = e.integer.Run(ctx, feeds, nil); err != nil {
		return err
	}
	for k := range e.outputs {
		if chain[stageFloat][k].DType != tensor.Float32 {
			continue
		}
		e.isFloat[k] = true
		var list [stages]*tensor.Tensor
		for stage := range list {
			list[stage] = chain[stage][k]
		}
		if err := e.outputs[k].add(&list); err != nil {
			return fmt.Errorf("output %q: %w", e.g.Value(e.g.Outputs[k]).Name, err)
		}
	}
	for i := range e.layers {
		if err := e.layers[i].sample(ctx, e, values); err != nil {
			return e.g.ErrorAt("explain", e.layers[i].step.Node, err)
		}
	}
	return nil
}
