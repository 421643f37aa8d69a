package emulate

import (
	"fmt"

	"qwb/kernels/cuda/driver"
)

// arrival is what a warp waits for at a barrier of its block.
type arrival struct {
	id, count int // count 0 is all threads of the block
	pc        int
	result    func(w *warp, votes int, and, or bool) // of bar.red
	votes     uint32
}

const barriers = 16

// opBar decodes bar.sync, bar.arrive, bar.red, bar.warp.sync and the forms that begin with barrier.
func opBar(d *decoder, in *instr) {
	d.has("cta", "aligned")
	if d.has("warp") {
		d.barWarp(in)
		return
	}
	what := d.one("sync", "arrive", "red")
	ops := d.op.operands
	word := ptype{kindUnsigned, 32}
	var result func(w *warp, votes int, and, or bool)
	var vote func(w *warp) uint32
	switch what {
	case "red":
		if len(ops) < 3 {
			d.fail("%d operands", len(ops))
			return
		}
		op := d.one("popc", "and", "or")
		t := d.typ()
		p, invert := d.pred(ops[len(ops)-1])
		vote = func(w *warp) uint32 { return w.p[p] ^ invert }
		to := d.dst(ops[0], classOf(t)).index
		result = func(w *warp, votes int, and, or bool) {
			live := ^w.dead
			switch op {
			case "popc":
				for i := range w.r[to] {
					w.r[to][i] = uint32(votes)
				}
			case "and":
				w.setPred(to, live, -bit(and))
			default:
				w.setPred(to, live, -bit(or))
			}
		}
		ops = ops[1 : len(ops)-1]
	case "arrive":
		d.fail("bar.arrive is not supported")
		return
	case "":
		d.fail("no barrier")
		return
	}
	if len(ops) < 1 || len(ops) > 2 {
		d.fail("%d operands", len(d.op.operands))
		return
	}
	id, count := d.src(ops[0], word, false).index, int32(-1)
	if len(ops) == 2 {
		count = d.src(ops[1], word, false).index
	}
	in.shape = shapeBarrier
	in.exec = func(w *warp, m uint32) {
		a := arrival{pc: w.pc, result: result}
		first := firstLane(m)
		a.id = int(w.r[id][first])
		if count >= 0 {
			a.count = int(w.r[count][first])
		}
		for i := range w.r[id] {
			if m>>i&1 != 0 && (int(w.r[id][i]) != a.id || count >= 0 && int(w.r[count][i]) != a.count) {
				w.fail(driver.LaunchFailed, i, "lanes of one warp name different barriers")
				return
			}
		}
		if a.id >= barriers || a.count%warpSize != 0 {
			w.fail(driver.LaunchFailed, first, "barrier %d of %d threads does not exist", a.id, a.count)
			return
		}
		if vote != nil {
			a.votes = vote(w) & m
		}
		w.barrier, w.state = a, warpWaits
	}
}

// barWarp decodes bar.warp.sync: lanes of a mask come together, and what they wrote before is seen by all of them.
func (d *decoder) barWarp(in *instr) {
	d.has("sync")
	if !d.operands(1, 1) {
		return
	}
	in.members = d.members(d.op.operands[0])
	in.shape = shapeGather
	in.exec = func(w *warp, m uint32) { w.b.race.warpSync(w) }
}

// members decodes a mask of lanes: all that it names, and that are threads, must be here.
func (d *decoder) members(o operand) func(w *warp, m uint32) uint32 {
	mask := d.src(o, ptype{kindUnsigned, 32}, false).index
	return func(w *warp, m uint32) uint32 {
		var need uint32
		for i, x := range w.r[mask] {
			if m>>i&1 != 0 {
				if x>>i&1 == 0 {
					w.fail(driver.LaunchFailed, i, "the lane is not in its own mask %#x", x)
				}
				need |= x
			}
		}
		return need & w.exists
	}
}

// wholeWarp is the members of an instruction that all 32 lanes take part in.
func wholeWarp(w *warp, m uint32) uint32 {
	if w.exists != allLanes {
		w.fail(driver.LaunchFailed, firstLane(m), "needs 32 lanes; the warp has %s", laneList(w.exists))
	}
	return allLanes
}

// release lets the warps of a barrier go on at which all that it waits for have come. No warp can run when it is called.
func (b *block) release() *fault {
	released := false
	var left string
	for id := range barriers {
		var waiting []*warp
		threads := 0
		for _, w := range b.warps {
			if w.state == warpWaits && w.barrier.id == id {
				waiting = append(waiting, w)
				threads += onesCount(w.exists)
			}
		}
		if len(waiting) == 0 {
			continue
		}
		want := waiting[0].barrier.count
		if want == 0 {
			want = b.l.block.Count()
		}
		if threads != want {
			left += fmt.Sprintf("; barrier %d waits for %d threads of %d at %s", id, threads, want,
				waiting[0].code[waiting[0].barrier.pc].source.where())
			continue
		}
		votes, and, or := 0, true, false
		for _, w := range waiting {
			votes += onesCount(w.barrier.votes)
			and = and && w.barrier.votes == w.exists
			or = or || w.barrier.votes != 0
		}
		for _, w := range waiting {
			if w.barrier.result != nil {
				w.barrier.result(w, votes, and, or)
			}
			w.state = warpReady
		}
		b.race.barrier(b)
		released = true
	}
	if released {
		return nil
	}
	for _, w := range b.warps {
		if w.state == warpWaits {
			w.pc = w.barrier.pc
			w.fail(driver.LaunchFailed, firstLane(w.exists), "the block cannot go on: threads wait at different barriers, or for threads "+
				"that have ended%s", left)
			return w.fault
		}
	}
	return nil
}
