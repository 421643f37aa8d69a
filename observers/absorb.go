package observers

import (
	"errors"
	"fmt"

	"qwb/kernels"
)

// Counts are what was observed elsewhere, on a GPU for instance: everything that a State keeps of some values of one tensor.
type Counts struct {
	Table
	// Finite is how many values are finite. It is compared with what was counted; where nothing was, it stands for it.
	Finite uint64
	// NaN and Inf are how many are not; Inf has the negative ones first.
	NaN uint64
	Inf [2]uint64
	// Extent is that of the finite values, Channels that of each channel: nil where the tensor has no channel axis.
	Extent   Extent
	Channels []Extent
	// Rows are of a tensor whose rows were looked at beside, as by ObserveRows; else nil.
	Rows *RowCounts
}

// Table is a table of counters as kernels.Meter.Count fills it: of octaves from the exponent Low on, with the negative side. Without
// counters nothing was counted, and only minima and maxima are known.
type Table struct {
	Low, Octaves int
	Counters     []uint32
}

// RowCounts are the values that were taken of rows: the second largest, 0 where it is negative, and the difference between the two
// largest, of rows where they differ; the others are ties.
type RowCounts struct {
	Ties        uint64
	Second, Gap Table
}

// Absorb adds what was observed elsewhere, as if this state had observed it. Counts that cannot be those of a tensor are an error,
// and nothing is added then.
func (st *State) Absorb(c Counts) error {
	add := New()
	if err := add.take(c); err != nil {
		return fmt.Errorf("absorb: %w", err)
	}
	if c.Channels == nil {
		st.dropChannels()
	}
	st.Merge(add)
	return nil
}

// take makes a new state that of c.
func (st *State) take(c Counts) error {
	if c.Counters == nil {
		st.dropBins()
		st.finite = c.Finite
	} else {
		h, err := c.histogram()
		if err != nil {
			return err
		}
		if h.count() != c.Finite {
			return fmt.Errorf("%d of %d values are in the table", h.count(), c.Finite)
		}
		st.hist = h
	}
	st.hist.nan, st.hist.inf = c.NaN, [2]uint64{c.Inf[1], c.Inf[0]}
	if !c.Extent.possible() {
		return fmt.Errorf("extremes %g and %g", c.Extent.Min, c.Extent.Max)
	}
	st.extent = c.Extent.Clean()
	if err := st.checkExtent(); err != nil {
		return err
	}
	if c.Channels != nil && st.setChannels(len(c.Channels)) {
		all := NoExtent
		for i, x := range c.Channels {
			if !x.possible() {
				return fmt.Errorf("extremes %g and %g of channel %d", x.Min, x.Max, i)
			}
			st.setRange(i, x)
			all = all.Union(st.rangeOf(i))
		}
		if all != st.extent {
			return fmt.Errorf("channels from %g to %g of values from %g to %g", all.Min, all.Max, st.extent.Min, st.extent.Max)
		}
	}
	if c.Rows == nil {
		return nil
	}
	if st.extremesOnly {
		return errors.New("rows, but no bins")
	}
	second, err := c.Rows.Second.histogram()
	if err != nil {
		return fmt.Errorf("second largest values: %w", err)
	}
	gap, err := c.Rows.Gap.histogram()
	if err != nil {
		return fmt.Errorf("differences: %w", err)
	}
	st.rows = &rows{second: second, gap: gap, ties: c.Rows.Ties}
	if !st.rows.possible() {
		return fmt.Errorf("%d rows have a second largest value and %d a difference", second.count(), gap.count())
	}
	return nil
}

// possible reports whether x is the extent of finite values, or of none.
func (x Extent) possible() bool { return x.Empty() || x.Min-x.Min == 0 && x.Max-x.Max == 0 }

// Clean makes zeros positive and any range of no values the one that stands for it.
func (x Extent) Clean() Extent {
	if x.Empty() {
		return NoExtent
	}
	return NoExtent.Union(x)
}

// histogram returns the counts of the table. Octaves that a histogram keeps apart must not have been counted together.
func (t Table) histogram() (*histogram, error) {
	if t.Low < 1 || t.Octaves < 1 || t.Low > finiteTop || len(t.Counters) != kernels.BinZeros+2*kernels.BinSide(t.Octaves) {
		return nil, fmt.Errorf("a table of %d counters for %d octaves from %d on", len(t.Counters), t.Octaves, t.Low)
	}
	h := newHistogram()
	sides := [2][]uint32{t.Counters[kernels.BinZeros:][:kernels.BinSide(t.Octaves)], t.Counters[kernels.BinZeros+kernels.BinSide(t.Octaves):]}
	for _, side := range sides {
		for i, n := range side[1:] {
			if e := t.Low + i/binsPerOctave; n > 0 && e > finiteTop {
				return nil, fmt.Errorf("%d values of the exponent %d", n, e)
			} else if n > 0 {
				h.raise(e)
			}
		}
	}
	if sides[0][0]|sides[1][0] != 0 && (t.Low == 1 || t.Low > h.low()) {
		return nil, fmt.Errorf("values below the exponent %d are not told apart, those from %d on have to be", t.Low, h.low())
	}
	for _, n := range t.Counters[:kernels.BinZeros] {
		h.increase(0, uint64(n))
	}
	for sign, side := range sides {
		h.increase(h.below(sign), uint64(side[0]))
		for i, n := range side[1:] {
			if n > 0 {
				h.increase(h.counter(uint32(sign)<<31|uint32(t.Low*binsPerOctave+i)<<binShift), uint64(n))
			}
		}
	}
	return h, nil
}
