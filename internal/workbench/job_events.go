package workbench

import (
	"context"
	"time"

	"qwb/quantizer/tqc"
)

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
	h.change(true, func(t *piece) {
		t.What, t.Done, t.Total, t.since, t.Stage = what, 0, max(total, 0), h.q.bench.now(), t.Stage+1
	})
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
