package observers

import "math"

// rows keeps what the isotone method needs of each row: its second largest value L2, which bounds the scale from below
// (at a smaller scale both saturate), and the difference L1 - L2, which bounds it from above. Neither depends on the
// number of bits, so one state serves every policy.
type rows struct {
	second *histogram // L2 (0 where it is negative)
	gap    *histogram // L1 - L2; rows with L1 = L2 have no order to keep and are only counted
	ties   uint64
}

func newRows(like *histogram) *rows { return &rows{second: like.empty(), gap: like.empty()} }

func (r *rows) add(first, second float32) {
	if first == second {
		r.ties++
		return
	}
	r.second.one(math.Float32bits(max(second, 0)))
	r.gap.one(math.Float32bits(min(first-second, math.MaxFloat32)))
}

func (r *rows) merge(o *rows) {
	r.second.merge(o.second)
	r.gap.merge(o.gap)
	r.ties += o.ties
}

// Rows returns how many rows with a largest value were observed, and how many whose two largest values are equal.
func (st *State) Rows() (ordered, ties uint64) {
	if st.rows == nil {
		return 0, 0
	}
	return st.rows.second.count(), st.rows.ties
}
