package emulate

import "qwb/kernels/cuda/driver"

func bra(d *decoder, in *instr) {
	d.has("uni")
	if !d.operands(1, 1) {
		return
	}
	s := d.env.find(d.op.operands[0].name)
	if s == nil || s.kind != symLabel {
		d.fail("%s is no label", d.op.operands[0].name)
		return
	}
	in.shape = shapeBranch
	d.branch(*in, s.label)
}

// ret ends the thread, or the device function that was decoded in place.
func ret(d *decoder, in *instr) {
	d.has("uni")
	if d.end != nil {
		in.shape = shapeBranch
		d.branch(*in, d.end)
		return
	}
	in.shape = shapeExit
}

func exit(d *decoder, in *instr) { in.shape = shapeExit }

func trap(d *decoder, in *instr) {
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.fail(driver.LaunchFailed, firstLane(m), "trap") }
}

func brkpt(d *decoder, in *instr) {
	in.shape = shapeExec
	in.exec = func(w *warp, m uint32) { w.fail(driver.LaunchFailed, firstLane(m), "breakpoint") }
}

// brx goes to one of several labels, by an index per lane.
func brx(d *decoder, in *instr) {
	d.has("idx", "uni")
	if !d.operands(2, 2) {
		return
	}
	index := d.src(d.op.operands[0], ptype{kindUnsigned, 32}, false).index
	s := d.env.find(d.op.operands[1].name)
	if s == nil || s.kind != symTargets {
		d.fail("%s is no list of labels", d.op.operands[1].name)
		return
	}
	var to []*label
	for _, name := range s.targets.labels {
		l := d.env.find(name)
		if l == nil || l.kind != symLabel {
			d.fail("%s is no label", name)
			return
		}
		to = append(to, l.label)
	}
	if d.record != nil {
		d.record.jumps[len(d.prog.code)] = to
	}
	in.shape = shapeIndex
	in.exec = func(w *warp, m uint32) {
		r := &w.r[index]
		pc := w.pc
		masks := make([]uint32, len(to))
		for i := range r {
			if m>>i&1 == 0 {
				continue
			}
			if int(r[i]) >= len(to) {
				w.fail(driver.LaunchFailed, i, "index %d of %d labels", r[i], len(to))
				return
			}
			masks[r[i]] |= 1 << i
		}
		g := w.find(pc)
		w.groups = append(w.groups[:g], w.groups[g+1:]...)
		for i, l := range to {
			if masks[i] != 0 {
				w.groups = append(w.groups, group{pc: l.at, mask: masks[i]})
			}
		}
	}
}

func nothing(d *decoder, in *instr) {
	for i := range d.used {
		d.used[i] = true
	}
	in.source = nil // leaves no instruction
}
