package emulate

import "math"

// opAtom decodes atom, which gives the old value, and red, which does not.
func opAtom(d *decoder, in *instr) {
	returns := d.op.name == "atom"
	a := &access{vector: 1, locked: true}
	d.has("relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "noftz")
	a.space = spaces[d.one("global", "shared")]
	if d.has("shared::cta") {
		a.space = spaceShared
	}
	what := d.one("add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec")
	a.t = d.typ()
	n := 2
	if what == "cas" {
		n++
	}
	ops := d.op.operands
	to := ref{}
	if returns {
		if !d.operands(n+1, n+1) {
			return
		}
		to = d.dst(ops[0], classOf(a.t))
		ops = ops[1:]
	} else if !d.operands(n, n) {
		return
	}
	f := atomicOperation(what, a.t)
	if f == nil {
		d.fail("this atomic operation is not supported")
		return
	}
	a.base, a.offset = d.address(ops[0])
	a.slot = d.slot()
	b, c := d.src(ops[1], a.t, false), ref{}
	if what == "cas" {
		c = d.src(ops[2], a.t, false)
	}
	in.shape = shapeExec
	size := a.t.bits / 8
	in.exec = func(w *warp, m uint32) {
		w.b.l.atomics.Lock()
		defer w.b.l.atomics.Unlock()
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			address := w.at(a, i)
			s, data, written, alloc := w.resolve(a.space, address, size, i, a.slot)
			if data == nil || !w.atomicAccess(s, address, data, written, alloc, i) {
				return
			}
			old := loadBytes(data, size)
			var third uint64
			if what == "cas" {
				third = w.get(c, i)
			}
			storeBytes(data, size, f(old, w.get(b, i), third))
			if returns {
				w.put(to, i, old)
			}
		}
	}
}

// atomicOperation returns what an atomic writes: of the old value, the operand, and for cas the new value.
func atomicOperation(what string, t ptype) func(old, b, c uint64) uint64 {
	if t.bits < 32 && what != "cas" {
		return nil
	}
	switch {
	case what == "exch":
		return func(_, b, _ uint64) uint64 { return b }
	case what == "cas":
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	case t.kind == kindFloat && t.bits == 32 && what == "add":
		return func(old, b, _ uint64) uint64 { return uint64(bits32(f32(uint32(old)) + f32(uint32(b)))) }
	case t.kind == kindFloat && t.bits == 64 && what == "add":
		return func(old, b, _ uint64) uint64 { return math.Float64bits(f64(old) + f64(b)) }
	case t.kind == kindFloat || t.kind == kindPacked || t.kind == kindBFloat || what == "":
		return nil
	case what == "inc":
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case what == "dec":
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	}
	return func(old, b, _ uint64) uint64 { return combineInteger(what, t, old, b) }
}
