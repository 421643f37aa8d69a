package qwb

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/internal/plain"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/search"
	"qwb/observers"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// View gathers what a page shows of the plan: the report r of an analysis, which may be nil, the network, its cost, the decisions, and what
// earlier commands found. stale says that r is of another state of the plan. Nothing is measured.
func (p *Project) View(ctx context.Context, r *analysis.Report, stale bool) (*reports.View, []tqc.Warning, error) {
	j := p.job().In(exec.Doing(ctx, exec.Analyzing)) // which made r: what it could do without, this can
	v, err := view(j, r, stale, false)
	return v, j.Warnings, err
}

// BriefView is View without the figures that take the integers of all weights, which take most of its time: those of saturation.
func (p *Project) BriefView(ctx context.Context, r *analysis.Report, stale bool) (*reports.View, []tqc.Warning, error) {
	j := p.job().In(ctx)
	v, err := view(j, r, stale, true)
	return v, j.Warnings, err
}

// modelTarget says which operators are one where no plan says it: what most engines, and TensorRT, compute together.
const modelTarget = "trt_int8"

// ModelView is a view of the model without a plan: its network in normal form, with the activations that engines compute together with the
// operator before them, and nothing else.
func (p *Project) ModelView(ctx context.Context) (*reports.View, []tqc.Warning, error) {
	j := p.job().In(ctx)
	m, err := j.OpenNormal(p.Model)
	if err != nil {
		return nil, j.Warnings, err
	}
	defer m.Close()
	var fused []graph.NodeID
	if t, err := j.Target(modelTarget); err == nil { // a program may have left it out
		bound, err := t.Bind(m.Graph)
		if err != nil {
			return nil, j.Warnings, m.Named("view", err)
		}
		fused = bound.Heads
	}
	topology, err := analysis.NewTopology(m.Graph, nil, fused)
	if err != nil {
		return nil, j.Warnings, err
	}
	model := filepath.Base(p.Model)
	return &reports.View{Version: j.Catalog.Version, Title: model, Model: model, Picture: reports.NewPicture(topology)}, j.Warnings, nil
}

func view(j *open.Job, r *analysis.Report, stale, brief bool) (*reports.View, error) {
	p, err := planning.OpenPlan(j, j.Plan)
	if planning.Lost(err) { // its decisions can be told all the same
		p, _, err = planning.OpenStory(j, err)
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	model := filepath.Base(p.Plan.Model.Path)
	v := &reports.View{Version: j.Catalog.Version, Title: model, Model: model, Plan: filepath.Base(j.Plan), Platform: p.Plan.Platform,
		Report: r, Stale: stale, Missing: map[string]string{}}
	if v.Report == nil {
		v.Report = &analysis.Report{Model: model, Plan: v.Plan, Platform: v.Platform, Warnings: p.Plan.Warnings}
		v.Missing["report"] = "qwb analyze " + plain.Shell(j.Plan)
	}
	v.Verdict = verdict(j, v, r)
	if p.Plan.Options == nil {
		if v.Decisions, err = planning.LogOf(j, p, plan.Version); err != nil {
			return nil, err
		}
	}
	if p.Set == nil {
		return v, nil
	}
	if v.Report.Settings == nil || stale {
		own := *v.Report
		if own.Settings, err = analysis.Settings(p.Graph, p.Set); err != nil {
			return nil, err
		}
		v.Report = &own
	}
	v.Whys = map[string]string{}
	for _, s := range v.Report.Settings {
		v.Whys[s.Why] = dispatch.Words(s.Why)
	}
	topology, err := analysis.NewTopology(p.Graph, p.Set, nil)
	if err != nil {
		return nil, err
	}
	v.Picture = reports.NewPicture(topology)
	v.Nodes = nodeFigures(p, r, brief)
	if !brief && r != nil && len(r.Layerwise) > 0 && r.Statistical == nil { // histograms were not asked for, but are there
		if stats, err := planning.TunedStats(j, p); err == nil {
			if v.Calibrated, err = analysis.Calibrated(p.Graph, func(name string) *observers.State {
				if t := stats.Tensor(name); t != nil {
					return t.State
				}
				return nil
			}); err != nil {
				return nil, err
			}
		}
	}
	return v, weigh(p, v.Verdict)
}

// weigh adds what the plan costs, and the float network.
func weigh(p *Planned, v *reports.Verdict) error {
	cost, err := analysis.CostOf(p.Graph, p.Set, p.Target, nil)
	if err != nil {
		return err
	}
	all := int64(0)
	for _, n := range cost.MACs {
		all += n
	}
	for _, f := range slices.Sorted(maps.Keys(cost.MACs)) {
		v.Work = append(v.Work, reports.Work{Format: f, MACs: cost.MACs[f], Share: float64(cost.MACs[f]) / float64(all)})
	}
	arrange.Stable(v.Work, func(a, b reports.Work) int { return cmp.Compare(b.MACs, a.MACs) })
	b := &reports.Bytes{Quantized: cost.TotalBytes()}
	seen := map[graph.ValueID]bool{}
	order, err := p.Graph.Order()
	if err != nil {
		return err
	}
	for _, id := range order {
		for _, x := range p.Graph.Node(id).Inputs {
			if c := p.Graph.Const(x); c != nil && c.DType == tensor.Float32 && !seen[x] {
				seen[x] = true
				b.Float += 4 * int64(c.Len())
			}
		}
	}
	v.Bytes = b
	return nil
}

// nodeFigures lists what the report does not have: how far advice helps each operator, and sums of products that may leave 16 bits,
// unless it is to be brief.
func nodeFigures(p *Planned, r *analysis.Report, brief bool) []reports.NodeFigures {
	at, list := map[string]int{}, []reports.NodeFigures{}
	of := func(node string) *reports.NodeFigures {
		i, ok := at[node]
		if !ok {
			i = len(list)
			at[node], list = i, append(list, reports.NodeFigures{Node: node})
		}
		return &list[i]
	}
	if r != nil {
		for i := range r.Advice {
			a := &r.Advice[i]
			if a.Before == nil || a.Predicted == nil {
				continue
			}
			gain := *a.Before - *a.Predicted
			for _, node := range a.Nodes {
				if f := of(node); f.Gain == nil || gain > *f.Gain {
					f.Gain = &gain
				}
			}
		}
	}
	profile, err := p.ProfileNamed("")
	if err != nil || brief {
		return list
	}
	program, err := p.Partial(profile)
	if err != nil { // what has no integers has no sums that may leave them
		return list
	}
	for i := range program.Safety {
		s := &program.Safety[i]
		pairs, risk := int64(0), int64(0)
		for _, n := range s.AtRisk {
			pairs, risk = pairs+int64(s.Pairs), risk+int64(n)
		}
		if node := program.Steps[s.Step].Node; pairs > 0 && node != graph.NoNode {
			share := float64(risk) / float64(pairs)
			of(p.Graph.Node(node).Name).Saturation = &share
		}
	}
	return list
}

// verdict sums up what the report and earlier commands say of the plan as it is.
func verdict(j *open.Job, v *reports.View, r *analysis.Report) *reports.Verdict {
	out := &reports.Verdict{Work: []reports.Work{}}
	if r != nil && len(r.Outputs) > 0 {
		o := r.Judged()
		x := o.Judged()
		out.NSR, out.Output, out.Centred = &x, o.Output, o.Centred != nil
		out.Samples = r.Samples
		if out.Mismatches = o.Integer; !o.Integer {
			out.Level = reports.LevelOf(out.NSR.NSR)
		}
	}
	for _, o := range journal.Known(j) { // the last of each kind counts
		var f struct {
			Mode, Profile, Metric     string
			N                         int
			Percent                   bool
			Top1, Flips               *int
			FloatTop1                 *int `json:"float_top1"`
			Value, Float, Drop, Upper *float64
			DropError                 *float64 `json:"drop_error"`
			HeldOut                   *float64 `json:"held_out"`
			HeldOutError              *float64 `json:"held_out_error"`
			Budget                    *float64
			Claimed                   *bool
			Search                    *reports.Search
			Shift                     int `json:"label_shift"`
			ShiftRight                int `json:"label_shift_right"`
		}
		if json.Unmarshal(o.Figures, &f) != nil {
			continue
		}
		if f.Search != nil {
			v.Search = f.Search
		}
		switch {
		case (o.Command == "eval" || o.Command == "compare") && f.N > 0 && f.Mode != "fp32":
			out.Scored, out.Profile, out.Flips, out.Drop, out.DropError = f.N, f.Profile, f.Flips, f.Drop, f.DropError
			out.Metric, out.Percent, out.Float, out.Quantized = f.Metric, f.Percent, f.Float, f.Value
			if f.Top1 != nil {
				out.Metric, out.Percent, out.Quantized = "top-1", true, ratio(f.Top1, f.N)
				out.Float = ratio(f.FloatTop1, f.N)
			}
			out.Shift, out.ShiftRight = f.Shift, f.ShiftRight
		case o.Command == "dispatch" && f.Budget != nil:
			out.Budget = &reports.Budget{Metric: search.MetricTitle(f.Metric), Limit: *f.Budget, Value: f.HeldOut, Error: f.HeldOutError,
				Met: f.Claimed}
		}
	}
	if out.Metric == "" {
		v.Missing["metric"] = "qwb eval " + plain.Shell(j.Plan) + " --data FOLDER --labels FILE"
	}
	if v.Search == nil {
		v.Missing["search"] = "qwb dispatch " + plain.Shell(j.Plan) + " --auto --max-nsr 0.01"
	}
	return out
}

func ratio(n *int, of int) *float64 {
	if n == nil {
		return nil
	}
	x := float64(*n) / float64(of)
	return &x
}
