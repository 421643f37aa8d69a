package observers

// Moved returns how many values of st lie in another bin than those of o, which has as many: what has to be moved to make one of the
// other. Without bins there is nothing to tell.
func (st *State) Moved(o *State) uint64 {
	if st.extremesOnly || o.extremesOnly {
		return 0
	}
	more := map[uint32]int64{}
	for sign, from := range map[int64]*histogram{1: st.hist, -1: o.hist} {
		h := newHistogram() // both fold the same octaves
		h.raise(max(st.hist.top, o.hist.top))
		h.merge(from)
		h.each(func(bits uint32, n uint64) { more[bits] += sign * int64(n) })
	}
	moved := uint64(0)
	for _, n := range more {
		moved += uint64(max(n, 0))
	}
	return moved
}
