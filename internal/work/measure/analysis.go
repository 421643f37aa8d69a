package measure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/plain"
	"qwb/internal/shard"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
	"qwb/observers"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// AnalyzeOptions are the arguments of analyze.
type AnalyzeOptions struct {
	Data    open.DataOptions
	Explain bool // what the loss of the integers is made of
	// Sensitivity estimates the rows of Layerwise from gradients, also with every operator that can in each of Formats (those of
	// search.Options), and there with Layerwise what is estimated.
	Sensitivity bool
	Formats     []string
	Peers       bool     // with Statistical: the ranges that other tools would choose too (observers.Peers)
	Try         bool     // with Layerwise: measure what each cure does
	Trials      int      // of how many cures at most, 0 for 12; the others keep their predictions
	Causes      []string // with Try: only what is advised for these causes; empty: all
	analysis.Config
}

// More is what an analysis has of packages above this one; each may be nil.
type More struct {
	// Advice adds to a report whose layers have Weight and Activation.
	Advice func(context.Context, *planning.Planned, *data.Set, *analysis.Report, AnalyzeOptions) error
	// Formats derives the plans of AnalyzeOptions.Formats.
	Formats func(context.Context, *planning.Planned, *sim.Simulator, AnalyzeOptions) ([]InFormat, error)
}

// Analyze measures the error of the plan's simulation.
func Analyze(ctx context.Context, j *open.Job, o AnalyzeOptions, more More) (*analysis.Report, error) {
	elapsed := j.Stopwatch()
	p, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	set, err := planning.PlanData(j, p, o.Data, samples.AnalysisSamples)
	if err != nil {
		return nil, err
	}
	q, err := p.Simulator()
	if err != nil {
		return nil, err
	}
	if o.Statistical {
		stats, err := planning.TunedStats(j, p)
		if err != nil {
			j.Warn("the report has no thresholds: %v", err)
		} else {
			var more []*observers.Method
			if o.Peers {
				more = observers.Peers()
			}
			o.Thresholds = thresholds(p.Graph, p.Set, stats, more)
		}
	}
	if o.Parts, err = samples.Slices(j, o.Data.Slices, p.Reference); err != nil {
		return nil, err
	}
	tick, finish := j.Progress("analyze", set.Len())
	o.Progress = tick
	split := o.Split
	o.Split = o.Split || o.Layerwise // advice is about it
	if o.Explain && shard.In(ctx) != nil {
		return nil, fault.Usagef("analyze --explain is not done in parts: it takes runs of its own")
	}
	it, deal := samples.Dealt(ctx, set, o.Layerwise)
	o.Deal, o.Own = deal, func() exec.Iterator { return it }
	r, err := analysis.Analyze(ctx, p.Reference, q, set.Iterator(), o.Config)
	finish()
	if err == nil || errors.Is(err, shard.ErrDone) {
		err = cmp.Or(runsOfTheirOwn(ctx, j, p, q, set, o, more, r), err)
	}
	if err != nil {
		return nil, err
	}
	if o.Layerwise && more.Advice != nil {
		if err := more.Advice(ctx, p, set, r, o); err != nil {
			return nil, err
		}
	}
	if w, ok := planning.BadPlan(Floor(r), worstPart(r), integerOutputs(r), plain.Count(r.Samples, "sample"),
		planning.WhatHelps(j, r, "The report", o.Data)); ok {
		r.Warnings = append(r.Warnings, w)
	}
	if !split {
		for i := range r.Layerwise {
			r.Layerwise[i].Weight, r.Layerwise[i].Activation, r.Layerwise[i].Read = nil, nil, nil
		}
	}
	if r.PlanSHA256, err = p.Plan.Hash(); err != nil {
		return nil, err
	}
	cost, err := analysis.CostOf(p.Graph, p.Set, p.Target, nil)
	if err != nil {
		return nil, err
	}
	r.Cost = &cost
	r.Data = fmt.Sprintf("%q %d %q", o.Data.Paths, o.Data.Seed, o.Data.Preprocess)
	r.Model, r.Plan, r.Platform = filepath.Base(p.Path), filepath.Base(j.Plan), p.Plan.Platform
	j.WarnNew(p.Plan, r.Warnings)
	r.Warnings = append(slices.Clip(p.Plan.Warnings), r.Warnings...)
	r.Seconds, r.PeakRSS = elapsed(), j.PeakMemory()
	return r, nil
}

// runsOfTheirOwn adds to a report, which is nil in a part of a run, what does not come of the passes of the analysis.
func runsOfTheirOwn(ctx context.Context, j *open.Job, p *planning.Planned, q *sim.Simulator, set *data.Set, o AnalyzeOptions, more More,
	r *analysis.Report) error {
	if o.Sensitivity {
		s := &sensitivities{Job: j, planned: p, set: set, o: o}
		table, err := s.run(ctx, q, more)
		if err != nil {
			return err
		}
		table.Compare(r.Layerwise)
		r.Sensitivity = table
	}
	if o.Explain {
		explained, err := explain(ctx, j, p, set, o)
		if err != nil {
			return err
		}
		r.Explained = explained
	}
	return nil
}

// explain splits the loss of the plan's integer program, under the platform's profile.
func explain(ctx context.Context, j *open.Job, p *planning.Planned, set *data.Set, o AnalyzeOptions) (*analysis.Explanation, error) {
	profile, err := p.ProfileNamed("")
	if err != nil {
		return nil, err
	}
	lowered, err := p.Partial(profile)
	if err != nil {
		return nil, err
	}
	backend, err := j.Catalog.Backend("")
	if err != nil {
		return nil, err
	}
	tick, finish := j.Progress("explain", set.Len())
	defer finish()
	elapsed := j.Stopwatch()
	r, err := analysis.Explain(ctx, func() exec.Iterator {
		return set.Iterator()
	}, analysis.ExplainConfig{Set: p.Set, Program: lowered, Reference: p.Reference, Parts: o.Parts, Backend: backend,
		Threads: o.Threads, Progress: tick})
	if err != nil {
		return nil, err
	}
	r.Seconds = elapsed()
	return r, nil
}

// thresholds tells for a tensor which range every calibration method chooses under its policy, from the statistics.
func thresholds(g *graph.Graph, set *tqc.Set, stats *calib.Stats, more []*observers.Method) func(graph.ValueID) []analysis.Threshold {
	slots := map[graph.ValueID]tqc.SlotID{}
	for id := range tqc.SlotID(set.NumSlots()) {
		s := set.Slot(id)
		if _, seen := slots[s.Value]; !seen && s.State().Quantizes() && !s.Weight {
			slots[s.Value] = id
		}
	}
	return func(v graph.ValueID) []analysis.Threshold {
		id, ok := slots[v]
		t := stats.Tensor(g.Value(v).Name)
		if !ok || t == nil {
			return nil
		}
		root := set.Slot(set.Root(id))
		used := root.Observer
		if used == tqc.ObserverNone {
			used = root.Config.Observer
		}
		var out []analysis.Threshold
		for _, th := range calib.Thresholds(t.State, set.Slot(id).Config, more...) {
			out = append(out, analysis.Threshold{Method: string(th.Method), Lo: th.Range.Lo, Hi: th.Range.Hi, Used: th.Method == used})
		}
		return out
	}
}

// integerOutputs says that no output is float: errors are shares of elements that differ.
func integerOutputs(r *analysis.Report) bool { o := r.Judged(); return o != nil && o.Integer }

// worstPart is the part of an output that the verdict is of, empty where it is of a whole one.
func worstPart(r *analysis.Report) string {
	if o := r.Judged(); o != nil {
		if s := o.Worst(); s != nil {
			return s.Name
		}
	}
	return ""
}

// Floor is the NSR of the output with the largest error: of class scores without their mean, where there are some.
func Floor(r *analysis.Report) (worst analysis.Estimate) {
	worst.Error = math.Inf(1)
	o := r.Judged()
	if o == nil || o.Judged().NSR <= 0 || o.NoSignal {
		return worst
	}
	x := o.Judged()
	if worst = (analysis.Estimate{Mean: x.NSR, Error: math.Inf(1), N: r.Samples}); x.NSRError != nil {
		worst.Error = *x.NSRError
	}
	return worst
}

// AnalysisFigures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var AnalysisFigures = func(r *analysis.Report) json.RawMessage {
	f := struct {
		Samples  int      `json:"samples"`
		Output   string   `json:"output,omitempty"`  // the worst
		Centred  bool     `json:"centred,omitempty"` // the figures are centred NSRs
		NSR      *float64 `json:"nsr,omitempty"`
		NSRError *float64 `json:"nsr_error,omitempty"`
		Worst    string   `json:"worst_layer,omitempty"` // the operator that costs most by itself, with its part
		Layer    *float64 `json:"layer_nsr,omitempty"`
		Integer  *float64 `json:"integer,omitempty"` // share of the multiply-accumulates on integers, of the plan
		Bytes    int64    `json:"bytes,omitempty"`   // of its constants
	}{Samples: r.Samples}
	if r.Cost != nil {
		share := r.Cost.Integer()
		f.Integer, f.Bytes = &share, r.Cost.TotalBytes()
	}
	if o := r.Judged(); o != nil {
		x := o.Judged()
		f.Output, f.Centred, f.NSR, f.NSRError = o.Output, o.Centred != nil, &x.NSR, x.NSRError
	}
	for i := range r.Layerwise {
		if x := r.Layerwise[i].Judged().NSR; f.Layer == nil || x > *f.Layer {
			f.Worst, f.Layer = r.Layerwise[i].Node, &x
		}
	}
	return journal.Object(f)
}
