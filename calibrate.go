package qwb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
	"qwb/quantizer/tqc"
)

// CalibrateOptions are the arguments of calibrate.
type CalibrateOptions struct {
	Platform string
	Data     DataOptions
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
	// Fresh makes a new plan of a model that has one. Otherwise what was decided about the old plan is kept.
	Fresh      bool
	MinMaxOnly bool
	Backend    string // what runs the model; "" is the processor
	Threads    int
	Batch      int
	Memory     int64 // for activations and samples read ahead
	// Shard, if not zero, is the part of the data that is observed; see CalibratePart.
	Shard Shard
}

// given is what another command that calibrates brings along beside options.
type given struct {
	stats    *calib.Stats        // statistics that were observed already, in place of data
	evidence json.RawMessage     // of the decision that the options make
	more     []decision.Decision // made after the options
}

// CalibrateResult is what calibrate --json prints.
type CalibrateResult struct {
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
	Hint         *Hint        `json:"hint,omitempty"`   // another observer that does better; absent where none is known to
	// Tuned and Gates are what became of such steps of recipes.
	Tuned    []*TuneResult `json:"tuned,omitempty"`
	Gates    []*GateResult `json:"gates,omitempty"`
	Warnings []tqc.Warning `json:"warnings"`
}

// Backends of calibrate: what runs the float model.
const (
	FloatCPU  = "cpu"
	FloatCUDA = "cuda"
	FloatPTX  = "ptx" // the kernels for a GPU, interpreted
)

// dataShare is which part of the memory samples may take that are read ahead.
const dataShare = 8

func (j *job) calibrate(ctx context.Context, o CalibrateOptions) (*CalibrateResult, error) {
	recipes, err := j.readRecipes(o.Recipes)
	if err != nil {
		return nil, err
	}
	for _, r := range recipes {
		if r.recipe != nil && slices.ContainsFunc(r.recipe.Steps, func(s decision.Step) bool { return s.Tune != nil || s.Gate != nil }) {
			return j.calibrateAll(ctx, o, recipes)
		}
	}
	r, _, err := j.calibrateWith(ctx, o, given{}, recipes)
	return r, err
}

// calibrateWith calibrates with the first decisions of recipes, and returns what else they have to do.
func (j *job) calibrateWith(ctx context.Context, o CalibrateOptions, g given, recipes []recipeSource) (*CalibrateResult, *recipeSteps, error) {
	elapsed := j.stopwatch()
	o.Data.Memory = o.Memory / dataShare
	if o.Platform == "" {
		return nil, nil, Usagef("calibrate needs --platform: %s", strings.Join(j.Catalog.Targets().Names(), ", "))
	}
	t, err := j.Target(o.Platform)
	if err != nil {
		return nil, nil, err
	}
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	if name, _, _ := o.Observer.Split(); name.Own() && observers.Find(name, j.Catalog.Observers...) == nil {
		return nil, nil, Usagef("unknown observer %q: it is not built into this program", o.Observer)
	}
	if err := j.nameable(append([]string{j.Model, o.Data.Preprocess}, o.Data.Paths...)...); err != nil {
		return nil, nil, err
	}
	m, err := j.openNormal(j.Model)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	if err := unquantized(m); err != nil {
		return nil, nil, err
	}
	steps, err := j.resolve(m, t, recipes)
	if err != nil {
		return nil, nil, err
	}
	before, err := j.before(ctx, m, o)
	if err != nil {
		return nil, nil, err
	}
	statsFile := j.stats()
	res := &CalibrateResult{Plan: j.Plan, Stats: statsFile, Backend: cmp.Or(o.Backend, FloatCPU)}
	stats, err := j.gather(ctx, m, o, g, res)
	if err != nil {
		return nil, nil, err
	}
	next, err := j.calibrated(m, before, stats, t, o, g, steps)
	if err != nil {
		return nil, nil, err
	}
	d := &derivation{Target: t, Stats: stats, Own: j.Catalog.Observers, Threads: o.Threads}
	if err := j.tunedBy(d, j.Plan, next, m.Graph); err != nil {
		return nil, nil, err
	}
	out, err := d.remembered(ctx, next)
	if errors.Is(err, context.Canceled) && len(o.Data.Paths) > 0 {
		return nil, nil, j.keep(stats, stats.Samples(), statsFile, err)
	}
	if err != nil {
		return nil, nil, steps.at(next.Decisions, err)
	}
	j.warnIdle(steps, next.Decisions, 0, out)
	p, err := planOf(out, next, d.Stats)
	if err != nil {
		return nil, nil, err
	}
	// The statistics get their name when the plan is on the disk, both or none.
	if _, err := j.writePlan(j.Plan, p, "", func(s Stage) error { return s.Add(statsFile, stats.Write) }); err != nil {
		return nil, nil, fmt.Errorf("calibrate: %w", err)
	}
	for _, w := range p.Warnings {
		j.warnAbout(w)
	}
	losses, err := j.keptLosses(ctx, d, out, o.Threads)
	j.warnNotFinite(ctx, d.kept != nil && d.kept.infinite, err, DataOptions{}, o.Threads)
	j.warnBadLosses(out.Graph, p, losses, err, DataOptions{})
	res.Warnings, res.IntegerShare = append(res.Warnings, p.Warnings...), integerShare(out.Graph, out.Set.Domains)
	if res.Warnings == nil {
		res.Warnings = []tqc.Warning{}
	}
	if g.stats == nil && err == nil { // the plan is written: what a hint fails with is no error of the calibration
		if res.Hint, err = j.hint(ctx, d, p.Decisions, losses); err != nil {
			j.detail("no hint about observers: %v", err)
		} else if res.Hint != nil {
			j.note("%s", res.Hint)
		}
	}
	res.Samples = stats.Samples()
	res.Seconds = elapsed()
	res.PeakRSS = j.peakMemory()
	return res, steps, nil
}

// unquantized refuses models that another tool, or an export, has quantized already: calibration is about float tensors.
func unquantized(m *Model) error {
	order, err := m.Graph.Order()
	if err != nil {
		return err
	}
	for _, id := range order {
		if spec := m.Graph.Node(id).Spec(); spec != nil && spec.Kind == graph.KindQuantize {
			return m.Graph.ErrorAt("calibrate: "+m.Path, id, errors.New("the model is already quantized: calibrate the original float model, or make a plan from this one with qwb import"))
		}
	}
	return nil
}

func observerNames() string {
	var names []string
	for _, m := range observers.All {
		names = append(names, string(m.Name))
	}
	return strings.Join(names, ", ")
}

func checkObserver(o tqc.Observer) error {
	if o == tqc.ObserverFixed || o.Valid() != nil {
		return fmt.Errorf("unknown observer %q: one of auto, %s, or percentile(0.999)", o, observerNames())
	}
	return nil
}

// gather returns the statistics to calibrate from: merged, observed on data, or those that are there already.
func (j *job) gather(ctx context.Context, m *Model, o CalibrateOptions, g given, res *CalibrateResult) (*calib.Stats, error) {
	switch {
	case g.stats != nil:
		return g.stats, nil
	case len(o.Merge) > 0:
		return j.mergeStats(m, o)
	case len(o.Data.Paths) > 0:
		return j.observe(ctx, m, o, res)
	}
	file := j.stats()
	stats, err := j.loadStats(file, m)
	if missing(err) {
		return nil, Usagef("calibrate needs --data: there are no statistics of an earlier run (%s)", file)
	}
	return stats, err
}

func (j *job) mergeStats(m *Model, o CalibrateOptions) (*calib.Stats, error) {
	var all *calib.Stats
	for _, file := range o.Merge {
		s, err := j.loadStats(file, m)
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
			return nil, &FileError{File: file, Err: err}
		}
		if overlap > 0 {
			j.warn("%s: %d samples are in other merged statistics too and are counted twice", file, overlap)
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
	return sources(to, locate(from, paths))
}

// observe runs the model on the data. What an interrupted run over the same data left is used.
func (j *job) observe(ctx context.Context, m *Model, o CalibrateOptions, res *CalibrateResult) (*calib.Stats, error) {
	var dev Device
	if cmp.Or(o.Backend, FloatCPU) != FloatCPU {
		var err error
		if dev, err = j.Catalog.openDevice(o.Backend); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		// What the device failed with is the error of the run.
		defer func() { _ = dev.Close() }()
		res.Device = dev.Label()
		j.detail("calibrate: on %s", dev.Label())
	}
	set, pre, err := j.openData(m.Graph, o.Data.Of(m))
	if err != nil {
		return nil, err
	}
	if o.Shard != (Shard{}) {
		res.Total, set = set.Len(), set.Shard(o.Shard.Index, o.Shard.Of)
	}
	file := j.stats()
	elapsed := j.stopwatch()
	var spent calib.Spent
	cfg, err := j.observing(m, &pre, o)
	if err != nil {
		return nil, err
	}
	cfg.Spent = &spent
	if dev != nil {
		cfg.Device, cfg.Check = dev, new(calib.Check)
	}
	if old, _, err := j.readStats(file); err == nil && old.Model == cfg.Model && old.Preprocess == cfg.Preprocess && slices.Equal(old.Sources, cfg.Sources) && old.Seed == cfg.Seed {
		if old.HasBins() {
			cfg.MinMaxOnly = false // what is there already is worth more
		}
		if old.HasBins() || cfg.MinMaxOnly {
			cfg.Resume = old
		}
	}
	stats, doctor, err := j.observeOnce(ctx, m, set, pre, cfg)
	if err == nil && stats.Samples() != set.Len() { // the earlier statistics hold samples that are not in the data any more
		cfg.Resume = nil
		stats, doctor, err = j.observeOnce(ctx, m, set, pre, cfg)
	}
	if errors.Is(err, context.Canceled) && stats != nil && stats.Samples() > 0 {
		return nil, j.keep(stats, set.Len(), file, err)
	}
	if err != nil {
		return nil, err
	}
	res.ForwardSeconds, res.ObserveSeconds, res.DataSeconds = spent.Forward.Seconds(), spent.Observe.Seconds(), elapsed()
	if c := cfg.Check; c != nil && c.Tensors > 0 {
		res.Check = c
		j.detail("calibrate: on the first sample the statistics of %d of %d tensors are those of the processor", c.Equal, c.Tensors)
	}
	for _, w := range doctor.Warnings() {
		j.warnAbout(w)
		res.Warnings = append(res.Warnings, w)
	}
	return stats, nil
}

// observing says how the model is observed on data that are preprocessed by pre, whose tokenizer becomes relative to the plan.
func (j *job) observing(m *Model, pre *plan.Preprocess, o CalibrateOptions) (calib.Config, error) {
	if pre.Tokenizer != "" {
		pre.Tokenizer = plan.Relative(j.Plan, pre.Tokenizer)
	}
	key, err := preprocessKey(*pre)
	return calib.Config{Threads: o.Threads, Batch: o.Batch, Memory: o.Memory - o.Data.Memory, MinMaxOnly: o.MinMaxOnly, Warn: j.warnAbout,
		Clock: j.clock(), Model: m.Digest, Preprocess: key, Sources: sources(j.Plan, o.Data.Paths), Seed: o.Data.Seed}, err
}

// keep saves the statistics of an interrupted run. It returns err, which ended the run.
func (j *job) keep(stats *calib.Stats, of int, file string, err error) error {
	save := func() error { return j.keepStats(stats, of, file) }
	if stats.Samples() == of { // it was interrupted while it chose scales
		save = func() error { return j.saveStats(stats, of, file) }
	}
	if saveErr := save(); saveErr != nil {
		return errors.Join(err, saveErr)
	}
	j.note("interrupted after %d of %d samples. %s keeps them; run the same command to continue", stats.Samples(), of, file)
	return err
}

func (j *job) observeOnce(ctx context.Context, m *Model, set *data.Set, pre plan.Preprocess, cfg calib.Config) (*calib.Stats, *data.Doctor, error) {
	tick, finish := j.progress("calibrate", set.Len())
	defer finish()
	cfg.Progress = func(done, _ int) {
		if tick(done); done == 2*max(cfg.Threads, 1)*max(cfg.Batch, 1) {
			j.settled()
		}
	}
	doctor := data.NewDoctor(data.SpecOf(m.Graph), m.Loaded, &pre)
	stats, err := calib.Run(ctx, m.Graph, &watched{set.Iterator(), doctor.Observe}, cfg)
	return stats, doctor, m.Named("calibrate", err)
}

// watched shows every sample to a function before it is used.
type watched struct {
	exec.Iterator
	see func(*exec.Sample)
}

func (w *watched) Next(ctx context.Context) (*exec.Sample, error) {
	s, err := w.Iterator.Next(ctx)
	if err == nil {
		w.see(s)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, err
}

// planOf writes down what follows from a plan's decisions. Everything in it follows from the model, the statistics and the decisions,
// so that merged statistics give the plan of one run.
func planOf(out *derived, next *plan.Plan, stats *calib.Stats) (*plan.Plan, error) {
	meta := next.Meta
	meta.Warnings = planWarnings(out.Warnings, stats, meta.Data.Synthetic)
	p, err := plan.FromSet(out.Graph, out.Set, meta)
	if err != nil {
		return nil, err
	}
	p.Decisions, p.Steps, p.Redo = next.Decisions, next.Steps, next.Redo
	return p, nil
}

// planWarnings are what a plan says about its own scales.
func planWarnings(derived []tqc.Warning, stats *calib.Stats, synthetic bool) []tqc.Warning {
	list := slices.Concat(derived, stats.Settled(0))
	if synthetic {
		list = append(list, tqc.Warning{Text: "calibrated on synthetic data: the ranges say nothing about real inputs"})
	}
	return list
}
