package calib

import "time"

// stopwatch tells the time in the graph from the time in observers, for one worker. Without a clock it does nothing.
type stopwatch struct {
	clock func() time.Duration
	since time.Duration
	spent Spent
}

// start begins to observe.
func (w *stopwatch) start(clock func() time.Duration) {
	if w.clock = clock; clock != nil {
		w.since = clock()
	}
}

// forward ends observing, observe ends running the graph.
func (w *stopwatch) forward() { w.lap(&w.spent.Observe) }
func (w *stopwatch) observe() { w.lap(&w.spent.Forward) }

func (w *stopwatch) lap(to *time.Duration) {
	if w.clock == nil {
		return
	}
	now := w.clock()
	*to += now - w.since
	w.since = now
}

// looked takes what goroutines of the graph spent observing, threads of them, out of the time in the graph.
func (w *stopwatch) looked(sum time.Duration, threads int) {
	w.observe()
	share := min(sum/time.Duration(threads), w.spent.Forward)
	w.spent.Forward -= share
	w.spent.Observe += share
}

// spend adds what a watch that was running the graph has measured.
func (r *run) spend(w stopwatch) {
	w.observe()
	if r.cfg.Spent == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg.Spent.Forward += w.spent.Forward
	r.cfg.Spent.Observe += w.spent.Observe
}
