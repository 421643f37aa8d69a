package emulate

import (
	"cmp"
	"math/bits"
	"slices"
)

// PTX has as many registers as the compiler liked. So that a warp's registers stay in the cache, those that do not live at the same
// time share a place: a kernel is decoded once to see which instruction reads and writes which register, and again with the places
// known. What a lane holds on its way through the program is its own, so that divergence changes nothing.

// touch is one operand of an instruction.
type touch struct {
	class class
	index int32
	def   bool
}

// recorder takes down the operands of every instruction.
type recorder struct {
	pending []touch
	code    [][]touch
	jumps   map[int][]*label // of brx.idx
	pinned  [3]map[int32]bool
}

func newRecorder() *recorder {
	r := &recorder{jumps: map[int][]*label{}}
	for c := range r.pinned {
		r.pinned[c] = map[int32]bool{0: true}
	}
	return r
}

func (r *recorder) add(class class, index int32, def bool) {
	if r != nil {
		r.pending = append(r.pending, touch{class, index, def})
	}
}

// pin keeps a register for the whole program.
func (r *recorder) pin(class class, index int32) {
	if r != nil {
		r.pinned[class][index] = true
	}
}

// emitted ends an instruction.
func (r *recorder) emitted() {
	if r != nil {
		r.code = append(r.code, r.pending)
		r.pending = nil
	}
}

// places says where the registers of each class stand.
type places struct {
	index    [3][]int32
	count    [3]int
	fixed    [3]int // the first ones, which hold one value for the whole program
	pressure int
}

// span is the part of a program in which a register lives: from the write at twice an instruction's number plus one to the last read
// at twice its number.
type span struct {
	touch
	from, to int
}

// allocate gives the registers of a decoded program their places.
func (r *recorder) allocate(p *program) *places {
	spans := r.spans(p)
	slices.SortFunc(spans, func(a, b *span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.index, b.index)) })
	out := &places{}
	for c, n := range [3]int{p.r, p.q, p.p} {
		out.index[c] = make([]int32, n)
	}
	for c := range r.pinned {
		for i := range out.index[c] { // in order, so that places do not depend on the order of a map
			if r.pinned[c][int32(i)] {
				out.index[c][i] = int32(out.count[c])
				out.count[c]++
			}
		}
	}
	out.fixed = out.count
	var active [3][]*span
	var free [3][]int32
	live := 0
	for _, s := range spans {
		for c := range active {
			active[c] = slices.DeleteFunc(active[c], func(a *span) bool {
				if a.to >= s.from {
					return false
				}
				free[c] = append(free[c], out.index[c][a.index])
				live -= c % 2
				if c < 2 {
					live--
				}
				return true
			})
		}
		c := s.class
		if n := len(free[c]); n > 0 {
			out.index[c][s.index] = free[c][n-1]
			free[c] = free[c][:n-1]
		} else {
			out.index[c][s.index] = int32(out.count[c])
			out.count[c]++
		}
		active[c] = append(active[c], s)
		switch c {
		case class32:
			live++
		case class64:
			live += 2
		}
		out.pressure = max(out.pressure, live)
	}
	return out
}

// basic is a run of instructions that is entered at its beginning only.
type basic struct {
	from, to int // instructions from to to-1
	next     []int
	in, out  set
	kill     set
}

type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

// spans finds where registers live.
func (r *recorder) spans(p *program) []*span {
	offset := [3]int{0, p.r, p.r + p.q}
	total := p.r + p.q + p.p
	id := func(t touch) int { return offset[t.class] + int(t.index) }
	blocks := r.basics(p)
	for _, b := range blocks {
		b.in, b.out, b.kill = make(set, total/64+1), make(set, total/64+1), make(set, total/64+1)
		for i := b.from; i < b.to; i++ {
			for _, def := range []bool{false, true} {
				for _, t := range r.code[i] {
					switch {
					case t.def != def:
					case !t.def || p.code[i].pred >= 0: // what is written for some lanes keeps the others
						if !b.kill.has(id(t)) {
							b.in.add(id(t))
						}
					default:
						b.kill.add(id(t))
					}
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for i := len(blocks) - 1; i >= 0; i-- {
			b := blocks[i]
			for k := range b.out {
				var x uint64
				for _, n := range b.next {
					x |= blocks[n].in[k]
				}
				b.out[k] = x
				if y := b.in[k] | x&^b.kill[k]; y != b.in[k] {
					b.in[k], changed = y, true
				}
			}
		}
	}
	all := make([]*span, total)
	extend := func(id, at int, t touch) {
		if r.pinned[t.class][t.index] {
			return
		}
		if all[id] == nil {
			all[id] = &span{t, at, at}
			return
		}
		all[id].from, all[id].to = min(all[id].from, at), max(all[id].to, at)
	}
	each := func(s set, at int) {
		for k, x := range s {
			for ; x != 0; x &= x - 1 {
				i := 64*k + bits.TrailingZeros64(x)
				c := class32
				for c < classPred && i >= offset[c+1] {
					c++
				}
				extend(i, at, touch{class: c, index: int32(i - offset[c])})
			}
		}
	}
	for _, b := range blocks {
		each(b.in, 2*b.from)
		each(b.out, 2*b.to-1)
		for i := b.from; i < b.to; i++ {
			for _, t := range r.code[i] {
				at := 2 * i
				if t.def {
					at++
				}
				extend(id(t), at, t)
			}
		}
	}
	return slices.DeleteFunc(all, func(s *span) bool { return s == nil })
}

// basics cuts a program into blocks.
func (r *recorder) basics(p *program) []*basic {
	starts := map[int]bool{0: true}
	targets := func(i int) []int {
		var to []int
		in := &p.code[i]
		switch in.shape {
		case shapeBranch:
			to = append(to, int(in.target))
		case shapeIndex:
			for _, l := range r.jumps[i] {
				to = append(to, l.at)
			}
		case shapeExit:
		default:
			return []int{i + 1}
		}
		if in.pred >= 0 {
			to = append(to, i+1)
		}
		return to
	}
	for i := range p.code {
		switch p.code[i].shape {
		case shapeBranch, shapeIndex, shapeExit:
			for _, t := range append(targets(i), i+1) {
				starts[t] = true
			}
		}
	}
	var blocks []*basic
	number := map[int]int{}
	for i := range p.code {
		if starts[i] {
			number[i] = len(blocks)
			blocks = append(blocks, &basic{from: i})
		}
		blocks[len(blocks)-1].to = i + 1
	}
	for _, b := range blocks {
		for _, t := range targets(b.to - 1) {
			if t < len(p.code) {
				b.next = append(b.next, number[t])
			}
		}
	}
	return blocks
}
