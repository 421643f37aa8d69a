package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
)

// strides returns, by logical axis, how far apart neighbours lie in memory.
func strides(t *tensor.Tensor) []int {
	s := make([]int, len(t.Shape))
	step := 1
	axes := t.MemoryAxes()
	for i := len(axes) - 1; i >= 0; i-- {
		s[axes[i]] = step
		step *= t.Shape[axes[i]]
	}
	return s
}

// sameOrder reports whether the elements of a shape lie in the same order in both layouts: there is one channel, or one
// position.
func sameOrder(shape []int) bool {
	return len(shape) < 3 || shape[1] == 1 || tensor.Count(shape[2:]) == 1
}

// convert returns the elements of a in another layout.
func (r *runnerState) convert(a handle, layout tensor.Layout) handle {
	if sameOrder(a.t.Shape) {
		view := r.header()
		view.DType, view.Layout, view.Data = a.t.DType, layout, a.t.Data
		view.Shape = append(view.Shape[:0], a.t.Shape...)
		return handle{t: view, buf: a.buf}
	}
	t, b := r.mem.mustAlloc(a.t.DType, a.t.Shape, layout)
	m := move{shape: a.t.Shape, dst: strides(t), src: strides(a.t)}
	m.run(r.s.parallel, t.Data, a.t.Data)
	return handle{t: t, buf: b}
}

// laidOut returns value v in a layout that is not its own; the copy serves all its readers.
func (r *runnerState) laidOut(v graph.ValueID, layout tensor.Layout) handle {
	if r.alt[v].t != nil {
		return r.alt[v]
	}
	out := r.convert(r.vals[v], layout)
	r.keepAlt(v, out)
	return out
}

// keepAlt remembers a converted copy of v for its other readers.
func (r *runnerState) keepAlt(v graph.ValueID, a handle) {
	if r.mem.extend(a.buf, r.s.lastUse[v]) {
		r.alt[v] = a
	}
}
