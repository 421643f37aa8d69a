package emulate

import (
	"math/bits"

	"qwb/kernels/cuda/driver"
)

// A register of a warp is one value per lane. Registers of up to 32 bits are zero-extended to lanes32; a predicate is a bit per lane.
type (
	lanes32 = [warpSize]uint32
	lanes64 = [warpSize]uint64
)

const (
	warpSize = 32
	allLanes = 1<<warpSize - 1
)

// instr is a decoded instruction. Operands that are constants or special registers stand in registers that nothing writes, so
// that every operand is a register.
type instr struct {
	shape      shape
	pred       int32  // predicate register, -1 for none
	invert     uint32 // all ones for @!p
	d, a, b, c int32
	target     int32 // of a branch
	alu32      func(d, a, b, c *lanes32)
	alu64      func(d, a, b, c *lanes64)
	exec       func(w *warp, m uint32)
	members    func(w *warp, m uint32) uint32 // lanes that must be here for the instruction to happen
	source     *operation
}

// shape says how the warp runs an instruction.
type shape uint8

const (
	shapeALU32   shape = iota // alu32 on whole registers
	shapeALU64                // alu64 on whole registers
	shapeExec                 // exec with the lanes' mask
	shapeGather               // exec when the members have come together
	shapeBranch               // to target
	shapeIndex                // brx.idx: exec says which group goes where
	shapeExit                 // end of the thread
	shapeBarrier              // barrier of the block, when the warp has come together
)

// program is a decoded kernel.
type program struct {
	name         string
	code         []instr
	r, q, p      int    // registers of each class
	fixed        [3]int // of which so many hold constants and special registers
	idle         *idleBlocks
	const32      []constant[uint32]
	const64      []constant[uint64]
	specials     []special
	frame        int // bytes of local memory of a thread
	shared       int // bytes of static shared memory
	params       int // bytes of the parameter space
	memory       int // number of instructions that access memory
	pressure     int // 32-bit registers of a thread that are live at once, at most
	maxThreads   int
	required     [3]int // block that the kernel asks for; 0 is any
	dynamicAlign int
	accumulators []int32 // registers of products that go on while the warp does
}

type constant[T uint32 | uint64] struct {
	index int32
	value T
}

// special is a register that holds a value of the thread's place in the grid.
type special struct {
	index int32
	value func(w *warp, lane int) uint32
}

// group is lanes of a warp that stand at one instruction.
type group struct {
	pc      int
	mask    uint32
	blocked bool // waits for other lanes to come here
}

type warpState uint8

const (
	warpReady warpState = iota
	warpWaits           // at a barrier of the block
	warpDone
)

// warp is 32 threads of a block that run one instruction at a time.
type warp struct {
	b        *block
	index    int
	code     []instr
	r        []lanes32
	q        []lanes64
	p        []uint32
	groups   []group
	exists   uint32 // lanes that are threads of the block
	dead     uint32 // lanes that are none, or have ended
	state    warpState
	barrier  arrival
	pc       int // of the instruction that runs
	steps    int64
	tmp32    lanes32
	tmp64    lanes64
	tmp      [4]lanes32
	offsets  [warpSize]uint64 // of the lanes' accesses, in their memory
	list     [warpSize]uint8
	local    []byte
	written  []byte // which bytes of local are
	near     []*allocation
	async    asyncQueue
	products productQueue
	segment  uint32 // of racecheck
	fault    *fault
}

// open32 returns where to write the register d: in place where every lane that lives is in m, else aside until close32.
func (w *warp) open32(d int32, m uint32) *lanes32 {
	if m|w.dead == allLanes {
		return &w.r[d]
	}
	return &w.tmp32
}

func (w *warp) close32(d int32, m uint32) {
	if m|w.dead == allLanes {
		return
	}
	to := &w.r[d]
	for rest := m; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		to[i] = w.tmp32[i]
	}
}

func (w *warp) open64(d int32, m uint32) *lanes64 {
	if m|w.dead == allLanes {
		return &w.q[d]
	}
	return &w.tmp64
}

func (w *warp) close64(d int32, m uint32) {
	if m|w.dead == allLanes {
		return
	}
	to := &w.q[d]
	for rest := m; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		to[i] = w.tmp64[i]
	}
}

// setPred writes the lanes m of a predicate.
func (w *warp) setPred(p int32, m, value uint32) { w.p[p] = w.p[p]&^m | value&m }

// pick chooses the group that runs next, the lowest in the program of those that can, so that lanes that went different ways meet
// again where the ways do. It returns the group and the next higher place where another one stands.
func (w *warp) pick() (g *group, limit int) {
	for i := 0; i < len(w.groups); i++ {
		for j := i + 1; j < len(w.groups); j++ {
			if w.groups[j].pc == w.groups[i].pc {
				w.groups[i].mask |= w.groups[j].mask
				w.groups[i].blocked = false
				w.groups = append(w.groups[:j], w.groups[j+1:]...)
				j--
			}
		}
	}
	for i := range w.groups {
		if c := &w.groups[i]; !c.blocked && (g == nil || c.pc < g.pc) {
			g = c
		}
	}
	limit = len(w.code)
	if g != nil && len(w.groups) > 1 {
		for i := range w.groups {
			if pc := w.groups[i].pc; pc > g.pc && pc < limit {
				limit = pc
			}
		}
	}
	return g, limit
}

// run executes until the warp waits at a barrier, ends, faults, or has done so many steps.
func (w *warp) run(steps int64) {
	end := w.steps + steps
	for w.steps < end && w.state == warpReady && w.fault == nil {
		if len(w.groups) == 0 {
			w.state = warpDone
			return
		}
		g, limit := w.pick()
		if g == nil {
			w.stuck()
			return
		}
		w.advance(g, limit, end)
	}
}

// advance runs one group until it comes to limit, splits, ends or waits.
func (w *warp) advance(g *group, limit int, end int64) {
	pc, m := g.pc, g.mask
	code := w.code
	full := m|w.dead == allLanes
	steps := w.steps
	for {
		in := &code[pc]
		steps++
		em := m
		whole := full
		if in.pred >= 0 {
			em &= w.p[in.pred] ^ in.invert
			whole = em|w.dead == allLanes
		}
		switch in.shape {
		case shapeALU32:
			if whole {
				in.alu32(&w.r[in.d], &w.r[in.a], &w.r[in.b], &w.r[in.c])
			} else if em != 0 {
				in.alu32(&w.tmp32, &w.r[in.a], &w.r[in.b], &w.r[in.c])
				w.close32(in.d, em)
			}
		case shapeALU64:
			if whole {
				in.alu64(&w.q[in.d], &w.q[in.a], &w.q[in.b], &w.q[in.c])
			} else if em != 0 {
				in.alu64(&w.tmp64, &w.q[in.a], &w.q[in.b], &w.q[in.c])
				w.close64(in.d, em)
			}
		case shapeExec:
			if em != 0 {
				w.pc = pc
				w.steps = steps
				in.exec(w, em)
				if w.fault != nil {
					return
				}
			}
		case shapeBranch:
			if em == m {
				pc = int(in.target)
				if pc >= limit || steps >= end || len(w.groups) > 1 {
					g.pc, w.steps = pc, steps
					return
				}
				continue
			}
			if em != 0 {
				g.pc, g.mask, w.steps = pc+1, m&^em, steps
				w.groups = append(w.groups, group{pc: int(in.target), mask: em})
				return
			}
		default:
			w.pc, w.steps = pc, steps
			if em == 0 {
				break
			}
			if em != m { // the lanes for which the predicate does not hold go on
				g.mask = em
				g.pc = pc
				w.groups = append(w.groups, group{pc: pc + 1, mask: m &^ em})
				g = &w.groups[w.find(pc)]
				w.special(g, in)
				return
			}
			g.pc = pc
			if in.shape != shapeGather {
				w.special(g, in)
				return
			}
			if need := in.members(w, em); need&^em != 0 {
				w.special(g, in)
				return
			}
			in.exec(w, em)
			if w.fault != nil {
				return
			}
		}
		pc++
		if pc >= limit || steps >= end {
			g.pc, w.steps = pc, steps
			return
		}
	}
}

func (w *warp) find(pc int) int {
	for i := range w.groups {
		if w.groups[i].pc == pc {
			return i
		}
	}
	return 0
}

// special runs what ends, moves or holds up a whole group.
func (w *warp) special(g *group, in *instr) {
	switch in.shape {
	case shapeExit:
		w.dead |= g.mask
		i := w.find(g.pc)
		w.groups = append(w.groups[:i], w.groups[i+1:]...)
		for i := range w.groups { // a group may wait for lanes that have just ended
			w.groups[i].blocked = false
		}
	case shapeIndex:
		in.exec(w, g.mask)
	case shapeGather:
		need := in.members(w, g.mask)
		if gone := need & w.dead & w.exists; gone != 0 {
			w.fail(driver.LaunchFailed, firstLane(g.mask), "waits for lanes %s, which have ended", laneList(gone))
			return
		}
		if need&^g.mask&^w.dead != 0 {
			g.blocked = true
			return
		}
		in.exec(w, g.mask)
		g.pc++
	case shapeBarrier:
		if gone := w.dead & w.exists; gone != 0 {
			w.fail(driver.LaunchFailed, firstLane(g.mask), "barrier in a warp of which lanes %s have ended", laneList(gone))
			return
		}
		if g.mask|w.dead != allLanes {
			g.blocked = true
			return
		}
		in.exec(w, g.mask)
		g.pc++
	}
}

// stuck reports a warp whose groups all wait for each other.
func (w *warp) stuck() {
	g := w.groups[0]
	w.pc = g.pc
	others := ""
	for _, o := range w.groups[1:] {
		in := w.code[o.pc].source
		others += ", lanes " + laneList(o.mask) + " at " + in.where()
	}
	w.fail(driver.LaunchFailed, firstLane(g.mask), "diverged: lanes %s wait here for the others of the warp%s", laneList(g.mask), others)
}

func firstLane(m uint32) int { return bits.TrailingZeros32(m) & (warpSize - 1) }
