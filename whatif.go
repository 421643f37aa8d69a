package qwb

import (
	"context"
	"sync"

	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/calib"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// WhatIfOptions are the arguments of what-if.
type WhatIfOptions struct {
	Select string // as Set takes it
	// Properties are key=value as Set takes them, or lo=X and hi=Y for the range of one activation.
	Properties []string
	Histograms bool // of the tensors that change: histogram, grid and observers too
	// Measure runs the plan as it is and as it would be, on Data: without paths the plan's own samples, AnalysisSamples of them unless told
	// otherwise.
	Measure bool
	Data    DataOptions
	Threads int
}

// prospect makes the decision in a store of its own, which is thrown away.
func (j *job) prospect(ctx context.Context, o WhatIfOptions) (*tensors.WhatIf, error) {
	was, err := j.openPlan(j.Plan)
	if err != nil {
		return nil, err
	}
	defer was.Close()
	before := j.tensorsOf(was)
	words, err := before.Words(o.Select, o.Properties)
	if err != nil {
		return nil, err
	}
	q := *j.project
	q.Store, q.Events = &scratch{base: j.store()}, nil
	next := &job{project: &q, ctx: ctx}
	if _, err := next.set(ctx, o.Select, words, o.Threads); err != nil {
		return nil, err
	}
	is, err := next.openPlan(next.Plan)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	after := next.tensorsOf(is)
	r := &tensors.WhatIf{Plan: j.Plan, Select: o.Select, Properties: words}
	report, stale, err := j.lastAnalysis(was)
	if err != nil {
		return nil, err
	}
	if r.Estimate, err = tensors.EstimateOf(before, after, o.Select, report, stale); err != nil {
		return nil, err
	}
	r.Estimate.Command = "qwb " + plain.Shell(append([]string{"set", j.Plan, o.Select}, words...)...)
	r.Tensors = tensors.Changes(before, after, r.Estimate.Changed, o.Histograms)
	if o.Measure {
		r.Measured, err = j.measureBoth(ctx, next, o)
	}
	return r, err
}

// lastAnalysis is the one that lies beside the plan, nil where none does on which estimates can rest.
func (j *job) lastAnalysis(p *Planned) (r *analysis.Report, stale bool, err error) {
	of, r, err := j.KeptAnalysis()
	if err != nil || !tensors.Serves(r) { // an estimate says what is missing
		return nil, false, nil
	}
	hash, err := p.Plan.Hash()
	return r, of != hash, err
}

// measureBoth measures the error of the outputs of the plan and of the one that next has.
func (j *job) measureBoth(ctx context.Context, next *job, o WhatIfOptions) (*tensors.Measured, error) {
	next.Events = j.Events
	m := &tensors.Measured{}
	for i, x := range []*job{j, next} {
		r, err := x.measure(ctx, AnalyzeOptions{Data: o.Data, Config: analysis.Config{Outputs: true, Threads: o.Threads}}, nil)
		if err != nil {
			return nil, err
		}
		out := r.Judged()
		if i == 0 {
			m.Before = out.Judged()
		} else {
			m.After, m.Output, m.Mismatches = out.Judged(), out.Output, out.Integer
		}
		m.Samples, m.Seconds = r.Samples, m.Seconds+r.Seconds
	}
	j.warnings = append(j.warnings, next.warnings...)
	return m, nil
}

// tensorsOf are the tensors of an open plan, for their figures. The statistics are read when they are first needed.
func (j *job) tensorsOf(r *Planned) *tensors.Plan {
	q := *j.project
	return &tensors.Plan{Plan: r.Plan, Graph: r.Graph, Set: r.Set, Observed: sync.OnceValues(func() (tensors.Observed, error) {
		stats, err := (&job{project: &q}).tunedStats(r)
		if err != nil {
			return nil, err
		}
		return observed{stats, q.Catalog.Observers}, nil
	})}
}

// observed is tensors.Observed of statistics, with the observers that a program brings along.
type observed struct {
	*calib.Stats
	own []*observers.Method
}

func (o observed) State(name string) *observers.State {
	if t := o.Tensor(name); t != nil {
		return t.State
	}
	return nil
}

func (o observed) Shared(g *graph.Graph, set *tqc.Set, root tqc.SlotID) (*observers.State, error) {
	return calib.SharedState(g, set, o.Stats, root)
}

func (o observed) Try(st *observers.State, c tqc.Config, method tqc.Observer) (tqc.Params, error) {
	_, p, err := calib.Try(st, c, method, o.own...)
	return p, err
}

func (o observed) Methods() []tqc.Observer {
	var list []tqc.Observer
	for _, m := range append(observers.All[:len(observers.All):len(observers.All)], o.own...) {
		list = append(list, m.Name)
	}
	return list
}
