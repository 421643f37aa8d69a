// Package calibrate observes a model on data, chooses its scales, carries out recipes, and writes plan and statistics.
package calibrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"qwb/analysis"
	"qwb/calib"
	"qwb/calib/data"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/work/fault"
	"qwb/internal/work/journal"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/recipe"
	"qwb/internal/work/samples"
	"qwb/internal/work/store"
	"qwb/internal/work/tune"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Options are the arguments of calibrate.
type Options struct {
	Platform string
	Data     open.DataOptions
	Merge    []string // statistics to merge instead of running data
	// Observer is how activations are calibrated; empty: the platform's. ReduceRange gives weights the platform's reduced range, PerTensor
	// one scale per tensor.
	Observer               tqc.Observer
	ReduceRange, PerTensor bool
	// Dispatcher and BorderCost replace those of the platform; see dispatch.Options.
	Dispatcher string
	BorderCost *float64
	// Recipes are carried out after the options, in their order: files of qwb, see decision.ParseRecipe.
	Recipes []string
	// From is another plan of the model, which stays as it is: the new one begins with its decisions and, without data, its statistics.
	From string
	// Beside gives the plan that other data or another target make of one with decisions of its own a name of its own, unless Fresh.
	Beside bool
	// Fresh makes a new plan of a model that has one. Otherwise what was decided about the old plan is kept.
	Fresh      bool
	MinMaxOnly bool
	Backend    string // what runs the model; "" is the processor
	Threads    int
	Batch      int
	Memory     int64 // for activations and samples read ahead
	// Shard, if not zero, is the part of the data that is observed; see CalibratePart.
	Shard open.Shard
}

// Given is what another command that calibrates brings along beside options.
type Given struct {
	Stats    *calib.Stats        // statistics that were observed already, in place of data
	Evidence json.RawMessage     // of the decision that the options make
	More     []decision.Decision // made after the options
}

// Result is what calibrate --json prints.
type Result struct {
	Plan           string  `json:"plan"`
	Stats          string  `json:"stats"`
	Samples        int     `json:"samples"`
	Shard          string  `json:"shard,omitempty"` // which part of the data, of a part
	Total          int     `json:"total,omitempty"` // samples of all parts together
	Seconds        float64 `json:"seconds"`
	ForwardSeconds float64 `json:"forward_seconds"` // running the model on the data, added up over threads
	ObserveSeconds float64 `json:"observe_seconds"` // observing its tensors, added up over threads
	DataSeconds    float64 `json:"data_seconds"`    // from the first sample to the last, as the clock has it
	// IntegerShare is the share of the multiply-accumulates that run on integers, 0 to 1; absent where the model has none.
	IntegerShare *float64     `json:"integer_share,omitempty"`
	PeakRSS      int64        `json:"peak_rss_bytes"`
	Backend      string       `json:"backend"`
	Device       string       `json:"device,omitempty"` // what a backend other than cpu ran on
	Check        *calib.Check `json:"check,omitempty"`  // of its statistics, against the processor's
	// Padding is how many positions were left out as padding; absent where none were.
	Padding *calib.Padded `json:"padding,omitempty"`
	Hint    *Hint         `json:"hint,omitempty"` // what does better; absent where nothing is known to
	// Tuned and Gates are what became of such steps of recipes.
	Tuned    []*tune.Result `json:"tuned,omitempty"`
	Gates    []*GateResult  `json:"gates,omitempty"`
	Warnings []tqc.Warning  `json:"warnings"`
}

// DataShare is which part of the memory samples may take that are read ahead.
const DataShare = 8

func Run(ctx context.Context, j *open.Job, o Options) (*Result, error) {
	recipes, err := recipe.Read(j, o.Recipes)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(recipes, func(r recipe.Source) bool { return r.Follows() }) {
		return calibrateAll(ctx, j, o, recipes)
	}
	r, _, err := With(ctx, j, o, Given{}, recipes)
	return r, err
}

// With calibrates with the first decisions of recipes, and returns what else they have to do.
func With(ctx context.Context, j *open.Job, o Options, g Given, recipes []recipe.Source) (*Result, *recipe.Steps, error) {
	elapsed := j.Stopwatch()
	o.Data.Memory = o.Memory / DataShare
	if o.Platform == "" {
		return nil, nil, fault.Usagef("calibrate needs --platform: %s", strings.Join(j.Catalog.Targets().Names(), ", "))
	}
	t, err := j.Target(o.Platform)
	if err == nil {
		err = possible(j, o)
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := j.OpenNormal(j.Model)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	if err := open.Unquantized(m); err != nil {
		return nil, nil, err
	}
	warnTypes(j, m, t)
	steps, err := recipe.Resolve(j, m, t, recipes)
	if err != nil {
		return nil, nil, err
	}
	before, err := earlier(ctx, j, m, o)
	if err != nil {
		return nil, nil, err
	}
	if err := writable(ctx, j, m, before, t, o, g, steps); err != nil {
		return nil, nil, err
	}
	observed := j.StatsFile() // where an interrupted run is gone on with
	res := &Result{Backend: cmp.Or(o.Backend, open.FloatCPU), Warnings: []tqc.Warning{}}
	o.readAs(before)
	stats, err := gather(ctx, j, m, o, g, res)
	if err != nil {
		return nil, nil, err
	}
	warnInfinite(j, m, stats, res)
	next, err := nextPlan(j, m, before, stats, t, o, g, steps)
	if err != nil {
		return nil, nil, err
	}
	d := &planning.Derivation{Target: t, Stats: stats, Own: j.Catalog.Observers, Threads: o.Threads}
	if err := planning.TunedBy(j, d, j.Plan, next, m.Graph); err != nil {
		return nil, nil, err
	}
	out, seen, err := derived(ctx, j, d, next)
	if errors.Is(err, context.Canceled) && len(o.Data.Paths) > 0 {
		return nil, nil, keep(j, stats, stats.Samples(), observed, err)
	}
	if err != nil {
		return nil, nil, steps.At(next.Decisions, err)
	}
	recipe.WarnIdle(j, steps, next.Decisions, 0, out)
	p, err := planOf(out, next, d.Stats)
	if err != nil {
		return nil, nil, err
	}
	if err := refused(ctx, j, m, out, t, stats, o); err != nil {
		return nil, nil, err
	}
	// The statistics get their name when the plan is on the disk, both or none.
	res.Plan, res.Stats = j.Plan, j.StatsFile()
	if _, err := planning.WritePlan(j, j.Plan, p, "", func(s store.Stage) error { return s.Add(res.Stats, stats.Write) }); err != nil {
		return nil, nil, fmt.Errorf("calibrate: %w", err)
	}
	planning.EndPart(j, observed)
	j.WarnAll(p.Warnings)
	j.WarnAll(seen.warnings)
	res.Hint = judged(ctx, j, d, out, p, seen, g.Stats == nil && !steps.Tune(), o.Threads)
	res.Warnings, res.IntegerShare = slices.Concat(res.Warnings, p.Warnings, seen.warnings), planning.IntegerShare(out.Graph, out.Set, t)
	res.Samples, res.Seconds, res.PeakRSS = stats.Samples(), elapsed(), j.PeakMemory()
	return res, steps, nil
}

// warnInfinite warns of the first operator that made infinite numbers.
func warnInfinite(j *open.Job, m *open.Model, stats *calib.Stats, res *Result) {
	if i := stats.MadeInfinite(m.Graph); i != nil {
		w := tqc.Warning{Node: m.Graph.Node(i.Node).Name, Value: float64(i.Negative + i.Positive),
			Text: i.Text(m.Graph) + "; codes have no infinity, and stop at the range's end: " + i.Cure}
		j.WarnAbout(w)
		res.Warnings = append(res.Warnings, w)
	}
}

// judgement is what a plan gives on the samples that statistics keep, or why there is none, and what was done about it.
type judgement struct {
	losses   analysis.Losses
	err      error
	warnings []tqc.Warning
}

// derived derives a plan, simulates it on the samples that statistics keep, and leaves float what gives them numbers that are none there.
func derived(ctx context.Context, j *open.Job, d *planning.Derivation, next *plan.Plan) (*planning.Derived, *judgement, error) {
	finish := watched(j, d, "ranges")
	out, err := d.Remembered(ctx, next)
	finish()
	if err != nil {
		return nil, nil, err
	}
	s := new(judgement)
	s.losses, s.err = planning.KeptLosses(ctx, j, d, out, d.Threads)
	other, warnings, err := d.Mend(ctx, next, out, s.err)
	if s.warnings = warnings; err == nil && other != out {
		s.losses, s.err = planning.KeptLosses(ctx, j, d, other, d.Threads)
	}
	return other, s, err
}

// judged warns of what is wrong on the samples that statistics keep, and gives a hint where a plan is the last step.
func judged(ctx context.Context, j *open.Job, d *planning.Derivation, out *planning.Derived, p *plan.Plan, s *judgement, last bool,
	threads int) *Hint {
	losses, err := s.losses, s.err
	planning.WarnNotFinite(ctx, j, d.Kept != nil && len(d.Kept.Infinite) > 0, err, open.DataOptions{}, threads)
	planning.WarnBadLosses(j, out.Graph, p, losses, err, open.DataOptions{})
	if !last || err != nil {
		return nil
	}
	return hintOf(ctx, j, d, p.Decisions, losses, out)
}

// possible says what of the options makes no sense, or names what is not there.
func possible(j *open.Job, o Options) error {
	if o.From != "" && filepath.Clean(o.From) == filepath.Clean(j.Plan) {
		return fault.Usagef("--from %s stays as it is: give the new plan another name with -o", o.From)
	}
	if err := o.Check(); err != nil {
		return err
	}
	if name, _, _ := o.Observer.Split(); name.Own() && observers.Find(name, j.Catalog.Observers...) == nil {
		return fault.Usagef("unknown observer %q: it is not built into this program", o.Observer)
	}
	return planning.Nameable(j, append([]string{j.Model, o.Data.Preprocess}, o.Data.Paths...)...)
}

// hintOf is the hint of a plan that is written, nil for none: what a hint fails with is no error of the calibration.
func hintOf(ctx context.Context, j *open.Job, d *planning.Derivation, list []decision.Decision, losses analysis.Losses,
	out *planning.Derived) *Hint {
	h, err := hint(ctx, j, d, list, losses, out)
	if err != nil {
		j.Detail("no hint: %v", err)
	} else if h != nil {
		j.Note("%s", h)
	}
	return h
}

// watched shows how far the search for ranges of a derivation is.
func watched(j *open.Job, d *planning.Derivation, what string) (finish func()) {
	tick, end := func(int) {}, func() {}
	begun := false
	d.Watch = func(done, total int) {
		if !begun && total >= watchedRanges {
			tick, end = j.Progress(what, total)
			begun = true
		}
		tick(done)
	}
	return func() {
		d.Watch = nil
		end()
	}
}

// watchedRanges is how many ranges take long enough to be watched.
const watchedRanges = 500

// warnTypes warns where what reads the platform's files cannot take the types of inputs.
func warnTypes(j *open.Job, m *open.Model, t *target.Target) {
	for _, v := range m.Graph.Inputs {
		val := m.Graph.Value(v)
		if val.Const == nil && val.DType == tensor.Float64 && strings.HasPrefix(target.EngineOf(t.Name).Name, "OpenVINO") {
			j.Warn("input %q is %s: OpenVINO does not open quantized files with such inputs%s", val.Name, val.DType, export.ToFloat32(val.DType))
			return
		}
	}
}

// readAs makes samples read as the plan reads them that the new one begins from, unless something else was asked for.
func (o *Options) readAs(before *plan.Plan) {
	if o.From == "" || before == nil || o.Data.Stored != nil {
		return
	}
	o.Data.Stored = &before.Preprocess
	if file := before.Preprocess.Tokenizer; file != "" && o.Data.Tokenizer == "" {
		o.Data.Tokenizer = plan.Resolve(o.From, file)
	}
}

// gather returns the statistics to calibrate from: merged, observed on data, or those that are there already.
func gather(ctx context.Context, j *open.Job, m *open.Model, o Options, g Given, res *Result) (*calib.Stats, error) {
	switch {
	case g.Stats != nil:
		return g.Stats, nil
	case len(o.Merge) > 0:
		return mergeStats(j, m, o)
	case len(o.Data.Paths) > 0:
		return observe(ctx, j, m, o, res)
	}
	file := j.StatsFile()
	if o.From != "" {
		file = store.StatsPath(o.From)
	}
	stats, err := planning.LoadStats(j, file, m)
	if store.Missing(err) {
		return nil, fault.Usagef("calibrate needs --data: there are no statistics of an earlier run (%s)", file)
	}
	if err == nil && o.From != "" {
		stats.Sources = relocate(file, j.Plan, stats.Sources)
	}
	return stats, err
}

func mergeStats(j *open.Job, m *open.Model, o Options) (*calib.Stats, error) {
	var all *calib.Stats
	for _, file := range o.Merge {
		s, err := planning.LoadStats(j, file, m)
		if err != nil {
			return nil, err
		}
		s.Sources = relocate(file, j.Plan, s.Sources)
		if all == nil {
			all = s
			continue
		}
		merged, overlap, err := calib.Merge(all, s)
		if err != nil {
			return nil, &fault.FileError{File: file, Err: err}
		}
		if overlap > 0 {
			j.Warn("%s: %d samples are in other merged statistics too and are counted twice", file, overlap)
		}
		all = merged
	}
	return all, nil
}

// relocate rewrites the sources recorded beside one file for another.
func relocate(from, to string, paths []string) []string {
	if filepath.Dir(from) == filepath.Dir(to) {
		return paths
	}
	return open.Sources(to, open.Locate(from, paths))
}

// observe runs the model on the data. What an interrupted run over the same data left is used.
func observe(ctx context.Context, j *open.Job, m *open.Model, o Options, res *Result) (*calib.Stats, error) {
	var dev open.Device
	if cmp.Or(o.Backend, open.FloatCPU) != open.FloatCPU {
		var err error
		if dev, err = j.Catalog.Device(o.Backend); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		// What the device failed with is the error of the run.
		defer func() { _ = dev.Close() }()
		res.Device = dev.Label()
		j.Detail("calibrate: on %s", dev.Label())
	}
	set, pre, err := j.OpenData(m.Graph, o.Data.Of(m))
	if err != nil {
		return nil, err
	}
	if o.Shard != (open.Shard{}) {
		res.Total, set = set.Len(), set.Shard(o.Shard.Index, o.Shard.Of)
	}
	file := j.StatsFile()
	elapsed := j.Stopwatch()
	var spent calib.Spent
	cfg, err := Config(j, m, &pre, o)
	if err != nil {
		return nil, err
	}
	cfg.Spent = &spent
	if dev != nil && cfg.Padding != nil {
		j.Warn("padding is left out on the processor only, which runs the model: --mask none counts it, and runs on %s", dev.Label())
	} else if dev != nil {
		cfg.Device, cfg.Check = dev, new(calib.Check)
	}
	for _, name := range []string{file, planning.BesideFile(file)} {
		old, _, err := planning.ReadStats(j, name, m.Loaded.Store)
		if err != nil || old.Model != cfg.Model || old.Preprocess != cfg.Preprocess || !slices.Equal(old.Sources, cfg.Sources) ||
			old.Seed != cfg.Seed {
			continue
		}
		if cfg.Resume != nil && cfg.Resume.Samples() >= old.Samples() {
			continue
		}
		if old.HasBins() {
			cfg.MinMaxOnly = false // what is there already is worth more
		}
		if old.HasBins() || cfg.MinMaxOnly {
			cfg.Resume = old
		}
	}
	stats, warnings, err := Observe(ctx, j, m, set, pre, cfg)
	// The earlier statistics may hold samples that are not in the data any more, or tensors that this version has no more.
	if err == nil && stats.Samples() != set.Len() || cfg.Resume != nil && errors.Is(err, calib.ErrOtherForm) {
		cfg.Resume = nil
		stats, warnings, err = Observe(ctx, j, m, set, pre, cfg)
	}
	if errors.Is(err, context.Canceled) && stats != nil && stats.Samples() > 0 {
		return nil, keep(j, stats, set.Len(), file, err)
	}
	if err != nil {
		return nil, err
	}
	res.ForwardSeconds, res.ObserveSeconds, res.DataSeconds = spent.Forward.Seconds(), spent.Observe.Seconds(), elapsed()
	if p := cfg.Padded; pre.Mask != "" && p.Padding > 0 {
		res.Padding = p
		j.Note("positions that %s marks as padding are left out: %.3g %% of %d (--mask none counts them)", pre.Mask,
			100*float64(p.Padding)/float64(p.Positions), p.Positions)
	}
	if c := cfg.Check; c != nil && c.Tensors > 0 {
		res.Check = c
		j.Detail("calibrate: on the first sample the statistics of %d of %d tensors are those of the processor", c.Equal, c.Tensors)
	}
	for _, w := range warnings {
		j.WarnAbout(w)
		res.Warnings = append(res.Warnings, w)
	}
	return stats, nil
}

// Config says how the model is observed on data that are preprocessed by pre, whose tokenizer becomes relative to the plan.
func Config(j *open.Job, m *open.Model, pre *plan.Preprocess, o Options) (calib.Config, error) {
	if pre.Tokenizer != "" {
		pre.Tokenizer = plan.Relative(j.Plan, pre.Tokenizer)
	}
	var padding *graph.Padding
	if pre.Mask != "" {
		var err error
		if padding, err = graph.FindPadding(m.Graph, pre.Mask); err != nil {
			return calib.Config{}, err
		}
	}
	key, err := planning.PreprocessKey(*pre)
	return calib.Config{Threads: o.Threads, Batch: o.Batch, Memory: o.Memory - o.Data.Memory, MinMaxOnly: o.MinMaxOnly, Warn: j.WarnAbout,
		Padding: padding, Padded: new(calib.Padded), Clock: j.Clock(), Model: m.Digest, Preprocess: key,
		Sources: open.Sources(j.Plan, o.Data.Paths), Seed: o.Data.Seed}, err
}

// keep saves the statistics of an interrupted run, beside those that a plan has. It returns err, which ended the run.
func keep(j *open.Job, stats *calib.Stats, of int, file string, err error) error {
	file = planning.PartFile(j, file)
	save := func() error { return planning.KeepStats(j, stats, of, file) }
	if stats.Samples() == of { // it was interrupted while it chose scales
		save = func() error { return planning.SaveStats(j, stats, of, file) }
	}
	if saveErr := save(); saveErr != nil {
		return errors.Join(err, saveErr)
	}
	j.Note("interrupted after %d of %d samples. %s keeps them; run the same command to continue", stats.Samples(), of, file)
	return err
}

func Observe(ctx context.Context, j *open.Job, m *open.Model, set *data.Set, pre plan.Preprocess,
	cfg calib.Config) (*calib.Stats, []tqc.Warning, error) {
	tick, finish := j.Progress("calibrate", set.Len())
	defer finish()
	cfg.Progress = func(done, _ int) {
		if tick(done); done == 2*max(cfg.Threads, 1)*max(cfg.Batch, 1) {
			j.Settled()
		}
	}
	doctor := data.NewDoctor(data.SpecOf(m.Graph), m.Loaded, &pre)
	cfg.Coverage = calib.NewCoverage(m.Graph)
	stats, err := calib.Run(ctx, m.Graph, &samples.Watched{Iterator: set.Iterator(), See: doctor.Observe}, cfg)
	if err != nil {
		return stats, nil, m.Named("calibrate", err)
	}
	return stats, append(doctor.Warnings(), data.Warnings(cfg.Coverage.Findings(stats))...), nil
}

// planOf writes down what follows from a plan's decisions. Everything in it follows from the model, the statistics and the decisions,
// so that merged statistics give the plan of one run.
func planOf(out *planning.Derived, next *plan.Plan, stats *calib.Stats) (*plan.Plan, error) {
	meta := next.Meta
	meta.Warnings = planning.PlanWarnings(out.Warnings, stats, meta.Data.Synthetic)
	p, err := plan.FromSet(out.Graph, out.Set, meta)
	if err != nil {
		return nil, err
	}
	p.Decisions, p.Steps, p.Redo = next.Decisions, next.Steps, next.Redo
	return p, nil
}

// Figures are what is kept of an outcome: keys of its JSON, see journal.Picked.
var Figures = func(r *Result) json.RawMessage {
	var gates []string
	for _, g := range r.Gates {
		gates = append(gates, g.String())
	}
	return journal.Object(struct {
		Samples int      `json:"samples"`
		Gates   []string `json:"gates,omitempty"`
	}{r.Samples, gates})
}
