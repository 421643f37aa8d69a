package qwb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"qwb/calib"
	"qwb/export"
	"qwb/graph"
	"qwb/graph/language/decode"
	"qwb/observers"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Project is a model with its plan and its statistics, and what may be done with them: each method is one command. A method touches
// nothing but the files of the store and what the catalog offers, so that projects can be worked on side by side in one process. A
// project may be copied; one that is worked on must not be changed.
type Project struct {
	// Model is the model's file, or the file or folder of a language model's checkpoint. What has a plan takes the model that the plan
	// names.
	Model string
	// Plan is the plan's file. Its name ends in PlanSuffix.
	Plan string
	// Stats is the file of the statistics; empty: beside the plan, as StatsPath names it.
	Stats string
	// Store is where these files are; nil: OS.
	Store Store
	// Events hears of progress and warnings while a method works; nil: nobody does.
	Events Events
	// Catalog is what there is to work with.
	Catalog Catalog
}

// project is the files that a job works on: a Project without what may be done with it.
type project struct {
	Model, Plan, Stats string
	Store              Store
	Events             Events
	Catalog            Catalog
}

// Catalog is what a process offers its projects. The zero value has no backend for integers, so that nothing can be verified.
type Catalog struct {
	// Version is the release that stands in exported files.
	Version string
	// Platforms are what models can be quantized for; empty: the built-in ones.
	Platforms target.Catalog
	// Backends are what runs integers: program.Reference and the Backend of program/cpu, for example. The second, or else the first, is taken where none is named.
	Backends []program.Backend
	// Formats are what can be exported: all.Formats() of export/all, for one.
	Formats []export.Format
	// Observers are calibration methods beside the built-in ones; their names have a slash, acme/three-sigma. They are used where a target, an
	// option or a decision names them. A plan that names one is understood by every program and derived anew only by one that has it.
	Observers []*observers.Method
	// Operators are those that models may have beside those of ONNX, each of a domain of its own.
	Operators []*graph.Operator
	// OpenDevice opens the device that a float model runs on by the name of its backend; nil: there are none.
	OpenDevice func(backend string) (Device, error)
	// Now is the clock that durations in results are of; nil: they are 0.
	Now func() time.Time
	// PeakMemory is the most memory that the process has taken so far, in bytes; nil: results say 0.
	PeakMemory func() int64
	// MetricCommand starts a program that scores outputs, by its command line and the names of the outputs; nil: none can be started. It is
	// stopped when ctx ends.
	MetricCommand func(ctx context.Context, command string, outputs []string) (MetricCommand, error)
	// Settled is called once in a calibration, when the first runs have found out what memory the later ones need and have left all of
	// their tensors: the moment to give memory back. May be nil.
	Settled func()
}

// Device is what float models run on in place of the processor: calibration and language models.
type Device interface {
	calib.Device
	decode.Device
	Label() string // its name, for people
	Close() error
}

// Events are what a method says while it works. They come from one goroutine at a time, but for the function that Progress returns,
// which any may call.
type Events interface {
	// Progress begins a piece of work of so many items, 0 or less if nobody knows. done is told how many are done, end that it is over;
	// end may be called twice.
	Progress(what string, total int) (done func(int), end func())
	// Note is something that whoever waits for the result wants to know, Detail something that few want to know.
	Note(text string)
	Detail(text string)
	// Warning is also among the warnings that the method returns.
	Warning(w tqc.Warning)
}

// job is one call of a method.
type job struct {
	*project
	mu       sync.Mutex // of warnings and of what is told to Events: readers of text are several
	warnings []tqc.Warning
	seen     *plan.Plan      // the project's plan as it was read or written last
	modelAt  string          // where the model of the plan is, if not where the plan says
	runs     []watchedRun    // what has run plans
	ctx      context.Context // of the call; nil: nothing ends it
}

func (p *Project) job() *job { return &job{project: (*project)(p)} }

// in is the job in a context, which ends what it does to open files too.
func (j *job) in(ctx context.Context) *job {
	j.ctx = ctx
	return j
}

func (j *job) context() context.Context { return cmp.Or(j.ctx, context.Background()) }

// planRun is what runs a plan: it names the tensors in which it met numbers that are not finite and went on.
type planRun interface{ Infinite() []string }

// watchedRun is a run of a plan.
type watchedRun struct {
	file string
	run  planRun
}

// ran remembers what runs the plan of a file.
func (j *job) ran(file string, run planRun) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs = append(j.runs, watchedRun{file, run})
}

// watched are the runs of plans so far.
func (j *job) watched() []watchedRun {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.runs)
}

// warn warns about the whole.
func (j *job) warn(format string, args ...any) {
	j.warnAbout(tqc.Warning{Text: fmt.Sprintf(format, args...)})
}

func (j *job) warnAbout(w tqc.Warning) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.warnings = append(j.warnings, w)
	if j.Events != nil {
		j.Events.Warning(w)
	}
}

// warnNew warns about what the plan does not warn about already. That was said when it was made, and plan show says it.
func (j *job) warnNew(p *plan.Plan, list []tqc.Warning) {
	for _, w := range list {
		if !slices.Contains(p.Warnings, w) {
			j.warnAbout(w)
		}
	}
	if n := len(p.Warnings); n > 0 {
		j.detail("warnings that came with the plan: %d, the first: %s", n, p.Warnings[0].Text)
	}
}

func (j *job) note(format string, args ...any) {
	if j.Events != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.Events.Note(fmt.Sprintf(format, args...))
	}
}

func (j *job) detail(format string, args ...any) {
	if j.Events != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.Events.Detail(fmt.Sprintf(format, args...))
	}
}

func (j *job) progress(what string, total int) (done func(int), end func()) {
	if j.Events == nil {
		return func(int) {}, func() {}
	}
	return j.Events.Progress(what, total)
}

// stopwatch begins to measure a duration, in seconds.
func (j *job) stopwatch() func() float64 {
	passed := j.clock()
	return func() float64 { return passed().Seconds() }
}

// clock is what has passed since it was made.
func (j *job) clock() func() time.Duration {
	if j.Catalog.Now == nil {
		return func() time.Duration { return 0 }
	}
	start := j.Catalog.Now()
	return func() time.Duration { return j.Catalog.Now().Sub(start) }
}

func (j *job) settled() {
	if j.Catalog.Settled != nil {
		j.Catalog.Settled()
	}
}

func (c *Catalog) openDevice(backend string) (Device, error) {
	if c.OpenDevice == nil {
		return nil, fmt.Errorf("backend %s: this program runs on the processor only", backend)
	}
	return c.OpenDevice(backend)
}

func (j *job) peakMemory() int64 {
	if j.Catalog.PeakMemory == nil {
		return 0
	}
	return j.Catalog.PeakMemory()
}

// PlanSuffix is how the names of plans end.
const PlanSuffix = ".plan.json"

// StatsPath is where the statistics lie that belong to a plan.
func StatsPath(plan string) string { return strings.TrimSuffix(plan, PlanSuffix) + ".stats" }

// stats is the project's file of statistics.
func (p *project) stats() string {
	if p.Stats != "" {
		return p.Stats
	}
	return StatsPath(p.Plan)
}

// backend finds a backend by its name, the one to take for an empty name. It need not be here.
func (c *Catalog) backend(name string) (program.Backend, error) {
	if name == "" {
		if len(c.Backends) == 0 {
			return program.Backend{}, Usagef("this program has no backend for integers")
		}
		return c.Backends[min(1, len(c.Backends)-1)], nil
	}
	names := make([]string, len(c.Backends))
	for i, b := range c.Backends {
		if b.Name == name {
			return b, nil
		}
		names[i] = b.Name
	}
	return program.Backend{}, Usagef("unknown backend %q: one of %s", name, strings.Join(names, ", "))
}

// present finds a backend that has to be here.
func (c *Catalog) present(name string) (program.Backend, error) {
	b, err := c.backend(name)
	if err != nil {
		return b, err
	}
	return b, here(b)
}

// here says why a backend is not here.
func here(b program.Backend) error {
	if b.Missing == nil {
		return nil
	}
	if err := b.Missing(); err != nil {
		return fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return nil
}
