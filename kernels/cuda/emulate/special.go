package emulate

// specialRegister returns the register that holds %tid.x and its like.
func (d *decoder) specialRegister(name string, t ptype) (ref, bool) {
	value := specialValues[name]
	if value == nil {
		return ref{}, false
	}
	if t.bits == 64 {
		d.fail("%s is a 32-bit register", name)
		return ref{}, true
	}
	i, ok := d.specials[name]
	if !ok {
		i = d.fresh(class32).index
		d.specials[name] = i
		d.prog.specials = append(d.prog.specials, special{d.stands(ref{class32, i, 32}).index, value})
	}
	return d.keep(ref{class32, i, t.bits}), true
}

// specialValues are the special registers that do not change while a block runs.
var specialValues = map[string]func(w *warp, lane int) uint32{
	"%tid.x":    func(w *warp, lane int) uint32 { return uint32(w.thread(lane)[0]) },
	"%tid.y":    func(w *warp, lane int) uint32 { return uint32(w.thread(lane)[1]) },
	"%tid.z":    func(w *warp, lane int) uint32 { return uint32(w.thread(lane)[2]) },
	"%ntid.x":   func(w *warp, _ int) uint32 { return w.b.l.block.X },
	"%ntid.y":   func(w *warp, _ int) uint32 { return w.b.l.block.Y },
	"%ntid.z":   func(w *warp, _ int) uint32 { return w.b.l.block.Z },
	"%ctaid.x":  func(w *warp, _ int) uint32 { return uint32(w.b.at[0]) },
	"%ctaid.y":  func(w *warp, _ int) uint32 { return uint32(w.b.at[1]) },
	"%ctaid.z":  func(w *warp, _ int) uint32 { return uint32(w.b.at[2]) },
	"%nctaid.x": func(w *warp, _ int) uint32 { return w.b.l.grid.X },
	"%nctaid.y": func(w *warp, _ int) uint32 { return w.b.l.grid.Y },
	"%nctaid.z": func(w *warp, _ int) uint32 { return w.b.l.grid.Z },
	"%laneid":   func(_ *warp, lane int) uint32 { return uint32(lane) },
	"%warpid":   func(w *warp, _ int) uint32 { return uint32(w.index) },
	"%nwarpid":  func(w *warp, _ int) uint32 { return maxThreadsPerSM / warpSize },
	"%smid":     func(w *warp, _ int) uint32 { return 0 },
	"%nsmid":    func(w *warp, _ int) uint32 { return multiprocessors },
	"%gridid":   func(w *warp, _ int) uint32 { return 0 },

	"%lanemask_eq": func(_ *warp, lane int) uint32 { return 1 << lane },
	"%lanemask_le": func(_ *warp, lane int) uint32 { return 2<<lane - 1 },
	"%lanemask_lt": func(_ *warp, lane int) uint32 { return 1<<lane - 1 },
	"%lanemask_ge": func(_ *warp, lane int) uint32 { return ^uint32(1<<lane - 1) },
	"%lanemask_gt": func(_ *warp, lane int) uint32 { return ^uint32(2<<lane - 1) },

	"%dynamic_smem_size": func(w *warp, _ int) uint32 { return uint32(w.b.l.dynamic) },
	"%total_smem_size":   func(w *warp, _ int) uint32 { return uint32(w.b.l.shared) },
}
