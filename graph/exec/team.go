package exec

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"qwb/graph"
)

const (
	// idlePolls is how often a helper looks for work before it ends: about 80 microseconds, longer than the serial work
	// between two regions usually takes and shorter than what waking a thread costs.
	idlePolls = 1 << 15
	// yieldEvery is how many looks lie between two offers of the processor to other goroutines.
	yieldEvery = 1 << 6
	// closePolls is how often the owner looks whether the helpers have finished before it sleeps: about 100 microseconds, longer
	// than a piece takes. Sleeping costs more than the wait: owner and helper change threads, and one of them is woken by the
	// system.
	closePolls = 1 << 16
)

// team is the helpers that share the regions of one session with the goroutine that runs it. A region is a loop over pieces.
//
// Waking a parked goroutine costs tens of microseconds, as much as many a region takes. Helpers therefore look for the next
// region for a while after the last one, and end when none comes: an idle session owns no goroutine. Every region is
// complete without them: they take pieces only where they come in time. At most GOMAXPROCS-1 helpers exist.
type team struct {
	helpers int32
	alive   atomic.Int32 // helpers that exist
	busy    atomic.Bool  // a region is open or being closed
	// round numbers the open region; it is odd while a region is open.
	round  atomic.Uint64
	inside atomic.Int32 // helpers that may read the fields of the region
	asleep atomic.Bool  // the owner waits for wake
	wake   chan struct{}
	spawn  func() // help, bound once

	// The region. Written while round is even and nobody is inside.
	body   func(i int)
	pieces int
	shares []share
	bug    atomic.Pointer[error] // the first piece that panicked
}

// share is the pieces that one member begins with; what it leaves, others take.
type share struct {
	next atomic.Int64
	end  int64
	_    [48]byte // a cache line of its own
}

// newTeam returns the team of a session that may use so many threads, nil for one.
func newTeam(threads int) *team {
	threads = min(threads, runtime.GOMAXPROCS(0))
	if threads <= 1 {
		return nil
	}
	t := &team{helpers: int32(threads - 1), wake: make(chan struct{}, 1), shares: make([]share, threads)}
	t.spawn = t.help
	return t
}

// run calls body(0) ... body(n-1) and returns when all have returned. It is a kernels.Parallel. Where another runner of the
// session has the helpers, the caller does the work alone. A panic of a piece is one of the caller, whoever had the piece.
func (t *team) run(n int, body func(i int)) {
	if n <= 1 || !t.busy.CompareAndSwap(false, true) {
		for i := range n {
			body(i)
		}
		return
	}
	t.open(n, body)
	t.work(0)
	t.close()
	bug := t.bug.Swap(nil)
	t.busy.Store(false)
	if bug != nil {
		panic(*bug)
	}
}

// open publishes a region.
func (t *team) open(n int, body func(i int)) {
	t.body, t.pieces = body, n
	for i := range t.shares {
		t.shares[i].next.Store(int64(i * n / len(t.shares)))
		t.shares[i].end = int64((i + 1) * n / len(t.shares))
	}
	t.round.Add(1)
	for t.alive.Load() < min(t.helpers, int32(n-1)) {
		t.alive.Add(1)
		go t.spawn()
	}
}

// close ends the region when every piece is done: helpers that come now find it closed, those inside are waited for.
func (t *team) close() {
	t.round.Add(1)
	for range closePolls {
		if t.inside.Load() == 0 {
			t.body = nil
			return
		}
	}
	t.asleep.Store(true)
	if t.inside.Load() != 0 || !t.asleep.CompareAndSwap(true, false) {
		<-t.wake
	}
	t.body = nil
}

// work takes pieces as member m until none are left, or one panics: its own first, then those of the members after it.
func (t *team) work(m int) {
	defer func() {
		if bug := graph.Recovered(recover()); bug != nil {
			kept := bug // what a pointer is taken of lies on the heap: without the copy, a piece without a panic would allocate too
			t.bug.CompareAndSwap(nil, &kept)
		}
	}()
	body := t.body
	for k := range t.shares {
		s := &t.shares[(m+k)%len(t.shares)]
		for s.next.Load() < s.end {
			i := s.next.Add(1) - 1
			if i >= s.end {
				break
			}
			body(int(i))
		}
	}
}

// help is a helper: it works in every region it sees and ends after a while without one.
func (t *team) help() {
	debug.SetPanicOnFault(true) // for this goroutine, which ends with the function
	done := uint64(0)           // the last region it was in
	for idle := 0; idle < idlePolls; idle++ {
		if r := t.round.Load(); r%2 == 1 && r != done {
			if t.enter() {
				done = r
			}
			idle = 0
			continue
		}
		if idle%yieldEvery == yieldEvery-1 {
			runtime.Gosched()
		}
	}
	t.alive.Add(-1)
}

// enter works in the open region. It returns false if the region was closed meanwhile.
func (t *team) enter() bool {
	m := t.inside.Add(1)
	r := t.round.Load()
	if open := r%2 == 1; open {
		t.work(int(m))
	}
	if t.inside.Add(-1) == 0 && t.asleep.CompareAndSwap(true, false) {
		t.wake <- struct{}{}
	}
	return r%2 == 1
}
