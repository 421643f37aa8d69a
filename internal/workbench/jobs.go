package workbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"qwb"
	"qwb/graph"
	"qwb/internal/options"
	"qwb/quantizer/tqc"
)

// Job is a piece of work that takes its time.
type Job struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Command string `json:"command"` // that does the same
	Changes bool   `json:"changes"` // it may write the plan, or open another
	State   string `json:"state"`
	// What is being done, how much of it is done and how much there is, 0 where nobody knows.
	What  string `json:"what"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
	// Seconds since it began, and how many are left of What; nil where nobody knows.
	Seconds  float64       `json:"seconds"`
	ETA      *float64      `json:"eta"`
	Notes    []string      `json:"notes"`
	Warnings []tqc.Warning `json:"warnings"`
	Error    *qwb.Fault    `json:"error"`              // nil unless it failed, or did not hold what was asked for
	Revision string        `json:"revision,omitempty"` // of the plan that the result is about: afterwards, where the job may have changed it
}

// States of a job.
const (
	Queued    = "queued"
	Running   = "running"
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
)

func (j *Job) over() bool { return j.State != Queued && j.State != Running }

// piece is a job with what it is to do.
type piece struct {
	Job
	kind    *jobKind
	work    work
	table   options.Table // what the work was told
	options string        // the same as JSON
	plan    string        // revision of the plan that it was decided on; once the job has ended that it is to follow, the one which that left
	after   *piece        // the job in front that it is to follow, nil: none
	began   time.Time
	since   time.Time // of What
	told    time.Time // when the last event went out
	cancel  context.CancelFunc
	result  json.RawMessage
	failed  error
	ended   chan struct{} // closed when it is over
}

// queue runs jobs one at a time, in the order in which they were started.
type queue struct {
	bench *Bench
	mu    sync.Mutex
	list  []*piece // all that are remembered, the oldest first
	next  int      // number of the next one
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

// remembered is how many jobs that are over are kept.
const remembered = 50

// mostJobs is how many jobs may wait.
const mostJobs = 100

// keptBytes is how much their results may be as JSON, those excepted that are the newest of their kind.
var keptBytes = 64 << 20

func (q *queue) open(b *Bench) {
	ctx, stop := context.WithCancel(context.Background())
	q.bench, q.stop, q.wake, q.done = b, stop, make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(q.done)
		for {
			t, run := q.take(ctx)
			if t == nil {
				select {
				case <-q.wake:
					continue
				case <-ctx.Done():
					return
				}
			}
			q.run(run, t)
		}
	}()
}

func (q *queue) close() {
	q.stop()
	<-q.done
}

// take returns the next job that waits, as one that runs.
func (q *queue) take(ctx context.Context) (*piece, context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.list {
		if t.State == Queued && ctx.Err() == nil {
			run, cancel := context.WithCancel(ctx)
			t.State, t.began, t.cancel = Running, q.bench.now(), cancel
			return t, run
		}
	}
	return nil, nil
}

func (q *queue) run(ctx context.Context, t *piece) {
	defer t.cancel()
	b := q.bench
	q.tell(t, true)
	var result json.RawMessage
	revision, err := q.due(t)
	if err == nil {
		p := b.project()
		p.Events = &heard{q, t}
		result, err = t.ending(ctx, func() (json.RawMessage, error) { return t.did(pausing{ctx, b}, b, p) })
	}
	q.mu.Lock()
	t.result, t.failed, t.State, t.What, t.ETA, t.Revision = result, err, Done, "", nil, revision
	q.forget(t)
	t.Seconds = q.bench.since(t.began)
	if err != nil {
		f := qwb.Describe(err)
		if errors.As(err, new(*StaleError)) {
			f.Kind = qwb.KindChanged
		}
		if t.Error = &f; f.Kind == qwb.KindCanceled {
			t.State = Cancelled
		} else if f.Kind != qwb.KindCheck || result == nil {
			t.State = Failed
		}
	}
	q.mu.Unlock()
	if t.kind.Changes {
		revision := b.Revision()
		q.mu.Lock()
		t.Revision = revision
		for _, o := range q.list {
			if o.after == t && t.State == Done {
				o.plan, o.after = revision, nil
			}
		}
		q.mu.Unlock()
	}
	close(t.ended)
	q.tell(t, true)
	if t.kind.Changes && t.State == Done {
		b.hub.publish(Event{Type: "plan", Revision: t.Revision, Command: t.Command})
	}
}

// patience is how long a job that was stopped may take to end. One that waits for the system, a disk of another machine for one, would keep
// all others waiting.
var patience = 10 * time.Second

// ending does the work of a job, and waits for its end no longer than patience where it was stopped.
func (t *piece) ending(ctx context.Context, did func() (json.RawMessage, error)) (json.RawMessage, error) {
	done := make(chan struct{})
	var r json.RawMessage
	var failed error
	go func() {
		defer close(done)
		r, failed = did()
	}()
	select {
	case <-done:
		return r, failed
	case <-ctx.Done():
	}
	select {
	case <-done:
		return r, failed
	case <-time.After(patience):
		return nil, fmt.Errorf("%s waits for something that does not come and was left alone: %w", t.Kind, ctx.Err())
	}
}

// did does what the job is for. A panic, be it a bug of qwb or a file that was cut off where it is read in place, fails the job and nothing
// else.
func (t *piece) did(ctx context.Context, b *Bench, p *qwb.Project) (json.RawMessage, error) {
	var r any
	err := graph.Try(func() (err error) {
		r, _, err = t.work.run(ctx, b, p)
		return err
	})
	if bug := (*graph.Bug)(nil); errors.As(err, &bug) {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, bug.Stack)
	}
	if r == nil {
		return nil, err
	}
	result, failed := json.Marshal(r)
	return result, errors.Join(err, failed)
}

// forget drops the oldest results where there are too many bytes of them, but none that is the newest of its kind; the queue is locked. now is the
// newest.
func (q *queue) forget(now *piece) {
	newest, bytes := map[*jobKind]bool{now.kind: true}, len(now.result)
	for _, t := range slices.Backward(q.list) {
		if t == now || t.result == nil {
			continue
		}
		if bytes += len(t.result); bytes > keptBytes && newest[t.kind] {
			t.result = nil
		}
		newest[t.kind] = true
	}
}

// due reports whether a job whose turn has come is about what it was started on: meanwhile another model may have been opened, or the plan
// been written. From now on nobody else writes it. It returns the revision of the plan.
func (q *queue) due(t *piece) (revision string, err error) {
	b := q.bench
	b.changing.Lock() // whoever is writing it ends first
	defer b.changing.Unlock()
	line, err := t.work.line(b, t.table)
	if err != nil {
		return "", err
	}
	now := b.Revision()
	if line != t.Command {
		return "", &StaleError{now}
	}
	if !t.kind.Changes || t.kind.Opens {
		return now, nil
	}
	if t.after != nil {
		return "", qwb.Usagef("%s, which this was to follow, did not come to its end: nothing was done", t.after.Kind)
	}
	if now != t.plan {
		return "", &StaleError{now}
	}
	return now, nil
}

// tell says how a job stands, at most ten times a second unless it is worth more.
func (q *queue) tell(t *piece, always bool) {
	q.mu.Lock()
	if !always && !t.told.IsZero() && q.bench.since(t.told) < 0.1 {
		q.mu.Unlock()
		return
	}
	t.told = q.bench.now()
	j := q.snapshot(t)
	q.mu.Unlock()
	q.bench.hub.publish(Event{Type: "job", Job: &j})
}

// snapshot is the job as it stands; the queue is locked.
func (q *queue) snapshot(t *piece) Job {
	j := t.Job
	j.Notes, j.Warnings = slices.Clone(j.Notes), slices.Clone(j.Warnings)
	if j.State == Running {
		j.Seconds = q.bench.since(t.began)
		if passed := q.bench.since(t.since); passed > 0 && j.Done > 0 && j.Total > 0 {
			left := passed * float64(j.Total-j.Done) / float64(j.Done)
			j.ETA = &left
		}
	}
	return j
}

// all lists the jobs, the oldest first.
func (q *queue) all() []Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]Job, len(q.list))
	for i, t := range q.list {
		list[i] = q.snapshot(t)
	}
	return list
}

// running is the job that runs, nil if none does.
func (q *queue) running() *Job {
	for _, j := range q.all() {
		if j.State == Running {
			return &j
		}
	}
	return nil
}

// changes reports whether jobs of a kind may write the plan.
func changes(kind string) bool {
	return slices.ContainsFunc(kinds, func(k jobKind) bool { return k.Name == kind && k.Changes })
}

// opens reports whether a start is that of a job which only opens a file: what the page saw before matters nothing to it.
func opens(params json.RawMessage) bool {
	var p struct{ Kind string }
	return json.Unmarshal(params, &p) == nil && slices.ContainsFunc(kinds, func(k jobKind) bool { return k.Name == p.Kind && k.Opens })
}

// start puts a job into the queue. after is the last job in front of it that its caller knew to write the plan. One that is there already, and
// is not over, is not there twice.
func (q *queue) start(k *jobKind, w work, told options.Table, line, after string) (Job, error) {
	revision := q.bench.Revision()
	text, err := json.Marshal(told)
	if err != nil {
		return Job{}, err
	}
	q.mu.Lock()
	var front *piece
	for _, o := range q.list {
		if o.over() {
			continue
		}
		if o.kind == k && o.Command == line && o.options == string(text) {
			j := q.snapshot(o)
			q.mu.Unlock()
			return j, nil
		}
		if o.kind.Changes {
			front = o
		}
	}
	if front != nil && k.Changes && !k.Opens && front.ID != after {
		q.mu.Unlock()
		return Job{}, qwb.Usagef("%s, job %s, was started meanwhile and may write the plan: look at what comes of it first", front.Kind, front.ID)
	}
	waiting := 0
	for _, o := range q.list {
		if !o.over() {
			waiting++
		}
	}
	if waiting >= mostJobs {
		q.mu.Unlock()
		return Job{}, qwb.Usagef("%d jobs wait already: stop some, or wait until they are done", waiting)
	}
	q.next++
	t := &piece{Job: Job{ID: fmt.Sprint(q.next), Kind: k.Name, Command: line, Changes: k.Changes, State: Queued, Notes: []string{}, Warnings: []tqc.Warning{}},
		kind: k, work: w, table: told, options: string(text), plan: revision, after: front, ended: make(chan struct{})}
	q.list = append(q.list, t)
	over := 0
	for _, o := range q.list {
		if o.over() {
			over++
		}
	}
	q.list = slices.DeleteFunc(q.list, func(o *piece) bool {
		if over > remembered && o.over() {
			over--
			return true
		}
		return false
	})
	j := q.snapshot(t)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	q.bench.hub.publish(Event{Type: "job", Job: &j})
	return j, nil
}

// wait waits for the end of a job and returns its result; where ctx ends before, the job is stopped.
func (q *queue) wait(ctx context.Context, id string) (any, error) {
	q.mu.Lock()
	t, err := q.find(id)
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
		_, err := q.bench.cancelJob(ctx, jobID{id})
		return nil, errors.Join(ctx.Err(), err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.result, t.failed
}

// find finds a job; the queue is locked.
func (q *queue) find(id string) (*piece, error) {
	for _, t := range q.list {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, qwb.Usagef("there is no job %q", id)
}

// heard are the events of a job.
type heard struct {
	q *queue
	t *piece
}

func (h *heard) change(always bool, f func(t *piece)) {
	h.q.mu.Lock()
	if h.t.over() { // it was left alone
		h.q.mu.Unlock()
		return
	}
	f(h.t)
	h.q.mu.Unlock()
	h.q.tell(h.t, always)
	h.q.bench.pause()
}

func (b *Bench) pause() {
	if b.o.Pause != nil {
		b.o.Pause()
	}
}

// pausing is the context of a job. Whoever works long asks it often whether to go on: before each operator of a graph, for one.
type pausing struct {
	context.Context
	bench *Bench
}

func (p pausing) Err() error {
	p.bench.pause()
	return p.Context.Err()
}

func (h *heard) Progress(what string, total int) (done func(int), end func()) {
	h.change(true, func(t *piece) { t.What, t.Done, t.Total, t.since = what, 0, max(total, 0), h.q.bench.now() })
	return func(n int) { h.change(false, func(t *piece) { t.Done = max(t.Done, n) }) }, func() {}
}

func (h *heard) Note(text string) {
	h.change(true, func(t *piece) { t.Notes = append(t.Notes, text) })
}

func (h *heard) Detail(string) { h.change(false, func(*piece) {}) }

func (h *heard) Warning(w tqc.Warning) {
	h.change(true, func(t *piece) { t.Warnings = append(t.Warnings, w) })
}

// now is the time, where the program has a clock.
func (b *Bench) now() time.Time {
	if now := b.o.Project.Catalog.Now; now != nil {
		return now()
	}
	return time.Time{}
}

// since is what has passed, in seconds.
func (b *Bench) since(t time.Time) float64 { return b.now().Sub(t).Seconds() }

type jobID struct {
	Job string `json:"job"`
}

type started struct {
	Job Job `json:"job"`
}

func (b *Bench) start(_ context.Context, p struct {
	Kind    string          `json:"kind"`
	Options json.RawMessage `json:"options"`
	After   string          `json:"after"` // the last job that the page knows to write the plan, of those that are not over
}) (*started, error) {
	j, err := b.begin(p.Kind, p.Options, p.After)
	if err != nil {
		return nil, err
	}
	return &started{j}, nil
}

// begin starts a job of a kind with options.
func (b *Bench) begin(kind string, params json.RawMessage, after string) (Job, error) {
	k := kindOf(kind)
	if k == nil {
		return Job{}, qwb.Usagef("there is no job of kind %q", kind)
	}
	w := k.New()
	t := k.table(b, w)
	if err := t.Decode(k.Name, params); err != nil {
		return Job{}, err
	}
	line, err := w.line(b, t)
	if err != nil {
		return Job{}, err
	}
	return b.jobs.start(k, w, t, line, after)
}

type jobList struct {
	Jobs []Job `json:"jobs"`
}

func (b *Bench) listJobs(context.Context, struct{}) (*jobList, error) {
	return &jobList{b.jobs.all()}, nil
}

// cancelJob stops a job. One that waits is over at once, one that runs when its work has heard of it.
func (b *Bench) cancelJob(_ context.Context, p jobID) (*started, error) {
	q := &b.jobs
	q.mu.Lock()
	t, err := q.find(p.Job)
	if err != nil {
		q.mu.Unlock()
		return nil, err
	}
	switch t.State {
	case Queued:
		t.State, t.failed = Cancelled, context.Canceled
		close(t.ended)
	case Running:
		t.cancel()
	}
	j := q.snapshot(t)
	q.mu.Unlock()
	q.bench.hub.publish(Event{Type: "job", Job: &j})
	return &started{j}, nil
}

type jobResult struct {
	Job    Job             `json:"job"`
	Result json.RawMessage `json:"result"` // null where there is none, or no longer
}

func (b *Bench) jobResult(_ context.Context, p jobID) (*jobResult, error) {
	q := &b.jobs
	q.mu.Lock()
	defer q.mu.Unlock()
	t, err := q.find(p.Job)
	if err != nil {
		return nil, err
	}
	if !t.over() {
		return nil, qwb.Usagef("job %s is still %s", t.ID, t.State)
	}
	return &jobResult{q.snapshot(t), t.result}, nil
}
