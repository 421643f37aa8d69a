package calibrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"qwb/internal/work/fault"
	"qwb/internal/work/measure"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/recipe"
	"qwb/internal/work/store"
	"qwb/internal/work/tune"
	"qwb/quantizer/decision"
	"qwb/reports"
)

// GateResult is what a gate of a recipe measured.
type GateResult struct {
	Recipe  string   `json:"recipe"`
	Line    int      `json:"line"`
	Metric  string   `json:"metric"` // nsr, cosine, drop
	Limit   float64  `json:"limit"`
	Value   float64  `json:"value"`
	Error   *float64 `json:"error"` // standard error of Value; null where there is none
	Samples int      `json:"samples"`
	Held    bool     `json:"held"`
	Note    string   `json:"note,omitempty"`
}

// String is one line about a gate.
func (g *GateResult) String() string {
	word := "held"
	if !g.Held {
		word = "missed"
	}
	text := fmt.Sprintf("%s:%d: gate %s: %s %s, limit %g, %d samples", g.Recipe, g.Line, word, g.Metric, reports.WithError(g.Value, g.Error),
		g.Limit, g.Samples)
	if g.Note != "" {
		text += " (" + g.Note + ")"
	}
	return text
}

// calibrateAll calibrates and carries out what the recipes say to do then. Plan and tuned values are written when all of it is done and
// every gate holds, or not at all.
func calibrateAll(ctx context.Context, j *open.Job, o Options, sources []recipe.Source) (*Result, error) {
	elapsed := j.Stopwatch()
	s := &store.Scratch{Base: j.Files()}
	p := *j.Project
	p.Store = s
	inner := &open.Job{Project: &p, Ctx: ctx}
	res, steps, err := With(ctx, inner, o, Given{}, sources)
	if err == nil {
		err = follow(ctx, inner, o, steps, res)
	}
	j.Warnings = append(j.Warnings, inner.Warnings...)
	named := *j.Project
	named.Plan, named.Stats = inner.Plan, inner.Stats
	j.Project = &named
	if err == nil {
		err = adopt(j, s)
	} else {
		keepScratch(j, s)
	}
	if res != nil {
		res.Seconds, res.PeakRSS = elapsed(), j.PeakMemory()
		if err != nil && !errors.As(err, new(fault.CheckError)) {
			res = nil
		}
	}
	return res, err
}

// keepScratch keeps the statistics of a calibration that failed, which took long, where they replace none of a plan.
func keepScratch(j *open.Job, s *store.Scratch) {
	for _, name := range []string{j.StatsFile(), planning.BesideFile(j.StatsFile())} {
		b := s.File(name)
		if b == nil {
			continue
		}
		if _, err := store.ReadFile(s.Base, name, 1); name == j.StatsFile() && !store.Missing(err) {
			continue
		}
		if _, err := store.WriteFile(s.Base, name, store.BytesOf(b)); err == nil {
			j.Note("%s keeps the statistics", name)
		}
	}
}

// adopt writes what a scratch holds: the plan over the one that is there, with all other files.
func adopt(j *open.Job, s *store.Scratch) error {
	more := func(stage store.Stage) error {
		for _, name := range s.Names() {
			if name == filepath.Clean(j.Plan) || name == filepath.Clean(j.Plan+".bak") {
				continue
			}
			if err := stage.Add(name, store.BytesOf(s.File(name))); err != nil {
				return err
			}
		}
		return nil
	}
	p, _, err := (&open.Job{Project: &open.Project{Store: s}}).ReadPlan(j.Plan)
	if err != nil {
		return err
	}
	if _, err := planning.WritePlan(j, j.Plan, p, "", more); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	return nil
}

// follow carries out the steps behind the first decisions. Those that the plan has already, in this order, are not done again, nor are the
// gates before the last of them, which held then.
func follow(ctx context.Context, j *open.Job, o Options, r *recipe.Steps, res *Result) error {
	p, _, err := j.ReadPlan(j.Plan)
	if err != nil {
		return err
	}
	done, pos := 0, 0
	for i := range p.Decisions { // behind the last calibration
		if d := &p.Decisions[i]; d.By == decision.ByCalibrate && len(d.Select) == 0 {
			pos = i + 2 + len(r.First)
		}
	}
	for i := range r.Rest {
		s := &r.Rest[i]
		if s.Gate != nil {
			continue
		}
		at := s.MadeIn(p.Decisions, pos)
		if at < 0 {
			break
		}
		done, pos = i+1, at+1
	}
	for i := done; i < len(r.Rest); {
		s := &r.Rest[i]
		switch {
		case s.Gate != nil:
			i++
			err = gate(ctx, j, o, s, res)
		case s.Tune != nil:
			i++
			err = tuneBy(ctx, j, o, s, res)
		default:
			from := i
			for i < len(r.Rest) && r.Rest[i].Gate == nil && r.Rest[i].Tune == nil {
				i++
			}
			err = decideBy(ctx, j, o, r, r.Rest[from:i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decideBy(ctx context.Context, j *open.Job, o Options, r *recipe.Steps, steps []recipe.Step) error {
	c, err := planning.NewChange(ctx, j, o.Threads)
	if err != nil {
		return err
	}
	defer c.Close()
	first := len(c.Planned.Plan.Decisions)
	list := slices.Concat(c.Planned.Plan.Decisions, recipe.Decisions(steps))
	out, err := c.Decide(ctx, list[first:]...)
	if err != nil {
		return r.At(list, err)
	}
	recipe.WarnIdle(j, r, list, first, out)
	return nil
}

func tuneBy(ctx context.Context, j *open.Job, o Options, s *recipe.Step, res *Result) error {
	opts, err := s.TuneOptions()
	if err != nil {
		return err
	}
	opts.Threads, opts.Memory = o.Threads, o.Memory
	t, err := tune.Run(ctx, j, opts, true)
	if err != nil {
		return s.Fail("tune", err)
	}
	res.Tuned = append(res.Tuned, t)
	return nil
}

// gate measures the plan and holds it to the limits of a step.
func gate(ctx context.Context, j *open.Job, o Options, s *recipe.Step, res *Result) error {
	g, before := s.Gate, len(res.Gates)
	data := open.DataOptions{Samples: g.Samples, Threads: o.Threads, Memory: o.Data.Memory}
	beside := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(s.Recipe.File), name)
	}
	for _, name := range g.Data {
		data.Paths = append(data.Paths, beside(name))
	}
	if g.Labels != "" {
		data.Labels = beside(g.Labels)
	}
	if g.MaxNSR != nil || g.MinCosine != nil {
		a := measure.AnalyzeOptions{Data: data}
		a.Data.Labels = ""
		a.Outputs, a.Threads, a.Memory = true, o.Threads, o.Memory
		r, err := measure.Analyze(ctx, j, a, measure.More{})
		if err != nil {
			return s.Fail("gate", err)
		}
		for _, limit := range []*float64{g.MaxNSR, g.MinCosine} {
			if limit == nil {
				continue
			}
			one := GateResult{Metric: "nsr", Limit: *limit, Samples: r.Samples}
			for i := range r.Outputs { // the worst output counts
				out := &r.Outputs[i]
				if limit == g.MinCosine {
					if one.Metric = "cosine"; i == 0 || out.Cosine < one.Value {
						one.Value = out.Cosine
					}
				} else if nsr := out.Judged(); i == 0 || nsr.NSR > one.Value {
					one.Value, one.Error = nsr.NSR, nsr.NSRError
				}
			}
			if len(g.Data) == 0 {
				one.Note = "measured on the samples that the plan was calibrated on"
			}
			judge(s, res, one)
		}
	}
	if g.MaxDrop != nil {
		r, err := measure.Eval(ctx, j, measure.EvalOptions{Mode: "sim", Data: data, Threads: o.Threads})
		if err != nil {
			return s.Fail("gate", err)
		}
		one := GateResult{Metric: "drop", Limit: *g.MaxDrop, Value: r.Drop, Samples: r.N}
		if r.DropError > 0 {
			one.Error = &r.DropError
		}
		judge(s, res, one)
	}
	for _, one := range res.Gates[before:] {
		if !one.Held {
			return fault.Checkf("recipe: %s; %s is unchanged", one, j.Plan)
		}
		j.Note("%s", one)
	}
	return nil
}

// gateErrors is by how many standard errors a limit may be missed: one-sided, 95 %.
const gateErrors = 1.645

// judge holds a figure to its limit and adds it to the result.
func judge(s *recipe.Step, res *Result, g GateResult) {
	g.Recipe, g.Line = s.Recipe.File, s.Line
	over := g.Value - g.Limit
	if g.Metric == "cosine" {
		over = -over
	}
	g.Held = over <= 0
	if within := g.Error != nil && over <= gateErrors**g.Error; !g.Held && within && !s.Gate.Strict {
		g.Held, g.Note = true, strings.TrimPrefix(g.Note+"; over the limit by less than the measurement can tell", "; ")
	}
	res.Gates = append(res.Gates, &g)
}
