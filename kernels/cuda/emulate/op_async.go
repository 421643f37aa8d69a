package emulate

import (
	"math"

	"qwb/kernels/cuda/driver"
)

// asyncCopy is one lane's cp.async that has not been performed.
type asyncCopy struct {
	from, to uint64 // global and shared
	n, src   int    // bytes to write, and of them to read; the others become zero
	lane     int
	pc       int
	slot     int32
}

// asyncQueue is the copies of a warp.
type asyncQueue struct {
	lanes [warpSize]laneCopies
	any   bool
}

// laneCopies are copies in order, in groups that end where ends say; those behind the last end are not committed.
type laneCopies struct {
	list []asyncCopy
	ends []int
}

func (q *asyncQueue) reset() {
	if !q.any {
		return
	}
	for i := range q.lanes {
		q.lanes[i].list, q.lanes[i].ends = q.lanes[i].list[:0], q.lanes[i].ends[:0]
	}
	q.any = false
}

// opCp decodes cp.async and its commits and waits. A copy is performed when it is waited for, not earlier, so that a kernel that reads
// too early does not see it.
func opCp(d *decoder, in *instr) {
	if !d.has("async") {
		d.fail("only cp.async is supported")
		return
	}
	in.shape = shapeExec
	switch d.one("commit_group", "wait_group", "wait_all") {
	case "commit_group":
		in.exec = func(w *warp, m uint32) { w.asyncCommit(m) }
		return
	case "wait_group":
		if !d.operands(1, 1) || d.op.operands[0].kind != opdInt {
			d.fail("the number of groups is no constant")
			return
		}
		n := int(d.op.operands[0].bits & math.MaxInt)
		in.exec = func(w *warp, m uint32) { w.asyncWait(m, n) }
		return
	case "wait_all":
		in.exec = func(w *warp, m uint32) {
			w.asyncCommit(m)
			w.asyncWait(m, 0)
		}
		return
	}
	cache := d.one("ca", "cg")
	d.has("L2::64B", "L2::128B", "L2::256B")
	if cache == "" || !d.has("shared", "shared::cta") || !d.has("global") || !d.operands(3, 4) {
		d.fail("this form is not supported")
		return
	}
	ops := d.op.operands
	to, from := &access{space: spaceShared}, &access{space: spaceGlobal}
	to.base, to.offset = d.address(ops[0])
	from.base, from.offset = d.address(ops[1])
	size := int(ops[2].bits)
	if ops[2].kind != opdInt || size != 16 && (cache == "cg" || size != 4 && size != 8) {
		d.fail("the size must be 16, or with .ca 4 or 8")
		return
	}
	src := ref{index: -1}
	if len(ops) == 4 {
		src = d.src(ops[3], ptype{kindUnsigned, 32}, false)
	}
	slot := d.slot()
	in.exec = func(w *warp, m uint32) {
		w.async.any = true
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			c := asyncCopy{from: w.at(from, i), to: w.at(to, i), n: size, src: size, lane: i, pc: w.pc, slot: slot}
			if src.index >= 0 {
				c.src = int(w.r[src.index][i])
			}
			if !w.asyncStart(c) {
				return
			}
			w.async.lanes[i].list = append(w.async.lanes[i].list, c)
		}
	}
}

// asyncStart checks a copy, and marks what it will write.
func (w *warp) asyncStart(c asyncCopy) bool {
	if c.src > c.n {
		w.fail(driver.LaunchFailed, c.lane, "source size %d of a copy of %d bytes", c.src, c.n)
		return false
	}
	if c.from&uint64(c.n-1) != 0 {
		w.fail(misaligned, c.lane, "global address %#x is not aligned to %d bytes", c.from, c.n)
		return false
	}
	if c.src > 0 {
		_, written, a, ok := w.asyncSource(c)
		if !ok || !w.readable(spaceGlobal, c.from, written, a, c.lane) {
			return false
		}
	}
	_, data, written, _ := w.resolve(spaceShared, c.to, c.n, c.lane, c.slot)
	if data == nil || !w.raceWrite(c.to, data, nil, c.lane) {
		return false
	}
	fill(written, statePending)
	return true
}

// asyncSource resolves the bytes that a copy reads, which need not be a power of two.
func (w *warp) asyncSource(c asyncCopy) (data, written []byte, in *allocation, ok bool) {
	_, one, _, a := w.resolve(spaceGlobal, c.from, 1, c.lane, c.slot)
	if one == nil {
		return nil, nil, nil, false
	}
	at := int(c.from - a.base)
	if at+c.src > len(a.data) {
		w.unallocated(c.from, c.src, c.lane, a)
		return nil, nil, nil, false
	}
	return a.data[at : at+c.src], a.written[at : at+c.src], a, true
}

func (w *warp) asyncCommit(m uint32) {
	w.async.any = true
	for i := range w.async.lanes {
		if q := &w.async.lanes[i]; m>>i&1 != 0 {
			q.ends = append(q.ends, len(q.list))
		}
	}
}

// asyncWait performs the copies of all groups but the last n.
func (w *warp) asyncWait(m uint32, n int) {
	for i := range w.async.lanes {
		q := &w.async.lanes[i]
		done := len(q.ends) - n
		if m>>i&1 == 0 || done <= 0 {
			continue
		}
		end := q.ends[done-1]
		for _, c := range q.list[:end] {
			w.asyncPerform(c)
		}
		q.list = append(q.list[:0], q.list[end:]...)
		q.ends = append(q.ends[:0], q.ends[done:]...)
		for k := range q.ends {
			q.ends[k] -= end
		}
	}
}

func (w *warp) asyncPerform(c asyncCopy) {
	var buf [16]byte
	if c.src > 0 {
		data, _, _, ok := w.asyncSource(c)
		if !ok {
			return
		}
		copy(buf[:], data)
	}
	to := w.b.shared[c.to : c.to+uint64(c.n)]
	written := w.b.written[c.to : c.to+uint64(c.n)]
	fill(written, stateWritten)
	if w.raceWrite(c.to, to, nil, c.lane) {
		copy(to, buf[:c.n])
	}
}
