// Package open is what every piece of work begins with: a job, with the files it works on and what there is to work with, and what
// it opens: models, data, platforms, metrics.
package open

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"qwb/export"
	"qwb/graph"
	"qwb/internal/work/fault"
	"qwb/internal/work/store"
	"qwb/observers"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Project is the files that a job works on: a Project without what may be done with it.
type Project struct {
	Model, Plan, Stats string
	Store              store.Store
	Events             Events
	Catalog            Catalog
}

// Catalog is what a process offers its projects. The zero value has no backend for integers, so that nothing can be verified.
type Catalog struct {
	// Version is the release that stands in exported files.
	Version string
	// Platforms are what models can be quantized for; empty: the built-in ones.
	Platforms target.Catalog
	// Backends are what runs integers: program.Reference and the Backend of program/cpu, for example. The second, or else the first, is taken
	// where none is named.
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
	// SecondReader reads ONNX in another way than qwb; nil: there is none.
	SecondReader *SecondReader
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

// SecondReader is another reader of ONNX: its name with its version, and what makes a graph of a file.
type SecondReader struct {
	Name string
	Read func(model []byte) (*graph.Graph, error)
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

// Job is one call of a method.
type Job struct {
	*Project
	mu       sync.Mutex // of warnings and of what is told to Events: readers of text are several
	Warnings []tqc.Warning
	Seen     *plan.Plan      // the project's plan as it was read or written last
	ModelAt  string          // where the model of the plan is, if not where the plan says
	runs     []watchedRun    // what has run plans
	Ctx      context.Context // of the call; nil: nothing ends it
}

// In is the job in a context, which ends what it does to open files too.
func (j *Job) In(ctx context.Context) *Job {
	j.Ctx = ctx
	return j
}

func (j *Job) Context() context.Context { return cmp.Or(j.Ctx, context.Background()) }

// PlanRun is what runs a plan: it names the tensors in which it met numbers that are not finite and went on.
type PlanRun interface{ Infinite() []string }

// watchedRun is a run of a plan.
type watchedRun struct {
	File string
	Run  PlanRun
}

// Ran remembers what runs the plan of a file.
func (j *Job) Ran(file string, run PlanRun) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs = append(j.runs, watchedRun{file, run})
}

// Watched are the runs of plans so far.
func (j *Job) Watched() []watchedRun {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.runs)
}

// Warn warns about the whole.
func (j *Job) Warn(format string, args ...any) {
	j.WarnAbout(tqc.Warning{Text: fmt.Sprintf(format, args...)})
}

func (j *Job) WarnAbout(w tqc.Warning) { j.WarnAll([]tqc.Warning{w}) }

// WarnAll warns of everything in the list. What says the same of many tensors is heard once; --verbose has the others.
func (j *Job) WarnAll(list []tqc.Warning) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Warnings = append(j.Warnings, list...)
	if j.Events == nil {
		return
	}
	shown, rest := tqc.Folded(list)
	for _, w := range shown {
		j.Events.Warning(w)
	}
	for _, w := range rest {
		j.Events.Detail(w.String())
	}
}

// WarnNew warns about what the plan does not warn about already. That was said when it was made, and plan show says it.
func (j *Job) WarnNew(p *plan.Plan, list []tqc.Warning) {
	known := map[tqc.Warning]bool{}
	for _, w := range p.Warnings {
		known[w] = true
	}
	j.WarnAll(slices.DeleteFunc(slices.Clone(list), func(w tqc.Warning) bool { return known[w] }))
	if n := len(p.Warnings); n > 0 {
		j.Detail("warnings that came with the plan: %d, the first: %s", n, p.Warnings[0].Text)
	}
}

func (j *Job) Note(format string, args ...any) {
	if j.Events != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.Events.Note(fmt.Sprintf(format, args...))
	}
}

func (j *Job) Detail(format string, args ...any) {
	if j.Events != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.Events.Detail(fmt.Sprintf(format, args...))
	}
}

func (j *Job) Progress(what string, total int) (done func(int), end func()) {
	if j.Events == nil {
		return func(int) {}, func() {}
	}
	return j.Events.Progress(what, total)
}

// Stopwatch begins to measure a duration, in seconds.
func (j *Job) Stopwatch() func() float64 {
	passed := j.Clock()
	return func() float64 { return passed().Seconds() }
}

// Clock is what has passed since it was made.
func (j *Job) Clock() func() time.Duration {
	if j.Catalog.Now == nil {
		return func() time.Duration { return 0 }
	}
	start := j.Catalog.Now()
	return func() time.Duration { return j.Catalog.Now().Sub(start) }
}

func (j *Job) Settled() {
	if j.Catalog.Settled != nil {
		j.Catalog.Settled()
	}
}

func (j *Job) PeakMemory() int64 {
	if j.Catalog.PeakMemory == nil {
		return 0
	}
	return j.Catalog.PeakMemory()
}

// StatsFile is the project's file of statistics.
func (p *Project) StatsFile() string {
	if p.Stats != "" {
		return p.Stats
	}
	return store.StatsPath(p.Plan)
}

// Backend finds a backend by its name, the one to take for an empty name. It need not be here.
func (c *Catalog) Backend(name string) (program.Backend, error) {
	if name == "" {
		if len(c.Backends) == 0 {
			return program.Backend{}, fault.Usagef("this program has no backend for integers")
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
	return program.Backend{}, fault.Usagef("unknown backend %q: one of %s", name, strings.Join(names, ", "))
}

// Present finds a backend that has to be here.
func (c *Catalog) Present(name string) (program.Backend, error) {
	b, err := c.Backend(name)
	if err != nil {
		return b, err
	}
	return b, Here(b)
}

// Here says why a backend is not here.
func Here(b program.Backend) error {
	if b.Missing == nil {
		return nil
	}
	if err := b.Missing(); err != nil {
		return fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return nil
}
