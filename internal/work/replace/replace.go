// Package replace puts other activations in the place of some of a model's, and says what that does.
package replace

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"qwb/analysis"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/internal/work/calibrate"
	"qwb/internal/work/compare"
	"qwb/internal/work/fault"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/sweep"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
)

// Options are the arguments of replace.
type Options struct {
	Activations []string // FROM=TO, see passes.ReplaceActivation
	Nodes       []string // selectors of nodes, any of which the last node of an activation has to match; none: all
	Out         string   // file to write; empty: only measured
	Data        open.DataOptions
	// Platform is what both models are quantized for, with the scales that calibrate gives them, on the samples that do not judge. Empty: the
	// float models alone are compared.
	Platform string
	Threads  int
	Memory   int64
}

// Result is what replace --json prints.
type Result struct {
	Model    string     `json:"model"` // that was written; empty: none
	Replaced []Replaced `json:"replaced"`
	// Comparison is of the model and the changed one, and of both quantized, against the model in float; nil without data.
	Comparison *analysis.Comparison `json:"comparison,omitempty"`
	Samples    int                  `json:"samples"`
	HeldOut    int                  `json:"held_out"` // samples that judge; all of them where nothing is calibrated
	Seconds    float64              `json:"seconds"`
}

// Replaced is what one replacement did.
type Replaced struct {
	From  string   `json:"from"`
	To    string   `json:"to"`
	Nodes []string `json:"nodes"` // that compute the new results
}

// Run puts other activations in the place of some, measures what that does, and writes the changed model.
func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	elapsed := j.Stopwatch()
	if len(o.Activations) == 0 {
		return nil, fault.Usagef("replace needs FROM=TO: one of %s, one of %s", strings.Join(passes.ReplaceableActivations(), ", "),
			strings.Join(passes.SubstituteActivations(), ", "))
	}
	if o.Out == "" && len(o.Data.Paths) == 0 {
		return nil, fault.Usagef("replace needs --data to measure on, -o FILE to write, or both")
	}
	if o.Platform != "" && len(o.Data.Paths) == 0 {
		return nil, fault.Usagef("--platform needs --data: both models are quantized and compared")
	}
	if o.Out != "" && j.SameFile(j.Model, o.Out) {
		return nil, fmt.Errorf("replace: %s would be replaced: name another file with -o", j.Model)
	}
	m, err := j.OpenNormal(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := open.Unquantized(m); err != nil {
		return nil, err
	}
	changed, r, err := replaced(m, o)
	if err != nil {
		return nil, err
	}
	if len(o.Data.Paths) > 0 {
		if err := whatIf(ctx, j, m, changed, o, r); err != nil {
			return nil, err
		}
	}
	if r.Model = o.Out; o.Out != "" {
		if err := j.SaveModel(changed.Model, o.Out); err != nil {
			return nil, fmt.Errorf("replace: %w", err)
		}
	}
	r.Seconds = elapsed()
	return r, nil
}

// replaced returns the model with other activations.
func replaced(m *open.Model, o Options) (*open.Model, *Result, error) {
	g, r := m.Graph.Clone(), &Result{}
	wanted, err := o.wanted(g)
	if err != nil {
		return nil, nil, err
	}
	for _, arg := range o.Activations {
		from, to, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, nil, fault.Usagef("%q: not FROM=TO", arg)
		}
		nodes, err := passes.ReplaceActivation(g, from, to, wanted)
		if err != nil {
			return nil, nil, fault.UsageError{Err: err}
		}
		if len(nodes) == 0 {
			return nil, nil, fault.Usagef("%s has no %s to replace", m.Path, from)
		}
		r.Replaced = append(r.Replaced, Replaced{from, to, nodes})
	}
	c := *m
	c.Model = &onnx.Model{}
	*c.Model = *m.WithGraph(g)
	graph.InferShapes(g)
	if c.Digest, err = c.Model.Digest(); err != nil {
		return nil, nil, &fault.FileError{Stage: "replace", File: m.Path, Err: err}
	}
	return &c, r, nil
}

// wanted says which activations are meant, by their last nodes; nil: all.
func (o *Options) wanted(g *graph.Graph) (func(graph.NodeID) bool, error) {
	if len(o.Nodes) == 0 {
		return nil, nil
	}
	nodes, err := decision.Nodes(g, strings.Join(o.Nodes, ","))
	if err != nil {
		return nil, fault.UsageError{Err: err}
	}
	in := map[graph.NodeID]bool{}
	for _, id := range nodes {
		in[id] = true
	}
	return func(id graph.NodeID) bool { return in[id] }, nil
}

// whatIf runs the model and the changed one on the same samples: in float, and, for a platform, quantized with scales from the samples that
// do not judge.
func whatIf(ctx context.Context, j *open.Job, m, changed *open.Model, o Options, r *Result) error {
	set, pre, err := j.OpenData(m.Graph, o.Data.Of(m))
	if err != nil {
		return err
	}
	c := &compare.Contest{Job: j, Options: compare.Options{Data: o.Data, Threads: o.Threads}, Set: set, Preprocessing: pre,
		Iterator: set.Iterator}
	defer c.Close()
	name := filepath.Base(m.Path)
	c.Entrants = []analysis.Entrant{{Name: name, Graph: m.Graph, Float: m.Graph}, {Name: name + " replaced", Graph: changed.Graph,
		Float: m.Graph}}
	r.Samples, r.HeldOut = set.Len(), set.Len()
	if o.Platform != "" {
		for i, of := range []*open.Model{m, changed} {
			s, err := halved(j, of, set, &pre, o)
			if err != nil {
				return err
			}
			k := analysis.Entrant{Name: c.Entrants[i].Name + ", " + o.Platform, Graph: of.Graph, Float: m.Graph}
			if k.Simulator, err = simulated(ctx, s, o.Platform); err != nil {
				return err
			}
			c.Entrants = append(c.Entrants, k)
			c.Iterator, r.HeldOut = func() exec.Iterator { return s.Half(true) }, set.Len()-s.Fit.Samples()
		}
		if r.HeldOut == 0 || r.HeldOut == r.Samples {
			return fault.Checkf("replace: of %d samples %d are held out to judge on, of which there must be some, but not all: give more samples",
				r.Samples, r.HeldOut)
		}
	}
	runs, err := c.Run(ctx)
	if err != nil {
		return err
	}
	r.Comparison = runs.Figures(c.Metric, c.Scorer)
	r.Comparison.Agreement = c.Agreement
	return nil
}

// halved is a sweep of nothing: a model, and samples of which one half is to fit scales on.
func halved(j *open.Job, m *open.Model, set *data.Set, pre *plan.Preprocess, o Options) (*sweep.Sweeping, error) {
	s := &sweep.Sweeping{Job: j, Options: sweep.Options{Data: o.Data, Threads: o.Threads, Memory: o.Memory}, Network: m, Set: set}
	var err error
	s.Config, err = calibrate.Config(j, m, pre, s.Calibration())
	return s, err
}

// simulated quantizes the model for a platform, as calibrate does it by itself, on the samples that do not judge.
func simulated(ctx context.Context, s *sweep.Sweeping, platform string) (*sim.Simulator, error) {
	t, err := s.Target(platform)
	if err != nil {
		return nil, err
	}
	if s.Fit, err = s.ObserveHalf(ctx, false); err != nil {
		return nil, err
	}
	p := sweep.Point{Platform: platform, Target: t, Observer: t.Activation.Observer, Granularity: sweep.GranularityChannel,
		Dispatcher: planning.DispatcherDecision(t, "", nil).Dispatcher, Format: sweep.FormatDefault}
	list, err := p.Decisions()
	if err != nil {
		return nil, err
	}
	d := &planning.Derivation{Graph: s.Network.Graph, Target: t, Stats: s.Fit, Own: s.Catalog.Observers, Threads: s.Options.Threads}
	out, err := d.Derive(ctx, list)
	if err != nil {
		return nil, s.Network.Named("replace", err)
	}
	var shared sim.Constants
	return d.Simulator(out, &shared)
}
