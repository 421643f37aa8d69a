package qwb

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
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/sim"
)

// ReplaceOptions are the arguments of replace.
type ReplaceOptions struct {
	Activations []string // FROM=TO, see passes.ReplaceActivation
	Nodes       []string // selectors of nodes, any of which the last node of an activation has to match; none: all
	Out         string   // file to write; empty: only measured
	Data        DataOptions
	// Platform is what both models are quantized for, with the scales that calibrate gives them, on the samples that do not judge. Empty: the
	// float models alone are compared.
	Platform string
	Threads  int
	Memory   int64
}

// ReplaceResult is what replace --json prints.
type ReplaceResult struct {
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

// replace puts other activations in the place of some, measures what that does, and writes the changed model.
func (j *job) replace(ctx context.Context, o ReplaceOptions) (*ReplaceResult, error) {
	elapsed := j.stopwatch()
	if len(o.Activations) == 0 {
		return nil, Usagef("replace needs FROM=TO: one of %s, one of %s", strings.Join(passes.ReplaceableActivations(), ", "), strings.Join(passes.SubstituteActivations(), ", "))
	}
	if o.Out == "" && len(o.Data.Paths) == 0 {
		return nil, Usagef("replace needs --data to measure on, -o FILE to write, or both")
	}
	if o.Platform != "" && len(o.Data.Paths) == 0 {
		return nil, Usagef("--platform needs --data: both models are quantized and compared")
	}
	if o.Out != "" && j.sameFile(j.Model, o.Out) {
		return nil, fmt.Errorf("replace: %s would be replaced: name another file with -o", j.Model)
	}
	m, err := j.openNormal(j.Model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := unquantized(m); err != nil {
		return nil, err
	}
	changed, r, err := replaced(m, o)
	if err != nil {
		return nil, err
	}
	if len(o.Data.Paths) > 0 {
		if err := j.whatIf(ctx, m, changed, o, r); err != nil {
			return nil, err
		}
	}
	if r.Model = o.Out; o.Out != "" {
		if err := j.saveModel(changed.Model, o.Out); err != nil {
			return nil, fmt.Errorf("replace: %w", err)
		}
	}
	r.Seconds = elapsed()
	return r, nil
}

// replaced returns the model with other activations.
func replaced(m *Model, o ReplaceOptions) (*Model, *ReplaceResult, error) {
	g, r := m.Graph.Clone(), &ReplaceResult{}
	wanted, err := o.wanted(g)
	if err != nil {
		return nil, nil, err
	}
	for _, arg := range o.Activations {
		from, to, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, nil, Usagef("%q: not FROM=TO", arg)
		}
		nodes, err := passes.ReplaceActivation(g, from, to, wanted)
		if err != nil {
			return nil, nil, UsageError{err}
		}
		if len(nodes) == 0 {
			return nil, nil, Usagef("%s has no %s to replace", m.Path, from)
		}
		r.Replaced = append(r.Replaced, Replaced{from, to, nodes})
	}
	c := *m
	c.Model = &onnx.Model{}
	*c.Model = *m.WithGraph(g)
	graph.InferShapes(g)
	if c.Digest, err = c.Model.Digest(); err != nil {
		return nil, nil, &FileError{Stage: "replace", File: m.Path, Err: err}
	}
	return &c, r, nil
}

// wanted says which activations are meant, by their last nodes; nil: all.
func (o *ReplaceOptions) wanted(g *graph.Graph) (func(graph.NodeID) bool, error) {
	if len(o.Nodes) == 0 {
		return nil, nil
	}
	nodes, err := decision.Nodes(g, strings.Join(o.Nodes, ","))
	if err != nil {
		return nil, UsageError{err}
	}
	in := map[graph.NodeID]bool{}
	for _, id := range nodes {
		in[id] = true
	}
	return func(id graph.NodeID) bool { return in[id] }, nil
}

// whatIf runs the model and the changed one on the same samples: in float, and, for a platform, quantized with scales from the samples that do
// not judge.
func (j *job) whatIf(ctx context.Context, m, changed *Model, o ReplaceOptions, r *ReplaceResult) error {
	set, pre, err := j.openData(m.Graph, o.Data.Of(m))
	if err != nil {
		return err
	}
	c := &contest{job: j, o: CompareOptions{Data: o.Data, Threads: o.Threads}, set: set, pre: pre, iterator: set.Iterator}
	defer c.close()
	name := filepath.Base(m.Path)
	c.entrants = []analysis.Entrant{{Name: name, Graph: m.Graph, Float: m.Graph}, {Name: name + " replaced", Graph: changed.Graph, Float: m.Graph}}
	r.Samples, r.HeldOut = set.Len(), set.Len()
	if o.Platform != "" {
		for i, of := range []*Model{m, changed} {
			s, err := j.halved(of, set, &pre, o)
			if err != nil {
				return err
			}
			k := analysis.Entrant{Name: c.entrants[i].Name + ", " + o.Platform, Graph: of.Graph, Float: m.Graph}
			if k.Simulator, err = s.simulated(ctx, o.Platform); err != nil {
				return err
			}
			c.entrants = append(c.entrants, k)
			c.iterator, r.HeldOut = func() exec.Iterator { return s.half(true) }, set.Len()-s.fit.Samples()
		}
		if r.HeldOut == 0 || r.HeldOut == r.Samples {
			return Checkf("replace: of %d samples %d are held out to judge on, of which there must be some, but not all: give more samples", r.Samples, r.HeldOut)
		}
	}
	runs, err := c.run(ctx)
	if err != nil {
		return err
	}
	r.Comparison = runs.Figures(c.metric, c.scorer)
	r.Comparison.Agreement = c.agreement
	return nil
}

// halved is a sweep of nothing: a model, and samples of which one half is to fit scales on.
func (j *job) halved(m *Model, set *data.Set, pre *plan.Preprocess, o ReplaceOptions) (*sweeping, error) {
	s := &sweeping{job: j, o: SweepOptions{Data: o.Data, Threads: o.Threads, Memory: o.Memory}, m: m, set: set}
	var err error
	s.cfg, err = j.observing(m, pre, s.calibration())
	return s, err
}

// simulated quantizes the model for a platform, as calibrate does it by itself, on the samples that do not judge.
func (s *sweeping) simulated(ctx context.Context, platform string) (*sim.Simulator, error) {
	t, err := s.Target(platform)
	if err != nil {
		return nil, err
	}
	if s.fit, err = s.observeHalf(ctx, false); err != nil {
		return nil, err
	}
	p := sweepPoint{platform, t, t.Activation.Observer, GranularityChannel, dispatched(t, "", nil).Dispatcher, FormatDefault}
	list, err := p.decisions()
	if err != nil {
		return nil, err
	}
	d := &derivation{Graph: s.m.Graph, Target: t, Stats: s.fit, Own: s.Catalog.Observers, Threads: s.o.Threads}
	out, err := d.Derive(ctx, list)
	if err != nil {
		return nil, s.m.Named("replace", err)
	}
	var shared sim.Constants
	return d.simulator(out, &shared)
}
