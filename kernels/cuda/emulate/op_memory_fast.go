package emulate

import "encoding/binary"

// Loads and stores of a whole warp that lie in one allocation, or in shared memory, and that every check lets pass are done here,
// with the checks in loops of their own. All others are done lane by lane, which also finds out what is wrong with them.

var everyLane = func() (l [warpSize]uint8) {
	for i := range l {
		l[i] = uint8(i)
	}
	return l
}()

// lanes lists the lanes of a mask.
func (w *warp) lanes(m uint32) []uint8 {
	if m == allLanes {
		return everyLane[:]
	}
	n := 0
	for i := uint8(0); i < warpSize; i++ {
		if m>>i&1 != 0 {
			w.list[n&31] = i
			n++
		}
	}
	return w.list[:n]
}

// spread sets w.offsets to where the lanes access n bytes in a range of memory. It returns the lanes, nil where one is out of it or
// not aligned.
func (w *warp) spread(a *access, m uint32, base uint64, size, n int) []uint8 {
	if n > size {
		return nil
	}
	lanes, last, bits := w.lanes(m), uint64(size-n), uint64(0)
	if a.base.class == class64 {
		from, delta := &w.q[a.base.index], a.offset-base
		for _, l := range lanes {
			at := from[l&31] + delta
			if at > last {
				return nil
			}
			w.offsets[l&31] = at
			bits |= at
		}
	} else {
		from, delta := &w.r[a.base.index], uint32(a.offset)
		for _, l := range lanes {
			at := uint64(from[l&31]+delta) - base
			if at > last {
				return nil
			}
			w.offsets[l&31] = at
			bits |= at
		}
	}
	if bits&uint64(n-1) != 0 {
		return nil
	}
	return lanes
}

const ones = 0x0101010101010101

// allWritten reports whether all bytes that the lanes access have been written.
func (w *warp) allWritten(written []byte, lanes []uint8, n int) bool {
	bad := uint64(0)
	switch n {
	case 1:
		for _, l := range lanes {
			bad |= uint64(written[w.offsets[l&31]] ^ 1)
		}
	case 2:
		for _, l := range lanes {
			bad |= uint64(binary.LittleEndian.Uint16(written[w.offsets[l&31]:])) ^ ones&0xffff
		}
	case 4:
		for _, l := range lanes {
			bad |= uint64(binary.LittleEndian.Uint32(written[w.offsets[l&31]:])) ^ ones&0xffffffff
		}
	case 8:
		for _, l := range lanes {
			bad |= binary.LittleEndian.Uint64(written[w.offsets[l&31]:]) ^ ones
		}
	default:
		for _, l := range lanes {
			p := written[w.offsets[l&31]:]
			_ = p[15]
			bad |= binary.LittleEndian.Uint64(p)&binary.LittleEndian.Uint64(p[8:]) ^ ones
		}
	}
	return bad == 0
}

// setWritten notes that the bytes that the lanes access are written. It does nothing and reports false where a copy to one is pending.
func (w *warp) setWritten(written []byte, lanes []uint8, n int) bool {
	for _, l := range lanes {
		p := written[w.offsets[l&31]:]
		switch n {
		case 1:
			if p[0] == statePending {
				return false
			}
		case 2:
			if binary.LittleEndian.Uint16(p)&(2*ones&0xffff) != 0 {
				return false
			}
		case 4:
			if binary.LittleEndian.Uint32(p)&(2*ones&0xffffffff) != 0 {
				return false
			}
		case 8:
			if binary.LittleEndian.Uint64(p)&(2*ones) != 0 {
				return false
			}
		default:
			if (binary.LittleEndian.Uint64(p)|binary.LittleEndian.Uint64(p[8:]))&(2*ones) != 0 {
				return false
			}
		}
	}
	for _, l := range lanes {
		p := written[w.offsets[l&31]:]
		switch n {
		case 1:
			p[0] = 1
		case 2:
			binary.LittleEndian.PutUint16(p, ones&0xffff)
		case 4:
			binary.LittleEndian.PutUint32(p, ones&0xffffffff)
		case 8:
			binary.LittleEndian.PutUint64(p, ones)
		default:
			binary.LittleEndian.PutUint64(p, ones)
			binary.LittleEndian.PutUint64(p[8:], ones)
		}
	}
	return true
}

// nearby returns the allocation that the first lane accesses, nil for none.
func (w *warp) nearby(a *access, m uint32) *allocation {
	first := w.at(a, firstLane(m))
	if first < globalBase && a.space == spaceGeneric || w.b.l.options.Blockcheck {
		return nil
	}
	al := w.near[a.slot]
	if al == nil || first-al.base >= uint64(len(al.data)) {
		if al = find(w.b.l.memory, first); al == nil {
			return nil
		}
		w.near[a.slot] = al
	}
	return al
}

// loadFast loads, or returns false and leaves it to load.
func (w *warp) loadFast(a *access, m uint32) bool {
	n := a.bytes
	var data []byte
	var lanes []uint8
	switch a.space {
	case spaceGeneric, spaceGlobal, spaceConst:
		al := w.nearby(a, m)
		if al == nil {
			return false
		}
		data = al.data
		if lanes = w.spread(a, m, al.base, len(data), n); lanes == nil {
			return false
		}
		if w.b.l.options.Initcheck && !w.allWritten(al.written, lanes, n) {
			return false
		}
	case spaceShared:
		data = w.b.shared
		if lanes = w.spread(a, m, 0, len(data), n); lanes == nil {
			return false
		}
		if !w.allWritten(w.b.written, lanes, n) || w.b.race.on && !w.raceReads(lanes, n) {
			return false
		}
	case spaceParam:
		return w.loadParam(a, m)
	default:
		return false
	}
	size := a.t.bits / 8
	for k := range a.vector {
		to, shift := a.regs[k], k*size
		switch {
		case size == 4 && to.class == class32:
			r := &w.r[to.index]
			for _, l := range lanes {
				r[l&31] = binary.LittleEndian.Uint32(data[int(w.offsets[l&31])+shift:])
			}
		case size == 8:
			q := &w.q[to.index]
			for _, l := range lanes {
				q[l&31] = binary.LittleEndian.Uint64(data[int(w.offsets[l&31])+shift:])
			}
		default:
			for _, l := range lanes {
				w.put(to, int(l&31), a.t.extend(loadBytes(data[int(w.offsets[l&31])+shift:], size)))
			}
		}
	}
	return true
}

// loadParam loads a parameter of the kernel at an address that is the same for all lanes.
func (w *warp) loadParam(a *access, m uint32) bool {
	first := w.at(a, firstLane(m))
	p := w.b.l.params
	if first >= paramFrame || first&uint64(a.bytes-1) != 0 || first+uint64(a.bytes) > uint64(len(p)) {
		return false
	}
	if !a.constant {
		for _, l := range w.lanes(m) {
			if w.at(a, int(l&31)) != first {
				return false
			}
		}
	}
	size := a.t.bits / 8
	for k := range a.vector {
		to, x := a.regs[k], a.t.extend(loadBytes(p[int(first)+k*size:], size))
		if to.class == class64 {
			q := w.open64(to.index, m)
			for i := range q {
				q[i] = x
			}
			w.close64(to.index, m)
			continue
		}
		if to.bits < 32 {
			x &= 1<<to.bits - 1
		}
		r := w.open32(to.index, m)
		for i := range r {
			r[i] = uint32(x)
		}
		w.close32(to.index, m)
	}
	return true
}

// storeFast stores, or returns false and leaves it to store.
func (w *warp) storeFast(a *access, m uint32) bool {
	n := a.bytes
	var data, written []byte
	var lanes []uint8
	switch a.space {
	case spaceGeneric, spaceGlobal:
		al := w.nearby(a, m)
		if al == nil || al.readOnly {
			return false
		}
		data, written = al.data, al.written
		if lanes = w.spread(a, m, al.base, len(data), n); lanes == nil {
			return false
		}
	case spaceShared:
		data, written = w.b.shared, w.b.written
		if lanes = w.spread(a, m, 0, len(data), n); lanes == nil {
			return false
		}
		if w.b.race.on && !w.raceWrites(lanes, n) {
			return false
		}
	default:
		return false
	}
	if !w.setWritten(written, lanes, n) {
		return false
	}
	size := a.t.bits / 8
	for k := range a.vector {
		from, shift := a.regs[k], k*size
		switch {
		case size == 4 && from.class == class32:
			r := &w.r[from.index]
			for _, l := range lanes {
				binary.LittleEndian.PutUint32(data[int(w.offsets[l&31])+shift:], r[l&31])
			}
		case size == 8:
			q := &w.q[from.index]
			for _, l := range lanes {
				binary.LittleEndian.PutUint64(data[int(w.offsets[l&31])+shift:], q[l&31])
			}
		default:
			for _, l := range lanes {
				storeBytes(data[int(w.offsets[l&31])+shift:], size, w.get(from, int(l&31)))
			}
		}
	}
	return true
}
