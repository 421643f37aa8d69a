package qwb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// View gathers what a page shows of the plan: the report r of an analysis, which may be nil, the network, its cost, the decisions, and what
// earlier commands found. stale says that r is of another state of the plan. Nothing is measured.
func (p *Project) View(ctx context.Context, r *analysis.Report, stale bool) (*reports.View, []tqc.Warning, error) {
	j := p.job().in(ctx)
	v, err := j.view(ctx, r, stale, false)
	return v, j.warnings, err
}

// BriefView is View without the figures that take the integers of all weights, which take most of its time: those of saturation.
func (p *Project) BriefView(ctx context.Context, r *analysis.Report, stale bool) (*reports.View, []tqc.Warning, error) {
	j := p.job().in(ctx)
	v, err := j.view(ctx, r, stale, true)
	return v, j.warnings, err
}

func (j *job) view(ctx context.Context, r *analysis.Report, stale, brief bool) (*reports.View, error) {
	p, err := j.openPlan(j.Plan)
	if lost(err) { // its decisions can be told all the same
		p, _, err = j.openStory(err)
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	model := filepath.Base(p.Plan.Model.Path)
	v := &reports.View{Version: j.Catalog.Version, Title: model, Model: model, Plan: filepath.Base(j.Plan), Platform: p.Plan.Platform, Report: r, Stale: stale, Missing: map[string]string{}}
	if v.Report == nil {
		v.Report = &analysis.Report{Model: model, Plan: v.Plan, Platform: v.Platform, Warnings: p.Plan.Warnings}
		v.Missing["report"] = "qwb analyze " + plain.Shell(j.Plan)
	}
	v.Verdict = j.verdict(v, r)
	if p.Plan.Options == nil {
		if v.Decisions, err = j.logOf(p, plan.Version); err != nil {
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
	topology, err := analysis.NewTopology(p.Graph, p.Set)
	if err != nil {
		return nil, err
	}
	v.Picture = reports.NewPicture(topology)
	v.Nodes = nodeFigures(p, r, brief)
	return v, j.weigh(p, v.Verdict)
}

// weigh adds what the plan costs, and the float network.
func (j *job) weigh(p *Planned, v *reports.Verdict) error {
	cost, err := analysis.CostOf(p.Graph, p.Set, nil)
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
	slices.SortStableFunc(v.Work, func(a, b reports.Work) int { return cmp.Compare(b.MACs, a.MACs) })
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
func (j *job) verdict(v *reports.View, r *analysis.Report) *reports.Verdict {
	out := &reports.Verdict{Work: []reports.Work{}}
	if r != nil && len(r.Outputs) > 0 {
		o := r.Judged()
		x := o.Judged()
		out.NSR, out.Output, out.Centred = &x, o.Output, o.Centred != nil
		out.Samples, out.Level = r.Samples, reports.LevelOf(out.NSR.NSR)
	}
	for _, o := range j.known() { // the last of each kind counts
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
		}
		if json.Unmarshal(o.Figures, &f) != nil {
			continue
		}
		if f.Search != nil {
			v.Search = f.Search
		}
		switch {
		case o.Command == "eval" && f.N > 0 && f.Mode != "fp32":
			out.Scored, out.Profile, out.Flips, out.Drop, out.DropError = f.N, f.Profile, f.Flips, f.Drop, f.DropError
			out.Metric, out.Percent, out.Float, out.Quantized = f.Metric, f.Percent, f.Float, f.Value
			if f.Top1 != nil {
				out.Metric, out.Percent, out.Quantized = "top-1", true, ratio(f.Top1, f.N)
				out.Float = ratio(f.FloatTop1, f.N)
			}
		case o.Command == "dispatch" && f.Budget != nil:
			out.Budget = &reports.Budget{Metric: metricTitle(f.Metric), Limit: *f.Budget, Value: f.HeldOut, Error: f.HeldOutError, Met: f.Claimed}
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

// Search is what the search found, as pages show it; nil where nothing was searched.
func (r *DispatchResult) Search() *reports.Search {
	if r.Found == nil || len(r.Points) == 0 {
		return nil
	}
	budget := r.Goal.Budget
	s := &reports.Search{Command: "dispatch", Metric: metricTitle(r.Goal.Metric), Cost: "MACs in FP32", Budget: &budget}
	for i := range r.Points {
		x := &r.Points[i]
		p := reports.SearchPoint{Label: plain.Count(len(x.FP32), "operator") + " in FP32", Metric: x.Metric, Error: x.Error, Cost: float64(x.MACs), Pareto: x.Pareto,
			Chosen: slices.Equal(x.FP32, r.FP32), FP32: x.FP32}
		if x.Formats != nil {
			s.Cost, p.Cost, p.Label = "cost", x.Cost, formatCounts(x.Formats)
		} else if len(x.FP32) > 0 {
			p.Command = fmt.Sprintf("qwb dispatch %s --fp32 %s", plain.Shell(r.Plan), plain.Shell(strings.Join(x.FP32, ",")))
		}
		s.Points = append(s.Points, p)
	}
	return s
}

// metricTitle is the name of a budget's metric for people.
func metricTitle(name string) string {
	switch name {
	case "nsr":
		return "plain NSR"
	case "top1", "drop":
		return "drop of top-1, pp"
	}
	return name
}

func formatCounts(n map[string]int) string {
	var words []string
	for _, f := range slices.Sorted(maps.Keys(n)) {
		words = append(words, fmt.Sprintf("%d %s", n[f], f))
	}
	return strings.Join(words, ", ")
}

// Search is what the sweep found, as pages show it.
func (r *SweepResult) Search() *reports.Search {
	s := &reports.Search{Command: "sweep", Metric: "NSR", Cost: "bytes"}
	for i := range r.Rows {
		x := &r.Rows[i]
		p := reports.SearchPoint{Label: fmt.Sprintf("%s, %s, per %s", x.Platform, x.Observer, x.Granularity), Metric: x.NSR.NSR, Error: x.NSRError, Chosen: x.Chosen, Tied: x.Rank == r.Rows[0].Rank}
		if x.Format != FormatDefault && x.Format != "" {
			p.Label += ", " + x.Format
		}
		if x.Cost != nil {
			p.Cost = float64(x.Cost.TotalBytes())
		}
		p.Pareto = true
		for k := range r.Rows {
			if y := &r.Rows[k]; y.Cost != nil && float64(y.Cost.TotalBytes()) <= p.Cost && y.NSR.NSR < p.Metric {
				p.Pareto = false
			}
		}
		s.Points = append(s.Points, p)
	}
	return s
}

// mostPoints is how many points of a search an outcome keeps.
const mostPoints = 12

// withSearch adds to figures what pages draw of a search. Names of operators are left out: an outcome is a line.
func withSearch[R any](figures func(*R) json.RawMessage, search func(*R) *reports.Search) func(*R) json.RawMessage {
	return func(r *R) json.RawMessage {
		b := figures(r)
		s := search(r)
		if s == nil || len(b) < 3 {
			return b
		}
		brief := *s
		brief.Points = slices.Clone(s.Points[:min(len(s.Points), mostPoints)])
		for i := range brief.Points {
			brief.Points[i].FP32, brief.Points[i].Command = nil, ""
			if math.IsNaN(brief.Points[i].Metric) || math.IsInf(brief.Points[i].Metric, 0) {
				return b
			}
		}
		return json.RawMessage(string(b[:len(b)-1]) + `,"search":` + string(object(&brief)) + "}")
	}
}
