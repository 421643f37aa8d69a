package calib

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"qwb/calib/data"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/tqc"
)

// Config says how Run works. The zero value is usable.
type Config struct {
	// Threads is how many samples are in the graph at a time, 0 for one, or, where Memory does not allow as many, how many threads
	// share the work on fewer samples. The result does not depend on it.
	Threads int
	// Batch is how many samples one run of the graph takes, 0 for one; inputs with the fixed size 1 are opened for it (see
	// graph.OpenBatch). The result does not depend on it: the first batch is run both ways, and where a single bit differs, or the
	// graph takes no batches, Warn is told why and samples are run one at a time.
	Batch int
	// Memory is about how many bytes the activations of the samples in the graph may take together, 0 for DefaultMemory. It bounds
	// batch and samples at a time, as far as the graph's shapes are known (graph.InferShapes); one sample is run whatever it takes.
	// Weights and statistics come on top.
	Memory int64
	// MinMaxOnly observes minima and maxima, of tensors and channels, and counts nothing: much faster, for statistics that serve
	// no method but minmax.
	MinMaxOnly bool
	// Only, if not nil, says by name which tensors are observed; sums are kept of what is read of them. Statistics that are resumed from were
	// made with the same.
	Only func(name string) bool
	// Padding, if not nil, says where samples are padded: such positions are in no range and no sum of rows. Padded, if not nil, is told how
	// many there were. On a device it is of no effect.
	Padding *graph.Padding
	Padded  *Padded
	// Coverage, if not nil, is told what the samples leave out: it was made for this graph.
	Coverage *Coverage
	// Summed, if not nil, says by hash which samples take part in sums; nil: those that are not held out, see exec.HeldOut.
	Summed func(hash [32]byte) bool
	// Device, if not nil, runs the graph and observes its tensors, instead of the processor; operators that it does not have run on
	// the processor. Statistics are the same where the device computes the same; Check, if not nil, is told whether it does.
	Device Device
	Check  *Check
	// Clock, if not nil, tells the time since some moment, and Spent is told where it went.
	Clock func() time.Duration
	Spent *Spent
	Warn  func(tqc.Warning) // may be nil
	// Model and Preprocess identify what is run and how samples are made (hashes, by convention). They are recorded, and
	// statistics that differ in them are never mixed.
	Model, Preprocess string
	// Sources and Seed say where the samples come from and are recorded too.
	Sources []string
	Seed    uint64
	// Resume holds earlier statistics to add to. As many samples of each hash as they contain are passed over, so that
	// an interrupted run that is repeated with what it left gives what it would have given. It is not changed.
	Resume *Stats
	// Progress, if not nil, is called after each sample with the number of samples done or passed over in this run and the
	// number there are (-1: unknown). Calls do not overlap.
	Progress func(done, total int)
}

// Padded counts positions of samples, and those of them that are padding.
type Padded struct {
	Positions int `json:"positions"`
	Padding   int `json:"padding"`
}

// Spent is where the time of a Run went, added up over its workers: running the graph, and observing its tensors, which on a device is
// part of running the graph. Reading data is in neither.
type Spent struct{ Forward, Observe time.Duration }

// Run executes g in float on every sample and observes each graph input and node output that is float32. Memory does not
// depend on the number of samples: one forward per thread, and for each tensor a state below observers.MaxMemory.
//
// When ctx is cancelled, samples that have begun are finished and Run returns both the statistics so far, which are whole
// and can be merged, saved or resumed from, and ctx's error. A sample that fails, or a NaN in any tensor, ends the run with an
// error (that of the first such sample in the order of the data) and without statistics.
func Run(ctx context.Context, g *graph.Graph, samples exec.Iterator, cfg Config) (*Stats, error) {
	if cfg.Batch > 1 {
		open, err := graph.OpenBatch(g)
		if err == nil {
			g = open
		} else {
			if cfg.Warn != nil {
				cfg.Warn(oneAtATime(cfg.Batch, err))
			}
			cfg.Batch = 1
		}
	}
	r, err := newRun(g, samples, cfg)
	if err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	defer r.close()
	r.feed(ctx)
	if r.failed != nil {
		return nil, r.failed
	}
	stats := r.stats()
	if err := ctx.Err(); err != nil {
		return stats, err
	}
	return stats, nil
}

// run is the state of one Run.
type run struct {
	g           *graph.Graph
	samples     exec.Iterator
	cfg         Config
	trackers    []*tracker // by ValueID, nil for what is not observed
	skip        map[Hash]int
	withoutSums bool // earlier statistics have none
	batches     bool // the graph has been seen to take batches
	threads     int  // that share the work on a sample
	session     *exec.Session
	device      DeviceGraph // in place of session
	again       classCounts // of samples that earlier statistics have

	mu       sync.Mutex
	base     *Stats // without tensors
	fresh    classCounts
	done     int
	failed   error
	failedAt int
}

// job is one sample and its place in the data.
type job struct {
	index  int
	sample *exec.Sample
}

// ErrOtherForm is why statistics cannot be gone on with that were taken of the same model in another normal form, by an earlier version.
var ErrOtherForm = errors.New("the graph has no float tensor")

func newRun(g *graph.Graph, samples exec.Iterator, cfg Config) (*run, error) {
	r := &run{g: g, samples: samples, cfg: cfg, skip: map[Hash]int{}, trackers: newTrackers(g, cfg.Only, cfg.MinMaxOnly, cfg.Device == nil),
		base: &Stats{Model: cfg.Model, Preprocess: cfg.Preprocess, Sources: union(cfg.Sources, nil), Seed: cfg.Seed}}
	if old := cfg.Resume; old != nil {
		if cfg.Coverage != nil {
			cfg.Coverage.again = true
		}
		if err := sameOrigin(r.base, old); err != nil {
			return nil, fmt.Errorf("calibrate: statistics to resume from: %w", err)
		}
		if len(old.tensors) > 0 && old.HasBins() == cfg.MinMaxOnly {
			return nil, errors.New("calibrate: statistics to resume from: minima and maxima only do not go together with bins")
		}
		r.base.Sources, r.base.Seed = union(r.base.Sources, old.Sources), commonSeed(r.base.Seed, old.Seed)
		r.base.hashes = append(r.base.hashes, old.hashes...)
		r.base.kept = append(r.base.kept, old.kept...)
		for _, h := range old.hashes {
			r.skip[h]++
		}
		for name, t := range old.tensors {
			v, ok := g.Lookup(name)
			if !ok || r.trackers[v] == nil {
				return nil, fmt.Errorf("calibrate: statistics to resume from: %w %q", ErrOtherForm, name)
			}
			r.trackers[v].resume(t)
		}
		if err := r.resumeSums(old); err != nil {
			return nil, fmt.Errorf("calibrate: statistics to resume from: %w", err)
		}
	}
	return r, nil
}

// prepare makes the graph ready to run.
func (r *run) prepare() (err error) {
	if r.cfg.Device != nil {
		r.device, err = r.cfg.Device.OpenGraph(r.g, max(r.cfg.Threads, 1))
	} else {
		r.session, err = exec.New(r.g, exec.Options{Threads: 1})
	}
	return err
}

// close gives the memory of a device back.
func (r *run) close() {
	if r.device != nil {
		// What the device failed with, it failed with before.
		_ = r.device.Close()
	}
}

// worker runs the graph on samples, for one goroutine.
type worker interface {
	// observe runs a group of samples as one batch and observes all tensors.
	observe(ctx context.Context, b *batch) error
	// all runs the graph and shows every float32 value that is observed, which may be gone afterwards.
	all(ctx context.Context, feeds map[string]*tensor.Tensor, show func(v graph.ValueID, t *tensor.Tensor) error) error
	// finish leaves what was observed with the trackers.
	finish() error
	close()
}

func (r *run) worker() worker {
	if r.device != nil {
		return newDeviceWorker(r, r.device)
	}
	return &hostWorker{r, r.session.NewRunner()}
}

// feed hands samples to the workers, in order, until the data ends, something fails or ctx is cancelled, and waits for all
// that were handed out. The first failing sample is therefore always among them.
func (r *run) feed(ctx context.Context) {
	jobs := make(chan *batch)
	var workers sync.WaitGroup
	size := 0 // samples in a batch, once the first one has been seen
	var group []job
	for i := 0; ctx.Err() == nil && !r.stopped(); i++ {
		s, err := r.samples.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() == nil {
				r.fail(i, fmt.Errorf("calibrate: sample %d: %w", i, err))
			}
			break
		}
		if h := Hash(s.Hash); r.skip[h] > 0 {
			r.skip[h]--
			r.again.add(s.Label, 1)
			r.count()
			continue
		}
		if size == 0 {
			if err := r.fit(ctx, s.Feeds); err != nil {
				r.fail(i, fmt.Errorf("calibrate: %w", err))
				break
			}
			c, w := r.cfg.hire(r.g, s.Feeds)
			if w.Text != "" {
				r.warn(w)
			}
			if err = r.start(ctx, c, s, jobs, &workers); err != nil {
				r.fail(i, fmt.Errorf("calibrate: %w", err))
				break
			}
			size = c.batch
		}
		if group = append(group, job{i, s}); len(group) < size {
			continue
		}
		if size > 1 && !r.batches {
			if err := r.tryBatch(ctx, r.worker(), group); err != nil {
				r.warn(oneAtATime(size, err))
				size = 1
				for _, j := range group {
					jobs <- r.batch(j)
				}
				group = nil
				continue
			}
			r.batches = true
		}
		jobs <- r.batch(group...)
		group = nil
	}
	for _, j := range group { // the rest of the data is no whole batch
		jobs <- r.batch(j)
	}
	close(jobs)
	workers.Wait()
}

// start starts the workers of a crew, which share operators among threads if it says so. A device is compared with the processor on
// the first sample before.
func (r *run) start(ctx context.Context, c crew, first *exec.Sample, jobs <-chan *batch, done *sync.WaitGroup) error {
	if r.threads = c.threads; c.threads > 1 && r.session != nil {
		var err error
		if r.session, err = exec.New(r.g, exec.Options{Context: ctx, Threads: c.threads}); err != nil {
			return err
		}
	}
	if r.device != nil && r.cfg.Check != nil {
		if err := r.check(ctx, first); err != nil {
			return err
		}
	}
	for range c.workers {
		done.Go(func() {
			w := r.worker()
			defer w.close()
			for b := range jobs {
				r.group(ctx, w, b)
			}
			if r.stopped() {
				return
			}
			if err := graph.Try(w.finish); err != nil {
				r.fail(math.MaxInt, fmt.Errorf("calibrate: %w", err))
			}
		})
	}
	return nil
}

// oneAtATime says why samples are not run in batches.
func oneAtATime(batch int, err error) tqc.Warning {
	return tqc.Warning{Text: fmt.Sprintf("samples run one at a time instead of %d: %v", batch, err), Value: float64(batch)}
}

func (r *run) warn(w tqc.Warning) {
	if r.cfg.Warn != nil {
		r.cfg.Warn(w)
	}
}

// group runs one sample, or a batch of them, to its end, whatever becomes of ctx: half a sample must not be in the statistics.
func (r *run) group(ctx context.Context, w worker, b *batch) {
	if err := graph.Try(func() error { return w.observe(context.WithoutCancel(ctx), b) }); err != nil {
		r.fail(b.group[0].index, fmt.Errorf("calibrate: sample %s: %w", names(b.group), r.becauseOf(b.group, err)))
		return
	}
	for _, j := range b.group {
		r.mu.Lock()
		r.base.hashes = append(r.base.hashes, Hash(j.sample.Hash))
		r.base.keep(Kept{Hash: Hash(j.sample.Hash), Feeds: j.sample.Feeds})
		r.fresh.add(j.sample.Label, 1)
		r.countPadding(j.sample)
		r.mu.Unlock()
		r.count()
	}
}

// becauseOf puts in front of an error what the samples themselves hold that is no number: not the operator that trips over it is to blame.
// What is said of an input already stays as it is.
func (r *run) becauseOf(group []job, err error) error {
	var inputs []string
	for _, v := range r.g.Inputs {
		inputs = append(inputs, r.g.Value(v).Name)
	}
	for _, j := range group {
		for _, bad := range data.NotFinites(j.sample, inputs) {
			if bad.Value == bad.Value { // NaN is refused at the input
				return fmt.Errorf("%s; behind it: %w", bad, err)
			}
		}
	}
	return err
}

// hostWorker is a worker of the processor.
type hostWorker struct {
	run    *run
	runner *exec.Runner
}

func (w *hostWorker) finish() error { return nil }
func (w *hostWorker) close()        {}

func (w *hostWorker) all(ctx context.Context, feeds map[string]*tensor.Tensor, show func(v graph.ValueID, t *tensor.Tensor) error) error {
	values, err := w.runner.RunAll(ctx, feeds, nil, nil)
	for v, t := range values {
		if err == nil && t != nil && w.run.trackers[v] != nil && t.DType == tensor.Float32 {
			err = show(graph.ValueID(v), t)
		}
	}
	return err
}

func (w *hostWorker) observe(ctx context.Context, b *batch) error {
	r := w.run
	var watch stopwatch
	defer func() { r.spend(watch) }()
	watch.start(r.cfg.Clock)
	seen := r.seenSamples(b.group)
	for _, v := range r.g.Inputs {
		for k, j := range b.group {
			t := j.sample.Feeds[r.g.Value(v).Name]
			if t == nil || r.trackers[v] == nil {
				continue
			}
			if err := r.trackers[v].observe(v, t, seen[k]); err != nil {
				return fmt.Errorf("graph input %q: %w", r.g.Value(v).Name, err)
			}
		}
	}
	feeds, err := b.stacked()
	if err != nil {
		return err
	}
	watch.forward()
	v := &viewer{run: r, group: b.group, seen: seen, watch: &watch}
	hooks := &exec.Hooks{Wants: v.wantsWhole, Output: v.whole, Looks: v.looks, Look: v.look, Looked: v.looked}
	if c := r.cfg.Coverage; c != nil {
		hooks.Wants = func(id graph.ValueID) bool { return v.wantsWhole(id) || c.wants(id) }
		hooks.Input, hooks.Chose = c.input, c.chose
	}
	_, err = w.runner.Run(ctx, feeds, hooks)
	watch.looked(time.Duration(v.looking.Load()), max(r.threads, 1))
	if err != nil {
		return unstaged(err)
	}
	r.complete(seen)
	return nil
}

// unstaged takes the stage out of an error: whoever names the sample names the stage.
func unstaged(err error) error {
	var at *graph.NodeError
	if errors.As(err, &at) {
		at.Stage = ""
	}
	return err
}

// blame says which parameter of a node is not finite, where one is: the likely reason of an output that cannot be observed.
func (r *run) blame(n *graph.Node) string {
	for _, v := range n.Inputs {
		if v < 0 {
			continue
		}
		if t := r.g.Const(v); t != nil && t.DType == tensor.Float32 {
			for i, x := range t.F32() {
				if x != x || math.IsInf(float64(x), 0) {
					return fmt.Sprintf("; element %d of parameter %q is %v", i, r.g.Value(v).Name, x)
				}
			}
		}
	}
	return ""
}

func (r *run) count() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.done, r.samples.Len())
	}
}

func (r *run) fail(index int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil || index < r.failedAt {
		r.failed, r.failedAt = err, index
	}
}

// odd notes that sums are not what they should be: the shape of a value was not the one its reader needs. The reader fails then.
func (r *run) odd(err error) { r.fail(math.MaxInt-1, fmt.Errorf("calibrate: %w", err)) }

func (r *run) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed != nil
}

// stats collects what was seen.
func (r *run) stats() *Stats {
	s := r.base
	sortHashes(s.hashes)
	s.tensors = map[string]*Tensor{}
	for _, t := range r.trackers {
		if t != nil {
			t.finish()
		}
	}
	for v, t := range r.trackers {
		if t != nil && t.seen != nil {
			t.seen.State.SetSamples(t.extents())
			s.tensors[r.g.Value(graph.ValueID(v)).Name] = t.seen
		}
	}
	r.collectSums(s)
	r.collectClasses(s)
	return s
}
