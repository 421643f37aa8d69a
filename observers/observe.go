package observers

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
)

// chunk is how many elements are counted and then compared while they are in the first-level cache.
const chunk = 4096

// Observe counts all elements of a float32 tensor of either layout and returns the extent of this tensor alone. axis is
// the logical axis whose channels get ranges of their own, -1 for none; within one State it should not change. NaN is an
// error (and stays recorded: methods refuse the state); infinite values are counted apart. The tensor is read once and
// nothing is allocated once all octaves have been seen.
func (st *State) Observe(t *tensor.Tensor, axis int) (Extent, error) {
	data, err := values(t)
	if err != nil {
		return NoExtent, err
	}
	if axis < -1 || axis >= len(t.Shape) {
		return NoExtent, fmt.Errorf("observers: no axis %d in %s", axis, t.Type())
	}
	nan := st.hist.nan
	x := NoExtent
	if axis >= 0 && st.setChannels(t.Shape[axis]) {
		x = st.observeChannels(data, t, axis)
	} else {
		if axis < 0 {
			st.dropChannels()
		}
		for len(data) > 0 {
			part := data[:min(chunk, len(data))]
			data = data[len(part):]
			x = x.Union(st.count(part))
		}
	}
	st.extent = st.extent.Union(x)
	if n := st.hist.nan - nan; n > 0 {
		return x, fmt.Errorf("%d of %d values are NaN", n, t.Len())
	}
	return x, nil
}

// count adds data to the histogram and returns its extent.
func (st *State) count(data []float32) Extent {
	before := st.notFinite()
	st.hist.add(data)
	return extentOf(data, st.notFinite() != before)
}

func (st *State) notFinite() uint64 { return st.hist.nan + st.hist.inf[0] + st.hist.inf[1] }

// observeChannels counts data and takes the extents along axis; it returns the extent of all.
func (st *State) observeChannels(data []float32, t *tensor.Tensor, axis int) Extent {
	outer, n, inner := t.Blocks(axis)
	s := st.scratch
	for c := range s {
		s[c] = NoExtent
	}
	if inner >= 8 {
		for o := range outer {
			for c := range n {
				run := data[(o*n+c)*inner:][:inner]
				for len(run) > 0 {
					part := run[:min(chunk, len(run))]
					run = run[len(part):]
					s[c] = s[c].Union(st.count(part))
				}
			}
		}
	} else {
		rows := max(1, chunk/max(n*inner, 1)) // of n*inner elements each
		for o := 0; o < outer; o += rows {
			part := data[o*n*inner : min(o+rows, outer)*n*inner]
			before := st.notFinite()
			st.hist.add(part)
			skip := st.notFinite() != before
			for len(part) > 0 {
				if inner == 1 && !skip {
					widen(s, part[:n])
				} else {
					for c := range n {
						s[c] = s[c].Union(extentOf(part[c*inner:(c+1)*inner], skip))
					}
				}
				part = part[n*inner:]
			}
		}
	}
	all := NoExtent
	for c, x := range s {
		st.ranges[c] = st.ranges[c].Union(x)
		all = all.Union(x)
	}
	return all
}

// extentOf returns the extent of data; skip says that there may be values that are not finite.
func extentOf(data []float32, skip bool) Extent {
	x := NoExtent
	if skip {
		for _, v := range data {
			if v-v == 0 {
				x.Min, x.Max = min(x.Min, v), max(x.Max, v)
			}
		}
		return x
	}
	lo, hi := x.Min, x.Max
	for _, v := range data {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return Extent{lo, hi}
}

// widen makes each channel's extent cover the element of that channel. All elements are finite.
func widen(s []Extent, row []float32) {
	s = s[:len(row)]
	for c, v := range row {
		p := &s[c]
		if v < p.Min {
			p.Min = v
		}
		if v > p.Max {
			p.Max = v
		}
	}
}

// ObserveRows looks at the rows along axis of a float32 tensor and notes, for each row of two or more values that are all
// finite, the ends of the interval of scales that keep its order; see Isotone. It is called beside Observe.
func (st *State) ObserveRows(t *tensor.Tensor, axis int) error {
	data, err := values(t)
	if err != nil {
		return err
	}
	if axis < 0 || axis >= len(t.Shape) {
		return fmt.Errorf("observers: no axis %d in %s", axis, t.Type())
	}
	if st.rows == nil {
		st.rows = newRows()
	}
	outer, n, inner := t.Blocks(axis)
	if n < 2 {
		return nil
	}
	for o := range outer {
		for i := range inner {
			first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
			finite := true
			for p := o*n*inner + i; p < (o+1)*n*inner; p += inner {
				v := data[p]
				finite = finite && v-v == 0
				if v > first {
					first, second = v, first
				} else if v > second {
					second = v
				}
			}
			if finite {
				st.rows.add(first, second)
			}
		}
	}
	return nil
}
