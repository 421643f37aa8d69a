package emulate

import "qwb/kernels/cuda/driver"

// Blocks of a grid run in any order, so that what one writes no other may read or write in the same launch, unless atomics order the
// two. Blockcheck notes for every byte of global memory which block wrote and read it last. A block that has used an atomic is not
// checked any more: it may know that others are done.

// blockNotes say which block of a launch wrote and read a byte, by its number plus one.
type blockNotes struct{ writer, reader uint32 }

const manyBlocks = 1<<32 - 1

// notesOf returns the notes of an allocation in this launch.
func (l *launch) notesOf(a *allocation) []blockNotes {
	n := l.blockNotes[a]
	if n == nil {
		n = make([]blockNotes, len(a.data))
		l.blockNotes[a] = n
	}
	return n
}

// number returns the block's place in the grid plus one.
func (b *block) number() uint32 {
	return uint32((b.at[2]*int(b.l.grid.Y)+b.at[1])*int(b.l.grid.X)+b.at[0]) + 1
}

// blockReads checks and notes a read of global memory.
func (w *warp) blockReads(a *allocation, address uint64, n, lane int) bool {
	if !w.b.l.options.Blockcheck || a.readOnly {
		return true
	}
	notes, at, me := w.b.l.notesOf(a), address-a.base, w.b.number()
	for k := range notes[at : at+uint64(n)] {
		p := &notes[at+uint64(k)]
		if p.writer != 0 && p.writer != me && !w.b.atomics {
			w.blockRace(a, address+uint64(k), lane, "reads", "was written", p.writer)
			return false
		}
		if p.reader != 0 && p.reader != me {
			p.reader = manyBlocks
		} else {
			p.reader = me
		}
	}
	return true
}

// blockWrites checks and notes a write of global memory. Two blocks that write the same value do not race.
func (w *warp) blockWrites(a *allocation, address uint64, old, data []byte, lane int) bool {
	if !w.b.l.options.Blockcheck {
		return true
	}
	notes, at, me := w.b.l.notesOf(a), address-a.base, w.b.number()
	for k := range old {
		p := &notes[at+uint64(k)]
		switch {
		case w.b.atomics:
		case p.writer != 0 && p.writer != me && old[k] != data[k]:
			w.blockRace(a, address+uint64(k), lane, "writes", "was written", p.writer)
			return false
		case p.reader != 0 && p.reader != me && old[k] != data[k]:
			w.blockRace(a, address+uint64(k), lane, "writes", "was read", p.reader)
			return false
		}
		p.writer = me
	}
	return true
}

func (w *warp) blockRace(a *allocation, address uint64, lane int, does, did string, note uint32) {
	by := "several blocks"
	if note != manyBlocks {
		n, g := int(note-1), w.b.l.grid
		by = "block " + threadName([3]int{n % int(g.X), n / int(g.X) % int(g.Y), n / int(g.X) / int(g.Y)})
	}
	w.fail(driver.LaunchFailed, lane, "race: %s byte %#x, which %s by %s in the same launch: %v", does, address, did, by, a)
}
