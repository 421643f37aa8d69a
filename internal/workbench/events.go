package workbench

import (
	"context"
	"slices"
	"sync"
)

// Event is something that a page wants to hear of.
type Event struct {
	Type string `json:"type"` // job, plan, note
	// Job is how a job stands, of type job.
	Job *Job `json:"job,omitempty"`
	// Revision and Command are of a plan that was changed, and by what.
	Revision string `json:"revision,omitempty"`
	Command  string `json:"command,omitempty"`
	Text     string `json:"text,omitempty"` // of a note
}

// hub hands events to all who listen. It never waits for one of them: of events about one job, or about the plan, one who is slow
// sees the last.
type hub struct {
	mu   sync.Mutex
	list map[*listener]bool
}

type listener struct {
	pending []Event
	more    chan struct{} // has room for one
}

// maxPending is how many events wait for one who is slow; the oldest go.
const maxPending = 1000

func (h *hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.list {
		l.add(e)
	}
}

func (l *listener) add(e Event) {
	l.pending = slices.DeleteFunc(l.pending, func(o Event) bool {
		return e.Job != nil && o.Job != nil && o.Job.ID == e.Job.ID || e.Type == "plan" && o.Type == "plan"
	})
	if len(l.pending) >= maxPending { // of a page that has stopped: it reads the plan again when it goes on
		l.pending = slices.Delete(l.pending, 0, min(1, len(l.pending)))
	}
	l.pending = append(l.pending, e)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// Events returns what happens from now on, after how the jobs stand that are not over. The channel is closed when ctx ends.
func (b *Bench) Events(ctx context.Context) <-chan Event {
	l := &listener{more: make(chan struct{}, 1)}
	h := &b.hub
	h.mu.Lock()
	if h.list == nil {
		h.list = map[*listener]bool{}
	}
	h.list[l] = true
	h.mu.Unlock()
	for _, j := range b.jobs.all() {
		if !j.over() {
			h.mu.Lock()
			if !slices.ContainsFunc(l.pending, func(e Event) bool { return e.Job != nil && e.Job.ID == j.ID }) {
				l.add(Event{Type: "job", Job: &j})
			}
			h.mu.Unlock()
		}
	}
	out := make(chan Event)
	go func() {
		defer close(out)
		defer func() {
			h.mu.Lock()
			delete(h.list, l)
			h.mu.Unlock()
		}()
		for {
			h.mu.Lock()
			list := l.pending
			l.pending = nil
			h.mu.Unlock()
			for _, e := range list {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			if len(list) > 0 {
				continue
			}
			select {
			case <-l.more:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
