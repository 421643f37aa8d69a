package exec

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
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
	if src, ok := a.t.Data.([]float32); ok {
		r.relayout(turn{dst: t.F32(), src: src, images: t.Shape[0], channels: t.Shape[1], positions: tensor.Count(t.Shape[2:]),
			last: layout == tensor.ChannelsLast})
		return handle{t: t, buf: b}
	}
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

// turn is a change of layout of float32 in progress.
type turn struct {
	dst, src                    []float32
	images, channels, positions int
	last                        bool // to channels-last
	pieces                      int
	table                       *kernels.Table
}

// relayout changes a layout. The function of a piece is bound once, so that nothing is allocated.
func (r *runnerState) relayout(t turn) {
	if t.images*t.channels*t.positions == 0 {
		return
	}
	t.pieces, t.table = pieces(t.images*t.positions, t.channels), r.s.table
	r.turn = t
	if r.s.par == nil || t.pieces == 1 {
		for i := range t.pieces {
			r.turn.piece(i)
		}
		return
	}
	if r.turnPiece == nil {
		r.turnPiece = func(i int) { r.turn.piece(i) }
	}
	r.s.par(t.pieces, r.turnPiece)
}

// piece moves the positions of piece i, which may belong to several images.
func (t *turn) piece(i int) {
	lo, hi := i*t.images*t.positions/t.pieces, (i+1)*t.images*t.positions/t.pieces
	for lo < hi {
		image, from := lo/t.positions, lo%t.positions
		n := min(t.positions-from, hi-lo)
		at := image * t.positions * t.channels
		if t.last {
			toLast(t.table, t.dst[at+from*t.channels:][:n*t.channels], t.src[at+from:], t.channels, t.positions)
		} else {
			t.table.Transpose(t.dst[at+from:], t.positions, t.src[at+from*t.channels:], t.channels, n, t.channels)
		}
		lo += n
	}
}

// toLast sets dst[i*c+k] = src[k*stride+i].
func toLast(table *kernels.Table, dst, src []float32, c, stride int) {
	n := len(dst) / c
	if c == 3 { // images
		a, b, d := src[:n], src[stride:][:n], src[2*stride:][:n]
		for i, v := range a {
			to := dst[3*i:][:3]
			to[0], to[1], to[2] = v, b[i], d[i]
		}
		return
	}
	table.Transpose(dst, c, src, stride, c, n)
}
