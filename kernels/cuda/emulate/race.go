package emulate

import "qwb/kernels/cuda/driver"

// raceState remembers who read and wrote every byte of shared memory last, to find accesses of two threads to one byte, at least one
// of them a write, that no barrier orders. Synchronisation is counted in segments: a warp begins a new one at every barrier of the
// block and at every bar.warp.sync, so that an access in a segment older than the last barrier is ordered before everything now.
type raceState struct {
	on      bool
	writer  []uint32 // segment<<12 | thread
	reader  []uint32 // segment<<12 | thread, or manyInWarp+warp, or many
	segment uint32   // the newest
	since   uint32   // that of the last barrier of the block
}

const (
	whoBits    = 12
	whoMask    = 1<<whoBits - 1
	manyInWarp = 1 << 10        // several threads of a warp
	many       = 1<<whoBits - 1 // threads of several warps
	maxSegment = 1<<(32-whoBits) - 1
)

func (r *raceState) init(bytes int) {
	r.on, r.writer, r.reader = true, make([]uint32, bytes), make([]uint32, bytes)
}

// barrier orders everything before it: all warps begin a segment.
func (r *raceState) barrier(b *block) {
	if !r.on {
		return
	}
	r.advance()
	r.since = r.segment
	for _, w := range b.warps {
		w.segment = r.segment
	}
}

// warpSync orders what the lanes of one warp did.
func (r *raceState) warpSync(w *warp) {
	if r.on {
		r.advance()
		w.segment = r.segment
	}
}

func (r *raceState) advance() {
	if r.segment == maxSegment { // forget: accesses of this segment and before are not found any more
		clear(r.writer)
		clear(r.reader)
		r.segment, r.since = 0, 1
	}
	r.segment++
}

// clashes reports whether an access that was noted is unordered with one of a thread now.
func (r *raceState) clashes(w *warp, note, thread uint32) bool {
	segment, who := note>>whoBits, note&whoMask
	switch {
	case segment < r.since:
		return false
	case who == many:
		return true
	case who >= manyInWarp:
		return who-manyInWarp != uint32(w.index) || segment >= w.segment
	case who == thread:
		return false
	case who/warpSize == uint32(w.index):
		return segment >= w.segment
	}
	return true
}

// raceRead checks a read of shared memory against the writes of other threads since they were last synchronised.
func (w *warp) raceRead(address uint64, n, lane int) bool {
	r := &w.b.race
	thread := uint32(w.index*warpSize + lane)
	note := w.segment<<whoBits | thread
	for k := address; k < address+uint64(n); k++ {
		if w.b.written[k] == statePending {
			w.fail(driver.LaunchFailed, lane, "reads shared byte %#x, to which a cp.async copies that nothing has waited for", k)
			return false
		}
		if !r.on {
			continue
		}
		if r.clashes(w, r.writer[k], thread) {
			w.race(lane, k, "reads", "was written", r.writer[k])
			return false
		}
		old := r.reader[k]
		switch {
		case old == note:
		case old>>whoBits < r.since:
			r.reader[k] = note
		case old&whoMask == many:
			r.reader[k] = w.segment<<whoBits | many
		case old&whoMask == thread, old&whoMask < manyInWarp && old&whoMask/warpSize == uint32(w.index) && old>>whoBits < w.segment,
			old&whoMask == manyInWarp+uint32(w.index) && old>>whoBits < w.segment:
			r.reader[k] = note // older reads of this warp are ordered before everything it does now
		case old&whoMask < manyInWarp && old&whoMask/warpSize == uint32(w.index), old&whoMask == manyInWarp+uint32(w.index):
			r.reader[k] = w.segment<<whoBits | manyInWarp + uint32(w.index)
		default:
			r.reader[k] = max(w.segment, old>>whoBits)<<whoBits | many
		}
	}
	return true
}

// raceWrite checks a write of shared memory against the reads and writes of other threads since they were last synchronised. data is
// what is written, nil for something that may be anything: two threads that write the same value do not race.
func (w *warp) raceWrite(address uint64, old, data []byte, lane int) bool {
	r := &w.b.race
	thread := uint32(w.index*warpSize + lane)
	note := w.segment<<whoBits | thread
	for i := range old {
		k := address + uint64(i)
		if w.b.written[k] == statePending {
			w.fail(driver.LaunchFailed, lane, "writes shared byte %#x, to which a cp.async copies that nothing has waited for", k)
			return false
		}
		if !r.on {
			continue
		}
		if r.clashes(w, r.writer[k], thread) && (data == nil || old[i] != data[i]) {
			w.race(lane, k, "writes", "was written", r.writer[k])
			return false
		}
		if r.clashes(w, r.reader[k], thread) {
			w.race(lane, k, "writes", "was read", r.reader[k])
			return false
		}
		r.writer[k] = note
	}
	return true
}

// raceAtomic is as a write, except that atomics do not race with each other: it leaves no note of its own.
func (w *warp) raceAtomic(address uint64, n, lane int) bool {
	r := &w.b.race
	thread := uint32(w.index*warpSize + lane)
	for k := address; r.on && k < address+uint64(n); k++ {
		if r.clashes(w, r.writer[k], thread) {
			w.race(lane, k, "changes", "was written", r.writer[k])
			return false
		}
		if r.clashes(w, r.reader[k], thread) {
			w.race(lane, k, "changes", "was read", r.reader[k])
			return false
		}
	}
	return true
}

func (w *warp) race(lane int, at uint64, does, did string, note uint32) {
	by := "threads of several warps"
	switch who := note & whoMask; {
	case who < manyInWarp:
		n, d := int(who), w.b.l.block
		t := [3]int{n % int(d.X), n / int(d.X) % int(d.Y), n / int(d.X) / int(d.Y)}
		by = "thread " + threadName(t)
	case who != many:
		by = "several threads of one warp"
	}
	w.fail(driver.LaunchFailed, lane, "race: %s shared byte %#x, which %s by %s with no barrier in between", does, at, did, by)
}
