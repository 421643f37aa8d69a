package emulate

import "qwb/kernels/cuda/driver"

// raceState remembers who read and wrote every byte of shared memory last, to find accesses of two threads to one byte, at least one
// of them a write, that no barrier orders. Synchronisation is counted in segments: a warp begins a new one at every barrier of the
// block and at every bar.warp.sync, so that an access in a segment older than the last barrier is ordered before everything now.
//
// Notes are kept per word of four bytes until threads access parts of a word; from then on its bytes have notes of their own.
type raceState struct {
	on      bool
	words   []raceNotes
	bytes   []raceNotes
	segment uint32 // the newest
	since   uint32 // that of the last barrier of the block
}

// raceNotes say which thread wrote and read last, as segment<<whoBits | thread. Instead of one thread a reader may also be several.
type raceNotes struct{ writer, reader uint32 }

const (
	whoBits    = 12
	whoMask    = 1<<whoBits - 1
	manyInWarp = 1 << 10             // and the number of the warp: several of its threads
	many       = whoMask             // threads of several warps
	maxSegment = 1<<(32-whoBits) - 2 // the one after it is that of split
	split      = uint32(1<<32 - 1)   // as writer of a word: its bytes have notes
)

func (r *raceState) init(bytes int) {
	r.on, r.words, r.bytes = true, make([]raceNotes, bytes/4+1), make([]raceNotes, bytes+4)
}

// barrier orders everything before it: all warps begin a segment.
func (r *raceState) barrier(b *block) {
	if !r.on {
		return
	}
	r.advance(b)
	r.since = r.segment
	for _, w := range b.warps {
		w.segment = r.segment
	}
}

// warpSync orders what the lanes of one warp did.
func (r *raceState) warpSync(w *warp) {
	if r.on {
		r.advance(w.b)
		w.segment = r.segment
	}
}

func (r *raceState) advance(b *block) {
	if r.segment == maxSegment { // forget what was accessed until now
		clear(r.words)
		clear(r.bytes)
		r.segment, r.since = 0, 1
		for _, w := range b.warps {
			w.segment = 1
		}
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

// read notes a read. It returns the write that it races with, 0 for none.
func (r *raceState) read(w *warp, n *raceNotes, thread uint32) uint32 {
	if r.clashes(w, n.writer, thread) {
		return n.writer
	}
	note := w.segment<<whoBits | thread
	segment, who := n.reader>>whoBits, n.reader&whoMask
	warp := uint32(w.index)
	mine := who < manyInWarp && who/warpSize == warp || who == manyInWarp+warp
	switch {
	case n.reader == note:
	case segment < r.since, who == thread, mine && segment < w.segment: // older reads of this warp are ordered before what it does now
		n.reader = note
	case mine:
		n.reader = w.segment<<whoBits | manyInWarp + warp
	default:
		n.reader = max(w.segment, segment)<<whoBits | many
	}
	return 0
}

// write notes a write. It returns what it races with, 0 for nothing. Writing what is there already races with no write.
func (r *raceState) write(w *warp, n *raceNotes, thread uint32, same bool) (note uint32, wrote bool) {
	if !same && r.clashes(w, n.writer, thread) {
		return n.writer, true
	}
	if r.clashes(w, n.reader, thread) {
		return n.reader, false
	}
	n.writer = w.segment<<whoBits | thread
	return 0, false
}

// notes calls f with the notes of the bytes from address on, and how many of them each is for, until f says that it found something.
func (r *raceState) notes(address uint64, n int, f func(p *raceNotes, at uint64, bytes int) bool) {
	for end := address + uint64(n); address < end; {
		word := &r.words[address/4]
		whole := address%4 == 0 && address+4 <= end
		if word.writer == split && whole && r.join(address) {
			*word = raceNotes{}
		}
		if word.writer != split && whole {
			if f(word, address, 4) {
				return
			}
			address += 4
			continue
		}
		if word.writer != split {
			for k := address &^ 3; k < address&^3+4; k++ {
				r.bytes[k] = *word
			}
			*word = raceNotes{writer: split, reader: split}
		}
		if f(&r.bytes[address], address, 1) {
			return
		}
		address++
	}
}

// join reports whether the notes of a word's bytes are all old, so that the word may have notes again.
func (r *raceState) join(address uint64) bool {
	for _, n := range r.bytes[address : address+4] {
		if n.writer>>whoBits >= r.since || n.reader>>whoBits >= r.since {
			return false
		}
	}
	return true
}

// raceReads notes reads of n bytes by several lanes at w.offsets, as fast as can be. It reports false where one may race; raceRead
// then says more.
func (w *warp) raceReads(lanes []uint8, n int) bool {
	r := &w.b.race
	if n < 4 {
		for _, l := range lanes {
			if !w.raceQuiet(w.offsets[l&31], n, int(l)) {
				return false
			}
		}
		return true
	}
	since, segment, thread := r.since<<whoBits, w.segment<<whoBits, uint32(w.index*warpSize)
	several, all := segment|manyInWarp+uint32(w.index), segment|many
	for _, l := range lanes {
		note := segment | (thread + uint32(l))
		words := r.words[w.offsets[l&31]/4:]
		for k := range words[:n/4] {
			p := &words[k]
			if p.writer >= since && p.writer != note {
				if !w.raceQuiet(w.offsets[l&31]+4*uint64(k), 4, int(l)) {
					return false
				}
				continue
			}
			switch {
			case p.reader < since:
				p.reader = note
			case p.reader == note, p.reader == several, p.reader == all:
			default:
				r.read(w, p, thread+uint32(l))
			}
		}
	}
	return true
}

// raceQuiet notes a read without a fault.
func (w *warp) raceQuiet(address uint64, n, lane int) bool {
	ok := true
	w.b.race.notes(address, n, func(p *raceNotes, _ uint64, _ int) bool {
		ok = w.b.race.read(w, p, uint32(w.index*warpSize+lane)) == 0
		return !ok
	})
	return ok
}

// raceWrites notes writes of n bytes by several lanes. It reports false where one may race, or is not of whole words.
func (w *warp) raceWrites(lanes []uint8, n int) bool {
	if n < 4 {
		return false
	}
	r := &w.b.race
	since, segment, thread := r.since<<whoBits, w.segment<<whoBits, uint32(w.index*warpSize)
	for _, l := range lanes {
		note := segment | (thread + uint32(l))
		words := r.words[w.offsets[l&31]/4:]
		for k := range words[:n/4] {
			p := &words[k]
			if (p.writer >= since && p.writer != note) || (p.reader >= since && p.reader != note) {
				return false
			}
			p.writer = note
		}
	}
	return true
}

// raceRead checks a read of shared memory against the writes of other threads since they were last synchronised.
func (w *warp) raceRead(address uint64, n, lane int) bool {
	if !w.arrived(address, n, lane, "reads") {
		return false
	}
	if !w.b.race.on {
		return true
	}
	ok := true
	w.b.race.notes(address, n, func(p *raceNotes, at uint64, _ int) bool {
		if note := w.b.race.read(w, p, uint32(w.index*warpSize+lane)); note != 0 {
			w.race(lane, at, "reads", "was written", note)
			ok = false
		}
		return !ok
	})
	return ok
}

// arrived checks that no copy to the bytes is under way.
func (w *warp) arrived(address uint64, n, lane int, does string) bool {
	for k := address; k < address+uint64(n); k++ {
		if w.b.written[k] == statePending {
			w.fail(driver.LaunchFailed, lane, "%s shared byte %#x, to which a cp.async copies that nothing has waited for", does, k)
			return false
		}
	}
	return true
}

// raceWrite checks a write of shared memory against the reads and writes of other threads since they were last synchronised. data is
// what is written, nil for something that may be anything: two threads that write the same value do not race.
func (w *warp) raceWrite(address uint64, old, data []byte, lane int) bool {
	if !w.arrived(address, len(old), lane, "writes") {
		return false
	}
	if !w.b.race.on {
		return true
	}
	ok := true
	w.b.race.notes(address, len(old), func(p *raceNotes, at uint64, n int) bool {
		i := at - address
		same := data != nil && string(old[i:i+uint64(n)]) == string(data[i:i+uint64(n)])
		if note, wrote := w.b.race.write(w, p, uint32(w.index*warpSize+lane), same); note != 0 {
			did := "was read"
			if wrote {
				did = "was written"
			}
			w.race(lane, at, "writes", did, note)
			ok = false
		}
		return !ok
	})
	return ok
}

// raceAtomic is as a write, except that atomics do not race with each other: it leaves no note of its own.
func (w *warp) raceAtomic(address uint64, n, lane int) bool {
	r := &w.b.race
	if !w.arrived(address, n, lane, "changes") {
		return false
	}
	if !r.on {
		return true
	}
	thread := uint32(w.index*warpSize + lane)
	ok := true
	r.notes(address, n, func(p *raceNotes, at uint64, _ int) bool {
		switch {
		case r.clashes(w, p.writer, thread):
			w.race(lane, at, "changes", "was written", p.writer)
			ok = false
		case r.clashes(w, p.reader, thread):
			w.race(lane, at, "changes", "was read", p.reader)
			ok = false
		}
		return !ok
	})
	return ok
}

func (w *warp) race(lane int, at uint64, does, did string, note uint32) {
	by := "threads of several warps"
	switch who := note & whoMask; {
	case who < manyInWarp:
		n, d := int(who), w.b.l.block
		by = "thread " + threadName([3]int{n % int(d.X), n / int(d.X) % int(d.Y), n / int(d.X) / int(d.Y)})
	case who != many:
		by = "several threads of one warp"
	}
	w.fail(driver.LaunchFailed, lane, "race: %s shared byte %#x, which %s by %s with no barrier in between", does, at, did, by)
}
