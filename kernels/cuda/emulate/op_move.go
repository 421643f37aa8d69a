package emulate

func opMov(d *decoder, in *instr) {
	if !d.operands(2, 2) {
		return
	}
	t, ops := d.typ(), d.op.operands
	switch {
	case t.kind == kindPred:
		d.movPred(in)
	case ops[0].kind == opdVector:
		d.unpack(in, t)
	case ops[1].kind == opdVector:
		d.pack(in, t)
	case counters[ops[1].name] != nil:
		d.counter(in, t)
	default:
		d.alu(in, t, 1, mov32, mov64, func(a, _, _ uint64) uint64 { return a })
	}
}

func (d *decoder) movPred(in *instr) {
	to := d.dst(d.op.operands[0], classPred).index
	from, invert := d.pred(d.op.operands[1])
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.setPred(to, m, w.p[from]^invert) }
}

// counters are special registers that change while a kernel runs. Time is counted in instructions of the warp.
var counters = map[string]func(w *warp) uint64{
	"%clock":          func(w *warp) uint64 { return uint64(w.steps) },
	"%clock_hi":       func(w *warp) uint64 { return uint64(w.steps) >> 32 },
	"%clock64":        func(w *warp) uint64 { return uint64(w.steps) },
	"%globaltimer":    func(w *warp) uint64 { return uint64(w.steps) },
	"%activemask":     nil,
	"%globaltimer_lo": func(w *warp) uint64 { return uint64(w.steps) },
	"%globaltimer_hi": func(w *warp) uint64 { return uint64(w.steps) >> 32 },
}

func (d *decoder) counter(in *instr, t ptype) {
	to, value := d.dst(d.op.operands[0], classOf(t)), counters[d.op.operands[1].name]
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 != 0 {
				w.put(to, i, value(w))
			}
		}
	}
}

// pack makes a wide register of the parts of a vector, the first one lowest.
func (d *decoder) pack(in *instr, t ptype) {
	parts := d.op.operands[1].list
	if len(parts) != 2 && len(parts) != 4 {
		d.fail("a vector of %d parts", len(parts))
		return
	}
	to := d.dst(d.op.operands[0], classOf(t))
	part := ptype{kindBits, t.bits / len(parts)}
	var from []ref
	for _, o := range parts {
		from = append(from, d.src(o, part, false))
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			var x uint64
			for k, r := range from {
				x |= part.extend(w.get(r, i)) << (k * part.bits)
			}
			w.put(to, i, x)
		}
	}
}

func (d *decoder) unpack(in *instr, t ptype) {
	parts := d.op.operands[0].list
	if len(parts) != 2 && len(parts) != 4 {
		d.fail("a vector of %d parts", len(parts))
		return
	}
	part := ptype{kindBits, t.bits / len(parts)}
	from := d.src(d.op.operands[1], t, false)
	var to []ref
	for _, o := range parts {
		to = append(to, d.dst(o, class32))
	}
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		for i := 0; i < warpSize; i++ {
			if m>>i&1 == 0 {
				continue
			}
			x := w.get(from, i)
			for k, r := range to {
				w.put(r, i, part.extend(x>>(k*part.bits)))
			}
		}
	}
}

func opCvta(d *decoder, in *instr) {
	if !d.operands(2, 2) {
		return
	}
	to := d.has("to")
	space := d.one("global", "shared", "local", "const", "param")
	t := d.typ()
	if space == "" || space == "param" || t.bits != 64 {
		d.fail("this address conversion is not supported")
		return
	}
	window := map[string]uint64{"shared": sharedWindow, "local": localWindow}[space]
	if window == 0 { // generic addresses are those of global memory, where constants stand too
		d.alu(in, t, 1, mov32, mov64, nil)
		return
	}
	if to {
		window = -window
	}
	d.lanewise(in, t, []ptype{t}, func(a, _, _ uint64) uint64 { return a + window })
}

// isspacep asks which state space a generic address is in.
func opIsspacep(d *decoder, in *instr) {
	space := d.one("global", "shared", "local", "const")
	if !d.operands(2, 2) {
		return
	}
	to := d.dst(d.op.operands[0], classPred).index
	from := d.src(d.op.operands[1], ptype{kindUnsigned, 64}, false).index
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) {
		var r uint32
		for i, a := range w.q[from] {
			in := "global"
			switch {
			case a-sharedWindow < windowSize:
				in = "shared"
			case a-localWindow < windowSize:
				in = "local"
			}
			if in == space {
				r |= 1 << i
			}
		}
		w.setPred(to, m, r)
	}
}
