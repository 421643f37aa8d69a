package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qwb/calib"
	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/kernels/cuda"
	"qwb/observers"
	"qwb/quantizer"
	"qwb/quantizer/plan"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// calibrateOptions are the arguments of calibrate.
type calibrateOptions struct {
	model    string
	platform string
	plan     string // file to write
	data     dataOptions
	merge    []string // statistics to merge instead of running data
	quantizer.Options
	minMaxOnly bool
	backend    string // what runs the model; "" is the processor
	threads    int
	batch      int
	memory     int64
}

// calibrateResult is what calibrate --json prints.
type calibrateResult struct {
	Plan           string        `json:"plan"`
	Stats          string        `json:"stats"`
	Samples        int           `json:"samples"`
	Seconds        float64       `json:"seconds"`
	ForwardSeconds float64       `json:"forward_seconds"` // running the model on the data, added up over threads
	ObserveSeconds float64       `json:"observe_seconds"` // observing its tensors, added up over threads
	DataSeconds    float64       `json:"data_seconds"`    // from the first sample to the last, as the clock has it
	PeakRSS        int64         `json:"peak_rss_bytes"`
	Backend        string        `json:"backend"`
	Device         string        `json:"device,omitempty"` // what a backend other than cpu ran on
	Check          *calib.Check  `json:"check,omitempty"`  // of its statistics, against the processor's
	Warnings       []tqc.Warning `json:"warnings"`
}

// Backends of calibrate: what runs the float model.
const (
	floatCPU  = "cpu"
	floatCUDA = "cuda"
	floatPTX  = "ptx" // the kernels for a GPU, interpreted
)

func newCalibrate(e *env) *cobra.Command {
	var f flags
	var merge []string
	var reduce, perTensor, minMaxOnly bool
	var backend string
	c := &cobra.Command{
		Use:   "calibrate MODEL --data D --platform P",
		Short: "Observe the model on data and write plan and statistics",
		Long: `Calibrate runs the float model on real data, observes every tensor, and chooses all scales and zero points for a platform.
It writes MODEL.plan.json and MODEL.stats to the current folder (-o X.plan.json moves both).

A model that has statistics needs no data for another platform or another --observer. An interrupted run keeps its statistics and
goes on from there when it is repeated. Statistics of parts of a data set are merged by --merge A.stats B.stats: plan and
statistics are then, byte for byte, those of one run over all the data.

--backend cuda runs and observes the model on a GPU. Where the GPU's arithmetic is the processor's the statistics are the same bytes;
the first sample is run on both, and what differs is reported.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("calibrate takes a model")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			var models []string
			for _, a := range args { // statistics after the first of --merge arrive as arguments
				if len(merge) > 0 && strings.HasSuffix(a, ".stats") {
					merge = append(merge, a)
				} else {
					models = append(models, a)
				}
			}
			if len(models) != 1 {
				return usagef("calibrate takes one model, not %d (%s)", len(models), strings.Join(models, ", "))
			}
			switch {
			case !minMaxOnly:
			case len(f.data) == 0:
				return usagef("--minmax-only is about observing: it needs --data")
			case f.observer != "" && f.observer != string(tqc.ObserverMinMax):
				return usagef("--minmax-only serves no --observer but minmax")
			default:
				f.observer = string(tqc.ObserverMinMax)
			}
			if len(merge) > 0 && len(f.data) > 0 {
				return usagef("--merge takes the place of --data")
			}
			if !slices.Contains([]string{floatCPU, floatCUDA, floatPTX}, backend) {
				return usagef("unknown backend %q: one of %s, %s, %s", backend, floatCPU, floatCUDA, floatPTX)
			}
			if backend != floatCPU && len(f.data) == 0 {
				return usagef("--backend is what runs the model: it needs --data")
			}
			file, err := planPath(models[0], f.out)
			if err != nil {
				return err
			}
			o := calibrateOptions{model: models[0], platform: f.platform, plan: file, data: f.dataOptions(), merge: merge, threads: f.workers(), batch: f.batch, minMaxOnly: minMaxOnly, backend: backend,
				Options: quantizer.Options{Activation: tqc.Observer(f.observer), ReduceRange: reduce, PerTensor: perTensor}}
			defer debug.SetGCPercent(debug.SetGCPercent(calibrateGarbage))
			o.memory, _ = f.memory()
			o.data.memory = o.memory / dataShare
			r, err := e.calibrate(c.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return e.printJSON(r)
			}
			_, err = fmt.Fprintf(e.stdout, "%s and %s: %d samples, %.2f s\n", r.Plan, r.Stats, r.Samples, r.Seconds)
			return err
		},
	}
	f.addData(c)
	f.addTokenizer(c)
	f.addRun(c)
	c.Flags().StringVar(&f.mem, "mem", "2G", "memory for activations and samples read ahead, for example 512M or 4G; bounds --batch and how many samples are worked on")
	f.addPlatform(c, "what to quantize for: "+platforms())
	c.Flags().IntVar(&f.batch, "batch", 1, "samples per run, where the model takes batches; never changes a result")
	f.addOut(c, "plan to write, ending in "+planSuffix)
	f.addJSON(c)
	c.Flags().StringVar(&f.observer, "observer", "", "calibration method of activations: auto, "+observerNames()+" (default: the platform's)")
	c.Flags().StringArrayVar(&merge, "merge", nil, "statistics to merge instead of running data: --merge A.stats B.stats")
	c.Flags().BoolVar(&minMaxOnly, "minmax-only", false, "observe minima and maxima only: faster, for statistics that serve no --observer but minmax")
	c.Flags().StringVar(&backend, "backend", floatCPU, "what runs the float model: "+floatBackends)
	c.Flags().BoolVar(&reduce, "reduce-range", false, "7-bit weights, for processors whose 16-bit sums saturate")
	c.Flags().BoolVar(&perTensor, "per-tensor", false, "one scale per weight tensor instead of one per channel")
	return c
}

// calibrateGarbage is how much garbage may lie beside what is in use, in percent. Calibration makes little of it but keeps much
// (weights, statistics), and looking through that is fast, since it is numbers.
const calibrateGarbage = 20

// dataShare is which part of --mem samples may take that are read ahead.
const dataShare = 8

func platforms() string {
	var names []string
	for _, t := range target.All {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

func observerNames() string {
	var names []string
	for _, m := range observers.All {
		names = append(names, string(m.Name))
	}
	return strings.Join(names, ", ")
}

func (e *env) calibrate(ctx context.Context, o calibrateOptions) (*calibrateResult, error) {
	start := time.Now()
	if o.platform == "" {
		return nil, usagef("calibrate needs --platform: %s", platforms())
	}
	t, err := target.Find(o.platform)
	if err != nil {
		return nil, usageError{err}
	}
	if err := checkObserver(o.Activation); err != nil {
		return nil, usageError{err}
	}
	m, err := e.openNormal(o.model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := unquantized(m); err != nil {
		return nil, err
	}
	statsFile := statsPath(o.plan)
	res := &calibrateResult{Plan: o.plan, Stats: statsFile, Backend: cmp.Or(o.backend, floatCPU)}
	stats, err := e.gather(ctx, m, o, res)
	if err != nil {
		return nil, err
	}
	r := recipe{g: m.Graph, stats: stats, target: t, options: o.Options, threads: o.threads}
	c, err := r.configure(ctx)
	if errors.Is(err, context.Canceled) && len(o.data.paths) > 0 {
		return nil, e.keep(stats, stats.Samples(), statsFile, err)
	}
	if err != nil {
		return nil, err
	}
	p, err := makePlan(m, c, stats, t, o)
	if err != nil {
		return nil, err
	}
	if err := saveBoth(stats, statsFile, p, o.plan); err != nil {
		return nil, err
	}
	for _, w := range p.Warnings {
		e.warnAbout(w)
	}
	res.Warnings = append(res.Warnings, p.Warnings...)
	if res.Warnings == nil {
		res.Warnings = []tqc.Warning{}
	}
	res.Samples = stats.Samples()
	res.Seconds = time.Since(start).Seconds()
	res.PeakRSS = peakRSS()
	return res, nil
}

// unquantized refuses models that another tool, or an export, has quantized already: calibration is about float tensors.
func unquantized(m *model) error {
	order, err := m.Graph.Order()
	if err != nil {
		return err
	}
	for _, id := range order {
		if spec := m.Graph.Node(id).Spec(); spec != nil && spec.Kind == graph.KindQuantize {
			return m.Graph.ErrorAt("calibrate: "+m.path, id, errors.New("the model is quantized already; calibrate the float model it was made from, or make a plan of this one with qwb import"))
		}
	}
	return nil
}

// saveBoth writes statistics and plan, both or none: the statistics get their name when the plan is on the disk.
func saveBoth(stats *calib.Stats, statsFile string, p *plan.Plan, planFile string) error {
	if info, err := os.Stat(statsFile); err == nil && info.IsDir() {
		return fmt.Errorf("calibrate: %s is a folder", statsFile)
	}
	var s staging
	defer s.discard()
	if err := s.add(statsFile, stats.Write); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	if err := p.Write(planFile); err != nil {
		return err
	}
	return s.commit()
}

func checkObserver(o tqc.Observer) error {
	if o == tqc.ObserverNone || o == tqc.ObserverAuto || slices.Contains(tqc.Observers, o) {
		return nil
	}
	return fmt.Errorf("unknown observer %q: one of auto, %s", o, observerNames())
}

func (e *env) warnAbout(w tqc.Warning) {
	if w.Node == "" {
		e.warn("%s", w.Text)
		return
	}
	e.warn("%s: %s", w.Node, w.Text)
}

// gather returns the statistics to calibrate from: merged, observed on data, or those that are there already.
func (e *env) gather(ctx context.Context, m *model, o calibrateOptions, res *calibrateResult) (*calib.Stats, error) {
	switch {
	case len(o.merge) > 0:
		return e.mergeStats(m, o)
	case len(o.data.paths) > 0:
		return e.observe(ctx, m, o, res)
	}
	file := statsPath(o.plan)
	stats, err := loadStats(file, m)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usagef("calibrate needs --data: there are no statistics of an earlier run (%s)", file)
	}
	return stats, err
}

func (e *env) mergeStats(m *model, o calibrateOptions) (*calib.Stats, error) {
	var all *calib.Stats
	for _, file := range o.merge {
		s, err := loadStats(file, m)
		if err != nil {
			return nil, err
		}
		s.Sources = relocate(file, o.plan, s.Sources)
		if all == nil {
			all = s
			continue
		}
		merged, overlap, err := calib.Merge(all, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if overlap > 0 {
			e.warn("%s: %d samples are in other merged statistics too and are counted twice", file, overlap)
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
func (e *env) observe(ctx context.Context, m *model, o calibrateOptions, res *calibrateResult) (*calib.Stats, error) {
	var dev *cuda.Device
	if cmp.Or(o.backend, floatCPU) != floatCPU {
		var err error
		if dev, err = openDevice(o.backend); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		// What the device failed with is the error of the run.
		defer func() { _ = dev.Close() }()
		res.Device = dev.Name
		e.detail("calibrate: on %s", dev.Name)
	}
	set, pre, err := e.openData(m.Graph, o.data.of(m))
	if err != nil {
		return nil, err
	}
	if pre.Tokenizer != "" {
		pre.Tokenizer = plan.Relative(o.plan, pre.Tokenizer)
	}
	key, err := preprocessKey(pre)
	if err != nil {
		return nil, err
	}
	file := statsPath(o.plan)
	start := time.Now()
	var spent calib.Spent
	cfg := calib.Config{Threads: o.threads, Batch: o.batch, Memory: o.memory - o.data.memory, MinMaxOnly: o.minMaxOnly, Warn: e.warnAbout,
		Clock: func() time.Duration { return time.Since(start) }, Spent: &spent, Model: m.digest, Preprocess: key, Sources: sources(o.plan, o.data.paths), Seed: o.data.seed}
	if dev != nil {
		cfg.Device, cfg.Check = dev, new(calib.Check)
	}
	if old, err := calib.Load(file); err == nil && old.Model == cfg.Model && old.Preprocess == key && slices.Equal(old.Sources, cfg.Sources) && old.Seed == cfg.Seed {
		if old.HasBins() {
			cfg.MinMaxOnly = false // what is there already is worth more
		}
		if old.HasBins() || cfg.MinMaxOnly {
			cfg.Resume = old
		}
	}
	stats, doctor, err := e.observeOnce(ctx, m, set, pre, cfg)
	if err == nil && stats.Samples() != set.Len() { // the earlier statistics hold samples that are not in the data any more
		cfg.Resume = nil
		stats, doctor, err = e.observeOnce(ctx, m, set, pre, cfg)
	}
	if errors.Is(err, context.Canceled) && stats != nil && stats.Samples() > 0 {
		return nil, e.keep(stats, set.Len(), file, err)
	}
	if err != nil {
		return nil, err
	}
	res.ForwardSeconds, res.ObserveSeconds, res.DataSeconds = spent.Forward.Seconds(), spent.Observe.Seconds(), time.Since(start).Seconds()
	if c := cfg.Check; c != nil && c.Tensors > 0 {
		res.Check = c
		e.detail("calibrate: on the first sample the statistics of %d of %d tensors are those of the processor", c.Equal, c.Tensors)
	}
	for _, w := range doctor.Warnings() {
		e.warnAbout(w)
		res.Warnings = append(res.Warnings, w)
	}
	return stats, nil
}

// keep saves the statistics of an interrupted run. It returns err, which ended the run.
func (e *env) keep(stats *calib.Stats, of int, file string, err error) error {
	if saveErr := stats.Save(file); saveErr != nil {
		return errors.Join(err, saveErr)
	}
	e.note("interrupted after %d of %d samples; %s keeps them, and the same command goes on from there", stats.Samples(), of, file)
	return err
}

func (e *env) observeOnce(ctx context.Context, m *model, set *data.Set, pre plan.Preprocess, cfg calib.Config) (*calib.Stats, *data.Doctor, error) {
	tick, finish := e.progress("calibrate", set.Len())
	defer finish()
	cfg.Progress = func(done, _ int) {
		if tick(done); done == 2*max(cfg.Threads, 1)*max(cfg.Batch, 1) {
			debug.FreeOSMemory() // first runs find out what memory the later ones need, and leave all of their tensors
		}
	}
	doctor := data.NewDoctor(data.SpecOf(m.Graph), m.loaded, &pre)
	stats, err := calib.Run(ctx, m.Graph, &watched{set.Iterator(), doctor.Observe}, cfg)
	return stats, doctor, m.name("calibrate", err)
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

// makePlan writes down what was decided. Everything in it follows from the model, the statistics and the options, so that merged
// statistics give the plan of one run.
func makePlan(m *model, c *configured, stats *calib.Stats, t *target.Target, o calibrateOptions) (*plan.Plan, error) {
	pre, err := parsePreprocessKey(stats.Preprocess)
	if err != nil {
		return nil, fmt.Errorf("calibrate: the statistics' preprocessing: %w", err)
	}
	meta := plan.Meta{
		Model:      plan.File{Path: plan.Relative(o.plan, o.model), SHA256: m.digest},
		Data:       plan.Data{Paths: planPaths(o.plan, stats.Sources), Hash: plan.DataHash(sampleHashes(stats)), Synthetic: slices.ContainsFunc(stats.Sources, isSynthetic)},
		Preprocess: pre, Samples: stats.Samples(), Seed: int64(stats.Seed), Platform: t.Name, Profile: t.Profile,
		Observers:   plan.Observers{Activation: cmp.Or(o.Activation, t.Activation.Observer), Weight: cmp.Or(o.Weight, t.Weight.Observer)},
		ReduceRange: o.ReduceRange, PerTensor: o.PerTensor,
	}
	meta.Warnings = planWarnings(c, stats, meta.Data.Synthetic)
	return plan.FromSet(m.Graph, c.set, meta)
}

// planWarnings are what a plan says about its own scales.
func planWarnings(c *configured, stats *calib.Stats, synthetic bool) []tqc.Warning {
	list := slices.Concat(c.warnings, stats.Settled(0))
	if synthetic {
		list = append(list, tqc.Warning{Text: "calibrated on synthetic data: the ranges mean nothing for real inputs"})
	}
	return list
}
