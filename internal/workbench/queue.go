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
	of, _ := b.planState(b.project().Plan) // empty without a plan
	if err == nil {
		p := b.project()
		p.Events = &heard{q, t}
		result, err = t.ending(ctx, func() (json.RawMessage, error) { return t.did(pausing{ctx, b}, b, p) })
	}
	q.mu.Lock()
	t.result, t.failed, t.State, t.What, t.ETA, t.Revision, t.Of = result, err, Done, "", nil, revision, of
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
		of, _ := b.planState(b.project().Plan)
		q.mu.Lock()
		t.Revision, t.Of = revision, of
		for _, o := range q.list {
			if o.after == t && t.State == Done {
				o.plan, o.after = revision, nil
			}
		}
		q.mu.Unlock()
	}
	q.tell(t, true)
	if t.kind.Changes && t.State == Done {
		b.hub.publish(Event{Type: "plan", Revision: t.Revision, Command: t.Command})
	}
	close(t.ended) // last: who waited for the end hears nothing of the job afterwards
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

// forget drops the oldest results where there are too many bytes of them, but none that is the newest of its kind; the queue is locked. now
// is the newest.
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
		if last := q.like(t); last != nil {
			j.Stages = max(last.Stage, j.Stage)
			if left := last.Seconds - j.Seconds; left > 0 && (j.ETA == nil || *j.ETA < left) {
				j.ETA = &left
			}
		}
	}
	return j
}

// like is the last job of the same kind, model and options that is done, nil where there is none; the queue is locked.
func (q *queue) like(t *piece) *piece {
	for _, o := range slices.Backward(q.list) {
		if o.State == Done && o.kind == t.kind && o.Model == t.Model && o.options == t.options {
			return o
		}
	}
	return nil
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

// start puts a job into the queue. after is the last job in front of it that its caller knew to write the plan. One that is there already,
// and is not over, is not there twice.
func (q *queue) start(k *jobKind, w work, told options.Table, line, after string) (Job, error) {
	revision, model := q.bench.Revision(), q.bench.project().Model
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
	t := &piece{Job: Job{ID: fmt.Sprint(q.next), Kind: k.Name, Command: line, Model: model, Changes: k.Changes, State: Queued,
		Notes: []string{}, Warnings: []tqc.Warning{}},
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
