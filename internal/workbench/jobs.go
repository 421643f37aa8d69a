package workbench

import (
	"context"
	"encoding/json"

	"qwb"
	"qwb/quantizer/tqc"
)

// Job is a piece of work that takes its time.
type Job struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Command string `json:"command"` // that does the same
	Model   string `json:"model"`   // that was open when it was started
	Changes bool   `json:"changes"` // it may write the plan, or open another
	State   string `json:"state"`
	// What is being done, how much of it is done and how much there is, 0 where nobody knows.
	What  string `json:"what"`
	Done  int    `json:"done"`
	Total int    `json:"total"`
	// Stage is the number of What, from 1; Stages is how many there were when such a job ran last, 0 where none did.
	Stage  int `json:"stage"`
	Stages int `json:"stages"`
	// Seconds since it began, and how many are left, of What at least and of the whole where such a job ran before; nil where nobody knows.
	Seconds  float64       `json:"seconds"`
	ETA      *float64      `json:"eta"`
	Notes    []string      `json:"notes"`
	Warnings []tqc.Warning `json:"warnings"`
	Error    *qwb.Fault    `json:"error"`              // nil unless it failed, or did not hold what was asked for
	Revision string        `json:"revision,omitempty"` // of the plan that the result is about: afterwards, where the job may have changed it
	// Of is what the plan was then, by inputs, decisions and numbers: its verification is no part of it. Empty without a plan.
	Of string `json:"of,omitempty"`
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
	waited := t.State == Queued
	switch t.State {
	case Queued:
		t.State, t.failed = Cancelled, context.Canceled
	case Running:
		t.cancel()
	}
	j := q.snapshot(t)
	q.mu.Unlock()
	q.bench.hub.publish(Event{Type: "job", Job: &j})
	if waited {
		close(t.ended)
	}
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
