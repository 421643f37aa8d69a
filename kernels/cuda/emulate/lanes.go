package emulate

// lanewise makes an instruction that computes every lane for itself. Operands are passed extended to 64 bits as their types say; of
// the result the bits of type dt are kept and extended to the destination's register.
func (d *decoder) lanewise(in *instr, dt ptype, types []ptype, f func(a, b, c uint64) uint64) {
	if !d.operands(1+len(types), 1+len(types)) {
		return
	}
	d.lanewiseOn(in, dt, d.op.operands[0], types, d.op.operands[1:], f)
}

func (d *decoder) lanewiseOn(in *instr, dt ptype, to operand, types []ptype, from []operand, f func(a, b, c uint64) uint64) {
	dst := d.wideDst(to, dt)
	var src [3]ref
	var st [3]ptype
	for i, t := range types {
		src[i], st[i] = d.src(from[i], t, true), t
	}
	n := len(types)
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			var x [3]uint64
			for k := 0; k < n; k++ {
				x[k] = st[k].extend(w.get(src[k], i))
			}
			w.put(dst, i, dt.extend(f(x[0], x[1], x[2])))
		}
	}
}

// wideDst returns a destination that may be wider than the type written to it.
func (d *decoder) wideDst(o operand, t ptype) ref {
	want := classOf(t)
	if want == class32 && o.kind == opdName && o.name != "_" {
		if r := d.register(o.name); d.err == nil && r.class == class64 {
			want = class64
		}
	}
	r := d.dst(o, want)
	if d.err == nil && r.bits < t.bits {
		d.fail("register %s is too narrow", o.name)
	}
	return r
}

func (w *warp) get(r ref, lane int) uint64 {
	if r.class == class64 {
		return w.q[r.index][lane]
	}
	return uint64(w.r[r.index][lane])
}

func (w *warp) put(r ref, lane int, x uint64) {
	switch {
	case r.class == class64:
		w.q[r.index][lane] = x
	case r.bits < 32:
		w.r[r.index][lane] = uint32(x) & (1<<r.bits - 1)
	default:
		w.r[r.index][lane] = uint32(x)
	}
}

// alu makes an instruction of whole registers of type t with n sources. Narrow types go by f.
func (d *decoder) alu(in *instr, t ptype, n int, f32 func(d, a, b, c *lanes32), f64 func(d, a, b, c *lanes64),
	f func(a, b, c uint64) uint64) {
	if t.bits == 32 && f32 == nil || t.bits == 64 && f64 == nil || t.bits < 32 {
		if f == nil {
			d.fail("type of %d bits is not supported", t.bits)
			return
		}
		d.lanewise(in, t, []ptype{t, t, t}[:n], f)
		return
	}
	if !d.operands(1+n, 1+n) {
		return
	}
	ops := d.op.operands
	in.d = d.dst(ops[0], classOf(t)).index
	for i, to := range []*int32{&in.a, &in.b, &in.c}[:n] {
		*to = d.src(ops[1+i], t, false).index
	}
	if t.bits == 64 {
		in.shape, in.alu64 = shapeALU64, f64
	} else {
		in.shape, in.alu32 = shapeALU32, f32
	}
}
