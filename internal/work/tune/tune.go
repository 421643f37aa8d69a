// Package tune changes constants and scales of a plan so that it computes more nearly what the float network does.
package tune

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"qwb/analysis"
	"qwb/calib/tune"
	"qwb/graph/exec"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/tqc"
)

// TuneSamples is how many samples of the plan's own data tuning reads unless told otherwise.
const TuneSamples = 64

// Options are the arguments of tune.
type Options struct {
	Methods []string // names of tune.Methods; "auto" is all of them; none: "auto"
	Data    open.DataOptions
	Threads int
	Memory  int64 // for activations of what is observed anew, and moments
	Force   bool  // keep what cannot be confirmed
	// AllowFP32 also tries rewriting steps after which more of the network runs in FP32 than before.
	AllowFP32 bool
	// MaxWork and MaxBytes are by how many percent the tuned network may have more multiply-accumulates and more bytes of constants than the
	// model; nil: DefaultRoom.
	MaxWork, MaxBytes *float64
	Steps             int    // of method block, for each block; 0 is tune.DefaultSteps
	Blocks            int    // how many blocks method block learns, the worst; 0 is all
	Loss              string // of method distill: tune.SquaredLoss or ClassLoss; empty is the first
	Optimizer         string // of methods block and distill: tune.Adam or SignSGD; empty is the first
	Budget            string // how much to do: a time, "10m", or work, "5000 forwards"; empty: no end
	// Profile is the arithmetic of the integers that are to get better. Empty: the simulation is, unless the integers of the platform's
	// profile do otherwise.
	Profile string
	// Gram is a file of Gram statistics to fit on instead of data; held-out samples still come from data.
	Gram string
	// Shard, if not zero, is the part of the data of which Gram statistics are written to Out; see Grams.
	Shard   open.Shard
	Out     string
	Backend string // what runs the model and sums for Shard; "" is the processor
}

// DefaultRoom is how many percent more work and bytes tuning may make of a network unless told otherwise.
const DefaultRoom = 5

// room is the bound as a share.
func room(percent *float64) float64 {
	if percent == nil {
		return DefaultRoom / 100.0
	}
	return *percent / 100
}

// ParseBudget reads how much tuning may do: a time, "10m", or work, "5000 forwards" (the blank may be missing). A forward is one sample
// through the whole graph; a time is turned into forwards once, by what the first ones take. Empty is no end.
func ParseBudget(text string) (*tune.Work, error) {
	if text == "" {
		return &tune.Work{}, nil
	}
	if count, ok := strings.CutSuffix(text, "forwards"); ok {
		n, err := strconv.ParseUint(strings.TrimSpace(count), 10, 53)
		if err != nil || n == 0 {
			return nil, fault.Usagef("--budget %s: %q is not a positive number of forward passes", text, strings.TrimSpace(count))
		}
		return &tune.Work{Limit: float64(n)}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil, fault.Usagef("--budget %s: give a time (10m) or work (5000forwards)", text)
	}
	return &tune.Work{Time: d}, nil
}

// Result is what tune --json prints. Before and After are the error of the outputs on the held-out samples, see tune.Judge.
type Result struct {
	Plan        string       `json:"plan"`
	Overlay     string       `json:"overlay"` // the file of tuned values; empty where nothing was kept
	Samples     int          `json:"samples"`
	HeldOut     int          `json:"held_out"`
	HeldOutKind string       `json:"held_out_kind"`
	Crossed     bool         `json:"cross_validated,omitempty"` // each half was judged by what the other one fitted
	Before      analysis.NSR `json:"before"`
	After       analysis.NSR `json:"after"`
	Change      float64      `json:"change"` // mean of after - before over the held-out samples, paired
	ChangeError *float64     `json:"change_error"`
	Mismatches  bool         `json:"mismatches,omitempty"` // no output is float: errors are shares of elements that differ
	Confirmed   bool         `json:"confirmed"`
	// Steps is how many steps keep the float function in front of all else, and FloatNSR what they leave of it: the largest error of an
	// output of the reference against the model, relative to its power, on the samples that the statistics keep.
	Steps      int                 `json:"steps,omitempty"`
	FloatNSR   *float64            `json:"float_nsr,omitempty"`
	OnIntegers analysis.OnIntegers `json:"on_integers"`
	Costs      string              `json:"costs,omitempty"` // what the tuned network costs more than the model; absent: nothing
	Judged     string              `json:"judged"`          // what the errors are of: "simulation", or the profile whose integers were run
	Methods    []*tune.Report      `json:"methods"`
	Budget     float64             `json:"budget,omitempty"` // how many forwards might be spent; absent: no end
	Work       float64             `json:"work"`             // how many were
	Seconds    float64             `json:"seconds"`
}

// Methods finds methods by their names.
func Methods(names []string) ([]*tune.Method, error) {
	var list []*tune.Method
	for _, name := range names {
		if name == "auto" {
			list = append(list, slices.DeleteFunc(slices.Clone(tune.Methods), func(m *tune.Method) bool { return m.OnlyNamed })...)
			continue
		}
		m := tune.Find(name)
		if m == nil {
			var known []string
			for _, m := range tune.Methods {
				known = append(known, m.Name)
			}
			return nil, fault.Usagef("unknown method %q: auto or %s", name, strings.Join(known, ", "))
		}
		list = append(list, m)
	}
	return list, nil
}

// Run runs methods on a plan and writes what they changed beside it. remember: a tuning that keeps nothing is a decision too, so that a
// recipe need not try it again.
func Run(ctx context.Context, j *open.Job, o Options, remember bool) (*Result, error) {
	elapsed := j.Stopwatch()
	if len(o.Methods) == 0 {
		o.Methods = []string{"auto"}
	}
	methods, work, err := asked(j, o)
	if err != nil {
		return nil, err
	}
	c, err := planning.NewChange(ctx, j, o.Threads)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Other != "" {
		return nil, fmt.Errorf("%s: this version of qwb computes other numbers than the plan holds (first difference: %s): "+
			"run qwb plan rederive %s first", c.Planned.File, c.Other, c.Planned.File)
	}
	if !remember && !anyQuantized(c.Planned.Set) {
		return nil, fmt.Errorf("tune: nothing is quantized in %s: there is no error to lower", c.Planned.File)
	}
	t, err := Tuning(ctx, c, o)
	if err != nil {
		return nil, err
	}
	end, err := t.fitOnGrams(o.Gram)
	if err != nil {
		return nil, err
	}
	defer end()
	if methods, err = t.stages(ctx, methods, o); err != nil {
		return nil, err
	}
	r := newResult(t)
	if r.Judged, err = t.objective(ctx, o); err != nil {
		return nil, err
	}
	t.Bench.Work = work
	if err := t.resumable(methods, o); err != nil {
		return nil, err
	}
	finish := t.progress(methods)
	r.Methods, err = t.Bench.Tune(ctx, methods...)
	finish()
	if err != nil {
		return nil, err
	}
	found, err := t.Settle(ctx, o.Threads)
	if err != nil {
		return nil, err
	}
	if r.Steps = len(found.overlay.Steps); r.Steps > 0 {
		r.FloatNSR = &found.Steps.NSR
	}
	before, after, err := t.losses(ctx, found, o)
	if err != nil {
		return nil, err
	}
	r.Budget, r.Work = work.Limit, float64(int64(work.Spent))
	r.judge(t, before, after)
	kept := toldKept(j, r.Methods)
	if kept && !(r.Change < 0 && analysis.Paired(before.PerSample(), after.PerSample()).Mean < 0) && !o.Force {
		kept = false
		j.Note("not kept: with the scales of the plan it does not lower the output error")
	}
	r.OnIntegers = planning.CompareIntegers(t.Planned.Graph, t.Planned.Set.Domains, t.Planned.Graph, t.Planned.Set.Domains)
	if kept {
		err = t.keep(j, found, r, o)
	} else if remember {
		err = t.decline(ctx, r, o)
	}
	if err == nil {
		err = t.finished()
	}
	if err != nil {
		return nil, err
	}
	r.Seconds = elapsed()
	return r, nil
}

// newResult is what is known of a result before anything was tried.
func newResult(t *tuning) *Result {
	r := &Result{Plan: t.Plan, Samples: len(t.Bench.Fit) + len(t.Bench.Held), HeldOut: len(t.Bench.Held), HeldOutKind: t.kind,
		Crossed:    t.Bench.Halves != nil,
		Mismatches: analysis.NewJudge(t.Bench.Reference).Mismatches()}
	if r.Crossed {
		r.Samples = len(t.Bench.Fit)
	}
	return r
}

// judge says what the changes are worth, from the losses with the scales of the plan.
func (r *Result) judge(t *tuning, before, after analysis.Losses) {
	was, is := before, after
	if t.Bench.Halves != nil { // the plan itself has seen all samples; what it is worth was measured in turns
		was, is = t.Bench.Start, t.Bench.End
	}
	of := t.Bench.JudgedBy()
	change, _, confirmed := tune.Judge(was, is, of, t.Bench.Spread())
	r.Before, r.After = analysis.NewNSR(was.EstimateBy(of)), analysis.NewNSR(is.EstimateBy(of))
	r.Change, r.ChangeError = change.Mean, analysis.NewSpread(change).NSRError
	r.Confirmed = confirmed
}

// Learning checks the names of what methods learn by.
func (o *Options) Learning() error {
	for _, name := range []struct {
		flag, is string
		of       [2]string
	}{{"loss", o.Loss, [2]string{tune.SquaredLoss, tune.ClassLoss}}, {"optimizer", o.Optimizer, [2]string{tune.Adam, tune.SignSGD}}} {
		if name.is != "" && !slices.Contains(name.of[:], name.is) {
			return fault.Usagef("--%s %s: %s", name.flag, name.is, strings.Join(name.of[:], " or "))
		}
	}
	return nil
}

// asked are the methods and the work that the options ask for.
func asked(j *open.Job, o Options) ([]*tune.Method, *tune.Work, error) {
	if err := o.Learning(); err != nil {
		return nil, nil, err
	}
	methods, err := Methods(o.Methods)
	if err != nil {
		return nil, nil, err
	}
	work, err := ParseBudget(o.Budget)
	if err != nil {
		return nil, nil, err
	}
	if work.Clock = j.Clock; work.Time > 0 && j.Catalog.Now == nil {
		return nil, nil, fault.Usagef("--budget %s: this program has no clock; give work, for example 5000forwards", o.Budget)
	}
	if o.Backend != "" && o.Backend != open.FloatCPU {
		return nil, nil, fault.Usagef("--backend needs --shard: Gram statistics can be made on a GPU, and methods run on the processor")
	}
	methods, err = fromGrams(j, methods, o)
	return methods, work, err
}

// auto is the order that auto has for methods, of those that the statistics allow.
func (t *tuning) auto(j *open.Job, methods []*tune.Method) []*tune.Method {
	if t.Bench.Sums == nil {
		methods = slices.DeleteFunc(slices.Clone(methods), func(m *tune.Method) bool { return slices.Contains(m.Needs, tune.NeedsStatistics) })
		if s := t.Derivation.Stats; s != nil {
			j.Note("skipped the methods that need sums, because the statistics lack %s", strings.Join(s.Lacks(), "; "))
		}
	}
	stages := tune.Auto(methods)
	if t.Bench.Grams == nil && !slices.ContainsFunc(methods, func(m *tune.Method) bool { return m.OnlyNamed }) {
		stages = append(stages, tune.Learners()...)
	}
	return stages
}

// stages are what is tried. Methods for whose learning there is not enough memory are refused before anything runs; those that auto brings
// along are left out.
func (t *tuning) stages(ctx context.Context, methods []*tune.Method, o Options) (list []*tune.Method, err error) {
	if slices.Contains(o.Methods, "auto") {
		methods = t.auto(t.Job, methods)
	}
	for _, m := range methods {
		if m.Learns != nil && exec.MemoryOf(ctx) > 0 {
			bytes, err := m.Learns(t.Bench)
			if err == nil {
				err = exec.FitBeside(ctx, t.Bench.Reference, bytes)
			}
			switch {
			case err != nil && slices.Contains(o.Methods, m.Name):
				return nil, fmt.Errorf("tune: method %s: %w", m.Name, err)
			case err != nil:
				t.Note("without %s: %v", m.Name, err)
				continue
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// anyQuantized reports whether anything has a grid.
func anyQuantized(set *tqc.Set) bool {
	for i := range set.NumSlots() {
		if s := set.Slot(tqc.SlotID(i)).State(); s != tqc.FP32 && s != tqc.Initial {
			return true
		}
	}
	return false
}

// keep writes what was found, and says what it costs.
func (t *tuning) keep(j *open.Job, found *tuned, r *Result, o Options) (err error) {
	r.OnIntegers = planning.CompareIntegers(t.Planned.Graph, t.Planned.Set.Domains, found.graph, found.set.Domains)
	r.Costs = tune.SizeOf(found.graph).Words(t.Bench.Room.Model)
	if len(r.OnIntegers.Moved) > 0 {
		j.Warn("%s", strings.Join(r.OnIntegers.Words, "; "))
	}
	r.Overlay, err = t.Write(found, r, o)
	return err
}

// toldKept says what came of methods, and reports whether one of them changed anything.
func toldKept(j *open.Job, methods []*tune.Report) (kept bool) {
	for _, m := range methods {
		kept = kept || m.Kept > 0
		switch {
		case m.Failed:
			j.Warn("%s %s; the other methods went on", m.Name, m.Note)
		case m.Note != "":
			j.Note("%s: %s", m.Name, m.Note)
		}
	}
	return kept
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = journal.Picked[Result]("samples held_out held_out_kind before.nsr=before before.nsr_error=before_error after.nsr=after " +
	"after.nsr_error=after_error change change_error confirmed overlay")
