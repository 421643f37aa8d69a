package observers

import (
	"fmt"
	"iter"
	"math"

	"qwb/graph/tensor"
)

// MaxChannels is the largest number of channels whose ranges are kept.
const MaxChannels = 1 << 13

// MaxMemory is what a State occupies at most, in bytes, whatever it has seen: 42 octaves of 8 KiB, 21 for each of the two
// histograms over rows, four float32 per channel, and little else. As long as no bin has counted to 2^31 the octaves take half
// of that, and those of negative values nothing where there are none.
const MaxMemory = 1_000_000

// Extent is the range of the finite values of a tensor; Min > Max where there are none. A zero is always +0.
type Extent struct{ Min, Max float32 }

// NoExtent is the extent of no values.
var NoExtent = Extent{float32(math.Inf(1)), float32(math.Inf(-1))}

// Empty reports whether there were no finite values.
func (x Extent) Empty() bool { return x.Min > x.Max }

// Union returns the smallest extent that covers both.
func (x Extent) Union(y Extent) Extent {
	// Adding +0 turns -0 into +0: which of the two a comparison keeps would depend on the order.
	return Extent{min(x.Min, y.Min) + 0, max(x.Max, y.Max) + 0}
}

const (
	channelsUnknown = 0
	channelsMixed   = -1 // tensors disagreed, or there were too many: no ranges per channel
)

// State holds the statistics of one tensor over any number of samples. Values are counted on a fixed grid, per sign: each
// octave of |x| has 1,024 equal bins, which are the float32 bits shifted right by 13; zeros are counted apart. Beside the
// counts there are the exact minimum and maximum of the tensor and of each channel, the number of values that were not finite,
// and, for outputs of a softmax, what keeps the order of each row.
//
// Values more than 20 octaves below the largest one share one count per sign, and denormals count as zeros; minimum and maximum
// see both exactly. A State depends only on the multiset of the observed values: order, splitting and merging change no byte of
// it. It takes at most MaxMemory bytes. The zero value is not usable, use New. A State is not safe for concurrent use.
type State struct {
	hist     *histogram
	extent   Extent
	channels int
	// low and high are the ranges of the channels, a zero of either sign; nil where none are kept.
	low, high []float32
	rows      *rows
	// extremesOnly says that there are no bins and no rows: the histogram counts what is not finite, finite the rest.
	extremesOnly bool
	finite       uint64
	samples      *SampleExtents // beside the state: see Samples
	mean         *SampleMean    // of several tensors, in place of samples
	work         scratch
}

// New returns a state that has seen nothing.
func New() *State { return NewIn(nil) }

// NewIn is New with the place for counters, which is most of what a state takes. nil is memory.
func NewIn(room Room) *State { return &State{hist: &histogram{room: room}, extent: NoExtent} }

// NewMinMax returns an empty state that keeps the extremes of the tensor and of its channels and counts nothing. That is much
// faster, but only the method MinMax can use it.
func NewMinMax() *State {
	st := New()
	st.dropBins()
	return st
}

// HasBins reports whether the state has bins. The state of NewMinMax has none, nor has one that was merged with such a state.
func (st *State) HasBins() bool { return !st.extremesOnly }

// dropBins keeps extremes and numbers of values.
func (st *State) dropBins() {
	if st.extremesOnly {
		return
	}
	h := st.hist
	st.extremesOnly, st.finite, st.rows = true, h.count(), nil
	st.hist = &histogram{nan: h.nan, inf: h.inf}
}

// Count is the number of finite values, Zeros how many of them are zero or denormal; Zeros is 0 where there are no bins.
func (st *State) Count() uint64 { return st.hist.count() + st.finite }
func (st *State) Zeros() uint64 { return st.hist.zeros() }

// NaN and Inf count the values that are not finite; they are in no bin and in no range.
func (st *State) NaN() uint64                      { return st.hist.nan }
func (st *State) Inf() (negative, positive uint64) { return st.hist.inf[1], st.hist.inf[0] }

// Infinite is how many values were infinite.
func (st *State) Infinite() uint64 { return st.hist.inf[0] + st.hist.inf[1] }

// odd is how many values were not finite.
func (st *State) odd() uint64 { return st.hist.nan + st.Infinite() }

// Extent is the exact range of the finite values.
func (st *State) Extent() Extent { return st.extent }

// Channels returns the range of each channel, nil where none are kept: no channel axis was given, tensors had different
// numbers of channels, or more than MaxChannels. A channel without finite values has an empty extent.
func (st *State) Channels() []Extent {
	if st.low == nil {
		return nil
	}
	list := make([]Extent, len(st.low))
	for c := range list {
		list[c] = st.rangeOf(c)
	}
	return list
}

// rangeOf is the range of a channel.
func (st *State) rangeOf(c int) Extent { return Extent{st.low[c] + 0, st.high[c] + 0} }

func (st *State) setRange(c int, x Extent) { st.low[c], st.high[c] = x.Clean().Min, x.Clean().Max }

// Bins yields the bins that are not empty in ascending order. The outermost bounds are the exact minimum and maximum.
func (st *State) Bins() iter.Seq[Bin] {
	return func(yield func(Bin) bool) {
		for b := range st.hist.bins {
			if b.Lo != b.Hi {
				b.Lo, b.Hi = max(b.Lo, float64(st.extent.Min)), min(b.Hi, float64(st.extent.Max))
			}
			if !yield(b) {
				return
			}
		}
	}
}

// Merge adds what o has seen. Bins are lost where one of the two has none. o is not changed and may be st's equal but not st
// itself.
func (st *State) Merge(o *State) {
	st.mergeSamples(o)
	if o.extremesOnly {
		st.dropBins()
	}
	if st.extremesOnly {
		st.finite += o.Count()
		st.hist.nan += o.hist.nan
		for sign, n := range o.hist.inf {
			st.hist.inf[sign] += n
		}
	} else {
		st.hist.merge(o.hist)
	}
	st.extent = st.extent.Union(o.extent)
	switch {
	case o.channels == channelsUnknown:
	case o.channels == channelsMixed:
		st.dropChannels()
	default:
		if st.setChannels(o.channels) {
			for c := range o.low {
				st.setRange(c, st.rangeOf(c).Union(o.rangeOf(c)))
			}
		}
	}
	if o.rows != nil && !st.extremesOnly {
		if st.rows == nil {
			st.rows = newRows(st.hist)
		}
		st.rows.merge(o.rows)
	}
}

// Clone returns an independent copy.
func (st *State) Clone() *State {
	c := New()
	c.Merge(st)
	return c
}

// setChannels notes that a tensor had n channels and reports whether ranges are kept.
func (st *State) setChannels(n int) bool {
	switch {
	case st.channels == n:
	case st.channels == channelsUnknown && n <= MaxChannels:
		st.channels = n
		st.low, st.high = placed[float32](st.hist.room, n), placed[float32](st.hist.room, n)
		for c := range n {
			st.low[c], st.high[c] = NoExtent.Min, NoExtent.Max
		}
	default:
		st.dropChannels()
	}
	return st.low != nil
}

func (st *State) dropChannels() {
	st.channels, st.low, st.high = channelsMixed, nil, nil
	st.work.lo, st.work.hi = nil, nil
}

// checkExtent verifies that minimum and maximum lie in the outermost bins.
func (st *State) checkExtent() error {
	if st.extremesOnly {
		if (st.finite == 0) != (st.extent == NoExtent) || st.finite > 0 && st.extent.Empty() {
			return fmt.Errorf("range [%g, %g] of %d values", st.extent.Min, st.extent.Max, st.finite)
		}
		return nil
	}
	var first, last Bin
	n := 0
	for b := range st.hist.bins {
		if n == 0 {
			first = b
		}
		last = b
		n++
	}
	x := st.extent
	if n == 0 {
		if x != NoExtent {
			return fmt.Errorf("range [%g, %g] of no values", x.Min, x.Max)
		}
		return nil
	}
	inside := func(b Bin, v float32) bool {
		if b.Lo == b.Hi {
			return math.Abs(float64(v)) < 0x1p-126
		}
		if f := float64(v); b.Lo < 0 {
			return f > b.Lo && f <= b.Hi
		}
		return float64(v) >= b.Lo && float64(v) < b.Hi
	}
	if !inside(first, x.Min) || !inside(last, x.Max) || x.Empty() {
		return fmt.Errorf("range [%g, %g] does not fit the counts", x.Min, x.Max)
	}
	return nil
}

// values returns the elements of a float32 tensor.
func values(t *tensor.Tensor) ([]float32, error) {
	if t.DType != tensor.Float32 {
		return nil, fmt.Errorf("observers: %s is not float32", t.Type())
	}
	d := t.F32()
	if len(d) != t.Len() {
		return nil, fmt.Errorf("observers: %s holds %d elements", t.Type(), len(d))
	}
	return d, nil
}
