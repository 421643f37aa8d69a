package measure

import (
	"context"
	"sync"

	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/calib"
	"qwb/graph"
	"qwb/internal/plain"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// WhatIfOptions are the arguments of what-if.
type WhatIfOptions struct {
	Select string // as Set takes it
	// Properties are key=value as Set takes them, or lo=X and hi=Y for the range of one activation.
	Properties []string
	Histograms bool // of the tensors that change: histogram, grid and observers too
	// Measure runs the plan as it is and as it would be, on Data: without paths the plan's own samples, samples.AnalysisSamples of them unless
	// told otherwise.
	Measure bool
	Data    open.DataOptions
	Threads int
}

// WhatIf makes the decision in a store of its own, which is thrown away.
func WhatIf(ctx context.Context, j *open.Job, o WhatIfOptions) (*tensors.WhatIf, error) {
	was, err := planning.OpenPlan(j, j.Plan)
	if err != nil {
		return nil, err
	}
	defer was.Close()
	before := TensorsOf(j, was)
	words, err := before.Words(o.Select, o.Properties)
	if err != nil {
		return nil, err
	}
	q := *j.Project
	q.Store, q.Events = &store.Scratch{Base: j.Files()}, nil
	next := &open.Job{Project: &q, Ctx: ctx}
	if _, err := planning.Set(ctx, next, o.Select, words, o.Threads); err != nil {
		return nil, err
	}
	is, err := planning.OpenPlan(next, next.Plan)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	after := TensorsOf(next, is)
	r := &tensors.WhatIf{Plan: j.Plan, Select: o.Select, Properties: words}
	report, stale, err := lastAnalysis(j, was)
	if err != nil {
		return nil, err
	}
	if r.Estimate, err = tensors.EstimateOf(before, after, o.Select, report, stale); err != nil {
		return nil, err
	}
	said := append([]string{o.Select}, words...)
	r.Estimate.Said("qwb "+plain.Shell(append([]string{"set", j.Plan}, said...)...), plain.Shell(said...), report)
	r.Tensors = tensors.Changes(before, after, r.Estimate.Changed, o.Histograms)
	if o.Measure {
		r.Measured, err = measureBoth(ctx, j, next, o)
	}
	return r, err
}

// lastAnalysis is the one that lies beside the plan, nil where none does on which estimates can rest.
func lastAnalysis(j *open.Job, p *planning.Planned) (r *analysis.Report, stale bool, err error) {
	of, r, err := journal.KeptAnalysis(j.Project)
	if err != nil || !tensors.Serves(r) { // an estimate says what is missing
		return nil, false, nil
	}
	hash, err := p.Plan.Hash()
	return r, of != hash, err
}

// measureBoth measures the error of the outputs of the plan and of the one that next has.
func measureBoth(ctx context.Context, j *open.Job, next *open.Job, o WhatIfOptions) (*tensors.Measured, error) {
	next.Events = j.Events
	m := &tensors.Measured{}
	for i, x := range []*open.Job{j, next} {
		r, err := Analyze(ctx, x, AnalyzeOptions{Data: o.Data, Config: analysis.Config{Outputs: true, Threads: o.Threads}}, More{})
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
	j.Warnings = append(j.Warnings, next.Warnings...)
	return m, nil
}

// TensorsOf are the tensors of an open plan, for their figures. The statistics are read when they are first needed.
func TensorsOf(j *open.Job, r *planning.Planned) *tensors.Plan {
	q := *j.Project
	p := &tensors.Plan{Plan: r.Plan, Graph: r.Graph, Set: r.Set, Target: r.Target}
	p.Observed = sync.OnceValues(func() (tensors.Observed, error) {
		stats, err := planning.TunedStats(&open.Job{Project: &q}, r)
		if err != nil {
			return nil, err
		}
		return observed{stats, q.Catalog.Observers}, nil
	})
	return p
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
