package observers

import (
	"fmt"
	"math"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// chunk is how many elements are compared and then counted while they are in the first-level cache.
const chunk = 4096

// scratch is the working memory of a state that observes.
type scratch struct {
	meter  *kernels.Meter
	lo, hi []float32 // per channel, of the tensor at hand
}

// Observe counts all elements of a float32 tensor of either layout and returns the extent of this tensor alone. axis is
// the logical axis whose channels get ranges of their own, -1 for none; within one State it should not change. NaN is an
// error (and stays recorded: methods refuse the state); infinite values are counted apart. The tensor is read from memory
// once, and nothing is allocated once values of both signs have been seen.
func (st *State) Observe(t *tensor.Tensor, axis int) (Extent, error) {
	data, err := values(t)
	if err != nil {
		return NoExtent, err
	}
	if axis < -1 || axis >= len(t.Shape) {
		return NoExtent, fmt.Errorf("observers: no axis %d in %s", axis, t.Type())
	}
	channels, inner := -1, 1
	if axis >= 0 {
		_, channels, inner = t.Blocks(axis)
	}
	x, nan := st.ObservePiece(data, 0, channels, inner)
	if nan > 0 {
		return x, fmt.Errorf("%d of %d values are NaN", nan, t.Len())
	}
	return x, nil
}

// ObservePiece is Observe for elements of a tensor that are consecutive in memory; from is the number of the first one. Memory
// holds inner elements of the first channel, then inner elements of the second, and so on, and begins again after the last. If
// channels is negative, no ranges per channel are kept. It returns the extent of data alone and, instead of an error, how many
// values are NaN. The statistics do not depend on how a tensor is cut into pieces.
func (st *State) ObservePiece(data []float32, from, channels, inner int) (x Extent, nan uint64) {
	st.meter()
	before := st.hist.nan
	if channels >= 0 && st.setChannels(channels) {
		x = st.observeChannels(data, from, channels, inner)
	} else {
		if channels < 0 {
			st.dropChannels()
		}
		x = st.countAll(data)
	}
	st.extent = st.extent.Union(x)
	return x, st.hist.nan - before
}

// meter returns what measures slices, made on first use.
func (st *State) meter() *kernels.Meter {
	if st.work.meter == nil {
		st.work.meter = kernels.Select(cpu.Detect()).NewMeter()
	}
	return st.work.meter
}

// countAll adds data to the histogram, chunk by chunk.
func (st *State) countAll(data []float32) Extent {
	all := NoExtent
	for len(data) > 0 {
		part := data[:min(chunk, len(data))]
		data = data[len(part):]
		x, _ := st.count(part)
		all = all.Union(x)
	}
	return all
}

// count adds data, which has fewer than carryUnit elements, to the histogram. It returns its extent and whether all of it is
// finite.
func (st *State) count(data []float32) (Extent, bool) {
	lo, hi, finite := st.work.meter.MinMax(data)
	switch {
	case len(data) == 0:
	case finite:
		st.tally(data, lo, hi)
	default:
		st.tallyEach(data)
	}
	return Extent{lo, hi}, finite
}

// tally counts finite values between lo and hi.
func (st *State) tally(data []float32, lo, hi float32) {
	if st.extremesOnly {
		st.finite += uint64(len(data))
		return
	}
	st.hist.add(st.work.meter, data, lo, hi)
}

// tallyEach counts values of any kind.
func (st *State) tallyEach(data []float32) {
	for _, v := range data {
		if st.extremesOnly && v-v == 0 {
			st.finite++
		} else {
			st.hist.one(math.Float32bits(v))
		}
	}
}

// observeChannels counts data and takes the extents of the n channels; it returns the extent of all.
func (st *State) observeChannels(data []float32, from, n, inner int) Extent {
	if len(data) == 0 {
		return NoExtent
	}
	w := &st.work
	if len(w.lo) != n {
		w.lo, w.hi = placed[float32](st.hist.room, n), placed[float32](st.hist.room, n)
	}
	if inner > 1 {
		st.clearChannels()
		st.observeRuns(data, from, n, inner)
	} else {
		head := min((n-from%n)%n, len(data))
		rows := (len(data) - head) / n * n
		st.observeRowsOf(data[head:head+rows], n)
		st.observeRow(data[:head], from%n)
		st.observeRow(data[head+rows:], 0)
	}
	lo, _, all := w.meter.MinMax(w.lo)
	_, hi, also := w.meter.MinMax(w.hi)
	if all && also { // no channel is without a value: each one's minimum is no less than one of its values, nor its maximum
		w.meter.ChannelMinMax(w.lo, st.low, st.high)
		w.meter.ChannelMinMax(w.hi, st.low, st.high)
		return Extent{lo, hi}
	}
	for c := range st.low {
		st.low[c], st.high[c] = min(st.low[c], w.lo[c]), max(st.high[c], w.hi[c])
	}
	return Extent{lo, hi}
}

func (st *State) clearChannels() {
	for c := range st.work.lo {
		st.work.lo[c], st.work.hi[c] = NoExtent.Min, NoExtent.Max
	}
}

// widen makes the extent of channel c cover x.
func (w *scratch) widen(c int, x Extent) {
	w.lo[c], w.hi[c] = min(w.lo[c], x.Min), max(w.hi[c], x.Max)
}

// observeRow looks at a part of a row of one element of each channel, from channel c on.
func (st *State) observeRow(data []float32, c int) {
	st.countAll(data)
	for i, v := range data {
		if v-v == 0 {
			st.work.widen(c+i, Extent{v, v})
		}
	}
}

// observeRuns looks at runs of inner elements, the channels 0 to n-1 one after the other, again and again; the first and the
// last run may be cut off. Short runs are counted together.
func (st *State) observeRuns(data []float32, from, n, inner int) {
	c := from / inner % n
	cut := func(length int) {
		length = min(length, len(data))
		x := st.countAll(data[:length])
		st.work.widen(c, x)
		data, c = data[length:], (c+1)%n
	}
	if from %= inner; from > 0 {
		cut(inner - from)
	}
	for len(data) > 0 {
		if inner > chunk || len(data) < inner {
			cut(inner)
			continue
		}
		part := data[:min(chunk, len(data))/inner*inner]
		data = data[len(part):]
		all, finite := NoExtent, true
		for at := 0; at < len(part); at += inner {
			lo, hi, ok := st.work.meter.MinMax(part[at : at+inner])
			all, finite = all.Union(Extent{lo, hi}), finite && ok
			st.work.widen(c, Extent{lo, hi})
			c = (c + 1) % n
		}
		if finite {
			st.tally(part, all.Min, all.Max)
		} else {
			st.tallyEach(part)
		}
	}
}

// observeRowsOf looks at rows of one element of each of n channels, and forgets what it knew of channels before.
func (st *State) observeRowsOf(data []float32, n int) {
	w := &st.work
	if len(data) == 0 {
		st.clearChannels()
		return
	}
	copy(w.lo, data[:n])
	copy(w.hi, data[:n])
	if st.extremesOnly && w.meter.ChannelMinMax(data, w.lo, w.hi) {
		st.finite += uint64(len(data))
		return
	}
	finite := true
	step := max(1, chunk/n) * n
	for at := 0; at < len(data); at += step {
		part := data[at:min(at+step, len(data))]
		if finite && w.meter.ChannelMinMax(part, w.lo, w.hi) {
			// The extremes of all channels so far are as good as those of this part, and fewer to look at.
			lo, _, _ := w.meter.MinMax(w.lo)
			_, hi, _ := w.meter.MinMax(w.hi)
			st.tally(part, lo, hi)
			continue
		}
		_, ok := st.count(part)
		finite = finite && ok
	}
	if finite {
		return
	}
	st.clearChannels()
	for i, v := range data {
		if v-v == 0 {
			w.widen(i%n, Extent{v, v})
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
	if st.extremesOnly {
		return nil
	}
	if st.rows == nil {
		st.rows = newRows(st.hist)
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
