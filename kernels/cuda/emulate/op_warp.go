package emulate

import (
	"math/bits"

	"qwb/kernels/cuda/driver"
)

func onesCount(x uint32) int { return bits.OnesCount32(x) }

// gather makes an instruction of the lanes that a mask names.
func (d *decoder) gather(in *instr, mask operand, exec func(w *warp, m uint32)) {
	in.members = d.members(mask)
	in.shape = shapeGather
	in.exec = exec
}

// opShfl moves a register between the lanes of a warp.
func opShfl(d *decoder, in *instr) {
	sync := d.has("sync")
	mode, t := d.one("up", "down", "bfly", "idx"), d.typ()
	if n := 4 + int(bit(sync)); !d.operands(n, n) || mode == "" || t.bits != 32 {
		d.fail("this form is not supported")
		return
	}
	ops := d.op.operands
	word := ptype{kindUnsigned, 32}
	first := ops[0]
	first.pair = ""
	to, flag := d.dst(first, class32).index, int32(-1)
	if ops[0].pair != "" {
		flag = d.dst(operand{name: ops[0].pair}, classPred).index
	}
	a, b, c := d.src(ops[1], t, false).index, d.src(ops[2], word, false).index, d.src(ops[3], word, false).index
	exec := func(w *warp, m uint32) {
		var out lanes32
		var valid uint32
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			j, ok := shuffleFrom(mode, i, w.r[b][i], w.r[c][i])
			if m>>j&1 == 0 {
				w.fail(driver.LaunchFailed, i, "takes the value of lane %d, which does not take part", j)
				return
			}
			out[i] = w.r[a][j]
			valid |= bit(ok) << i
		}
		for i := range out {
			if m>>i&1 != 0 {
				w.r[to][i] = out[i]
			}
		}
		if flag >= 0 {
			w.setPred(flag, m, valid)
		}
	}
	if !sync { // before compute capability 7.0 the lanes of a warp that have not ended move together
		in.shape, in.exec = shapeGather, exec
		in.members = func(w *warp, _ uint32) uint32 { return ^w.dead }
		return
	}
	d.gather(in, ops[4], exec)
}

// shuffleFrom returns the lane that a lane reads, and whether it is within the segment.
func shuffleFrom(mode string, lane int, b, c uint32) (from int, ok bool) {
	bval, cval, mask := int(b&31), int(c&31), int(c>>8&31)
	top := lane&mask | cval&^mask
	low := lane & mask
	switch mode {
	case "up":
		from = lane - bval
		ok = from >= top
	case "down":
		from = lane + bval
		ok = from <= top
	case "bfly":
		from = lane ^ bval
		ok = from <= top
	default:
		from = low | bval&^mask
		ok = from <= top
	}
	if !ok {
		from = lane
	}
	return from, ok
}

// opVote joins a predicate over the lanes of a mask.
func opVote(d *decoder, in *instr) {
	sync := d.has("sync")
	mode, t := d.one("all", "any", "uni", "ballot"), d.typ()
	if n := 2 + int(bit(sync)); !d.operands(n, n) || mode == "" {
		d.fail("this form is not supported")
		return
	}
	ops := d.op.operands
	to := d.dst(ops[0], classOf(t)).index
	p, invert := d.pred(ops[1])
	exec := func(w *warp, m uint32) {
		x := (w.p[p] ^ invert) & m
		switch mode {
		case "ballot":
			for i := range w.r[to] {
				if m>>i&1 != 0 {
					w.r[to][i] = x
				}
			}
		case "all":
			w.setPred(to, m, -bit(x == m))
		case "any":
			w.setPred(to, m, -bit(x != 0))
		case "uni":
			w.setPred(to, m, -bit(x == 0 || x == m))
		}
	}
	if !sync {
		in.shape, in.exec = shapeGather, exec
		in.members = func(w *warp, _ uint32) uint32 { return ^w.dead }
		return
	}
	d.gather(in, ops[2], exec)
}

// opMatch finds the lanes that hold the same value.
func opMatch(d *decoder, in *instr) {
	d.has("sync")
	mode, t := d.one("any", "all"), d.typ()
	if !d.operands(3, 3) || mode == "" {
		d.fail("this form is not supported")
		return
	}
	ops := d.op.operands
	first := ops[0]
	first.pair = ""
	to, flag := d.dst(first, class32).index, int32(-1)
	if ops[0].pair != "" {
		flag = d.dst(operand{name: ops[0].pair}, classPred).index
	}
	a := d.src(ops[1], t, false)
	d.gather(in, ops[2], func(w *warp, m uint32) {
		var same [warpSize]uint32
		for i := range same {
			for j := range same {
				if m>>i&1 != 0 && m>>j&1 != 0 && w.get(a, i) == w.get(a, j) {
					same[i] |= 1 << j
				}
			}
		}
		for i := range same {
			if m>>i&1 == 0 {
				continue
			}
			if mode == "all" && same[i] != m {
				same[i] = 0
			}
			w.r[to][i] = same[i]
			if flag >= 0 {
				w.setPred(flag, 1<<i, -bit(same[i] != 0))
			}
		}
	})
}

func opActivemask(d *decoder, in *instr) {
	t := d.typ()
	if !d.operands(1, 1) {
		return
	}
	to := d.dst(d.op.operands[0], classOf(t))
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := range m32 {
			if m>>i&1 != 0 {
				w.put(to, i, uint64(m))
			}
		}
	}
}

const m32 = warpSize

// opRedux reduces a register over the lanes of a mask.
func opRedux(d *decoder, in *instr) {
	d.has("sync")
	what := d.one("add", "min", "max", "and", "or", "xor")
	t := d.typ()
	if !d.operands(3, 3) || what == "" || t.bits != 32 {
		d.fail("this form is not supported")
		return
	}
	ops := d.op.operands
	to, a := d.dst(ops[0], class32).index, d.src(ops[1], t, false).index
	d.gather(in, ops[2], func(w *warp, m uint32) {
		x := w.r[a][firstLane(m)]
		for rest := m & (m - 1); rest != 0; rest &= rest - 1 {
			x = uint32(combineInteger(what, t, uint64(x), uint64(w.r[a][firstLane(rest)])))
		}
		for i := range w.r[to] {
			if m>>i&1 != 0 {
				w.r[to][i] = x
			}
		}
	})
}

// combineInteger joins two values of type t.
func combineInteger(what string, t ptype, a, b uint64) uint64 {
	a, b = t.extend(a), t.extend(b)
	less := a < b
	if t.signed() {
		less = int64(a) < int64(b)
	}
	switch what {
	case "add":
		return a + b
	case "min":
		if less {
			return a
		}
		return b
	case "max":
		if less {
			return b
		}
		return a
	case "and":
		return a & b
	case "or":
		return a | b
	}
	return a ^ b
}
