package gpu

import (
	"context"
	"encoding/binary"
	"fmt"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/observers"
)

// observer observes the values of a graph. What kernels see of a tensor stays on the device, in counters of 32 bits, until the end or
// until they might overflow: how much memory that is depends on the graph alone.
type observer struct {
	watch   *calib.Watch
	session *device.Session
	tallies []*tally // by ValueID, nil for what was not seen
	count   int      // of tallies

	// Of the run that is under way:
	halves []int        // of its samples
	stream *cuda.Stream // nil before the first value
	seen   []graph.ValueID
	shapes [][]int // by ValueID
	half   cuda.Buffer
	nan    cuda.Buffer // counters of each value in order of tally.index, for each sample
	each   cuda.Buffer // extremes likewise
	spare  cuda.Buffer // what ObserveExtremes writes beside these: counters of NaN, a tally
}

// tally is what the device keeps of a value.
type tally struct {
	index       int
	value       graph.ValueID
	buf         cuda.Buffer
	second, gap cuda.Buffer // where rows are looked at, else empty
	channels    cuda.Buffer
	shaped      int    // channels of the values seen, -1 where they have none
	values      uint64 // seen since it was cleared
	used        bool
}

// Run implements calib.DeviceObserver.
func (w *observer) Run(ctx context.Context, feeds map[string]*tensor.Tensor) error {
	w.halves, w.stream, w.seen = w.watch.Halves(), nil, w.seen[:0]
	if _, err := w.session.Run(ctx, feeds, &device.Taps{Wants: w.watch.Wants, Tap: w.tap}); err != nil {
		return err
	}
	return w.verdict()
}

// begin makes halves and counters of NaN ready.
func (w *observer) begin(s *cuda.Stream) error {
	w.stream = s
	dev := w.session.Device()
	for _, b := range []struct {
		at    *cuda.Buffer
		bytes int
	}{{&w.half, 4 * len(w.halves)}, {&w.nan, 4 * len(w.halves) * w.watch.Values()},
		{&w.each, cuda.ChannelBytes(len(w.halves)) * w.watch.Values()},
		{&w.spare, spareTally + cuda.TallyBytes(false)}} {
		if b.at.Bytes >= b.bytes {
			continue
		}
		dev.Free(*b.at)
		*b.at = cuda.Buffer{}
		var err error
		if *b.at, err = dev.Alloc(b.bytes); err != nil {
			return err
		}
	}
	halves := make([]byte, 4*len(w.halves))
	for k, half := range w.halves {
		binary.LittleEndian.PutUint32(halves[4*k:], uint32(half))
	}
	if err := s.Upload(w.half, halves); err != nil {
		return err
	}
	for _, b := range []cuda.Buffer{w.nan, w.each, w.spare} {
		if err := s.Fill(b, 0); err != nil {
			return err
		}
	}
	return nil
}

// spareTally is where the tally begins in observer.spare.
const spareTally = 256

// tap puts the kernels on the stream that observe a value.
func (w *observer) tap(s *cuda.Stream, v device.Value) error {
	if !w.watch.Wants(v.ID) || v.DType != tensor.Float32 {
		return nil
	}
	if w.stream == nil {
		if err := w.begin(s); err != nil {
			return err
		}
	}
	w.seen, w.shapes[v.ID] = append(w.seen, v.ID), v.Shape
	n, samples := tensor.Count(v.Shape), len(w.halves)
	if samples > 1 && (len(v.Shape) == 0 || v.Shape[0]%samples != 0) {
		return w.watch.Fail(v.ID, w.shapes, fmt.Errorf("%d elements do not fall into %d samples", n, samples))
	}
	shape := cuda.TallySamples{Count: samples, Size: n / samples}
	channels, inner := -1, 1
	if len(v.Shape) > 1 {
		_, channels, inner = (&tensor.Tensor{Shape: v.Shape, Layout: v.Layout}).Blocks(1)
	}
	if channels > 0 && channels <= observers.MaxChannels {
		shape.Channels, shape.Inner = channels, inner
	}
	if uint64(n) > cuda.TallyLimit {
		return w.watch.Fail(v.ID, w.shapes, fmt.Errorf("%d values are more than can be counted at a time", n))
	}
	t, err := w.tally(s, v.ID, channels, uint64(n))
	if err != nil {
		return err
	}
	t.used = true
	t.values += uint64(n)
	if n == 0 {
		return nil
	}
	if err := w.sum(s, v); err != nil {
		return w.watch.Fail(v.ID, w.shapes, err)
	}
	if err := cuda.ObserveExtremes(s, t.buf, t.channels, w.nan.Slice(4*t.index*samples, 4*samples), w.half, v.Buffer, shape); err != nil {
		return err
	}
	// Once more, for the extremes of each sample: to the kernel they are channels of one.
	one := cuda.TallySamples{Count: 1, Size: n, Channels: samples, Inner: n / samples}
	if err := cuda.ObserveExtremes(s, w.spare.Slice(spareTally, cuda.TallyBytes(false)), w.eachOf(t), w.spare.Slice(0, 4), w.half, v.Buffer,
		one); err != nil {
		return err
	}
	if w.watch.MinMaxOnly() {
		return nil
	}
	if err := cuda.ObserveSettle(s, t.buf); err != nil {
		return err
	}
	if err := cuda.ObserveCount(s, t.buf, v.Buffer); err != nil {
		return err
	}
	if outer, n, inner := w.watch.Rows(v.ID, v.Shape, v.Layout); n > 1 {
		return cuda.ObserveLeaders(s, t.second, t.gap, v.Buffer, cuda.TallyRows{Outer: outer, N: n, Inner: inner})
	}
	return nil
}

// eachOf is where the extremes of a value in each sample are.
func (w *observer) eachOf(t *tally) cuda.Buffer {
	n := cuda.ChannelBytes(len(w.halves))
	return w.each.Slice(t.index*n, n)
}

// sum adds a value to the sums of the operators that read it. They are kept by the processor, as they would be without a device, and so
// the value is brought there, if any of the samples takes part.
func (w *observer) sum(s *cuda.Stream, v device.Value) error {
	if !w.watch.Sums(v.ID) {
		return nil
	}
	t, err := v.Download(s)
	if err != nil {
		return err
	}
	return w.watch.Sum(v.ID, t)
}

// tally returns the tally of a value, which has room for n more elements of so many channels.
func (w *observer) tally(s *cuda.Stream, v graph.ValueID, channels int, n uint64) (*tally, error) {
	t := w.tallies[v]
	if t == nil {
		t = &tally{value: v, index: w.count, shaped: -1}
		w.tallies[v] = t
		w.count++
		bins := !w.watch.MinMaxOnly()
		if err := w.clear(s, &t.buf, cuda.TallyBytes(bins)); err != nil {
			return nil, err
		}
		if bins && w.watch.HasRows(v) {
			if err := w.clear(s, &t.second, cuda.TallyBytes(true)); err != nil {
				return nil, err
			}
			if err := w.clear(s, &t.gap, cuda.TallyBytes(true)); err != nil {
				return nil, err
			}
		}
	}
	if t.used && (t.shaped != channels || t.values+n > cuda.TallyLimit) {
		if err := w.flush(s, t); err != nil {
			return nil, err
		}
	}
	if t.shaped != channels {
		w.session.Device().Free(t.channels)
		t.channels, t.shaped = cuda.Buffer{}, channels
		if channels > 0 && channels <= observers.MaxChannels {
			if err := w.clear(s, &t.channels, cuda.ChannelBytes(channels)); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// clear makes a buffer of zeros, allocated if it has no memory yet.
func (w *observer) clear(s *cuda.Stream, b *cuda.Buffer, bytes int) (err error) {
	if b.Bytes == 0 {
		if *b, err = w.session.Device().Alloc(bytes); err != nil {
			return fmt.Errorf("statistics: %w", err)
		}
	}
	return s.Fill(*b, 0)
}

// flush adds what is in a tally to the statistics, and clears it. Its counters of NaN have been zero.
func (w *observer) flush(s *cuda.Stream, t *tally) error {
	if !t.used {
		return nil
	}
	read := func(b cuda.Buffer) ([]byte, error) {
		bytes := make([]byte, b.Bytes)
		return bytes, s.Download(bytes, b)
	}
	list := []*cuda.Buffer{&t.buf, &t.channels, &t.second, &t.gap}
	var parts [4][]byte
	for i, b := range list {
		var err error
		if parts[i], err = read(*b); err != nil {
			return err
		}
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	for _, b := range list {
		if b.Bytes > 0 {
			if err := s.Fill(*b, 0); err != nil {
				return err
			}
		}
	}
	c, halves := t.counts(parts)
	t.used, t.values = false, 0
	return w.watch.Absorb(t.value, c, halves)
}

// counts translates what was read: the tally, its channels, and the tallies of rows.
func (t *tally) counts(parts [4][]byte) (c observers.Counts, halves [2]observers.Extent) {
	read := cuda.ReadTally(parts[0])
	c = observers.Counts{Inf: [2]uint64{read.Infinite[1], read.Infinite[0]}, Extent: observers.NoExtent}
	c.Finite = t.values - c.Inf[0] - c.Inf[1]
	for i, x := range read.Halves {
		halves[i] = observers.Extent{Min: x[0], Max: x[1]}
		c.Extent = c.Extent.Union(halves[i])
	}
	if read.Table != nil {
		c.Table = table(read)
	}
	if t.shaped >= 0 && t.shaped <= observers.MaxChannels {
		c.Channels = []observers.Extent{}
		for _, x := range cuda.ReadChannels(parts[1]) {
			c.Channels = append(c.Channels, observers.Extent{Min: x[0], Max: x[1]})
		}
	}
	if len(parts[2]) > 0 {
		second, gap := cuda.ReadTally(parts[2]), cuda.ReadTally(parts[3])
		c.Rows = &observers.RowCounts{Ties: second.Ties, Second: table(second), Gap: table(gap)}
	}
	return c, halves
}

func table(t cuda.Tally) observers.Table {
	return observers.Table{Low: t.Low, Octaves: cuda.TallyOctaves, Counters: t.Table}
}

// verdict ends the run if there were NaN: the first value in order of execution that has some is named.
func (w *observer) verdict() error {
	if len(w.seen) == 0 {
		return nil
	}
	samples := len(w.halves)
	counters, each := make([]byte, 4*samples*w.count), make([]byte, cuda.ChannelBytes(samples)*w.count)
	if err := w.stream.Download(counters, w.nan); err != nil {
		return err
	}
	if err := w.stream.Download(each, w.each); err != nil {
		return err
	}
	if err := w.stream.Synchronize(); err != nil {
		return err
	}
	for _, v := range w.seen {
		for k := range samples {
			if nan := binary.LittleEndian.Uint32(counters[4*(w.tallies[v].index*samples+k):]); nan > 0 {
				return w.watch.NaN(v, w.shapes, uint64(nan), tensor.Count(w.shapes[v])/samples)
			}
		}
	}
	for _, v := range w.seen {
		var list []observers.Extent
		for _, x := range cuda.ReadChannels(each[cuda.ChannelBytes(w.tallies[v].index*samples):][:cuda.ChannelBytes(samples)]) {
			list = append(list, observers.Extent{Min: x[0], Max: x[1]})
		}
		w.watch.Samples(v, list)
	}
	return nil
}

// Finish implements calib.DeviceObserver.
func (w *observer) Finish() error {
	for _, t := range w.tallies {
		if t == nil {
			continue
		}
		if err := w.flush(w.stream, t); err != nil {
			return fmt.Errorf("tensor %q: %w", w.watch.Name(t.value), err)
		}
	}
	return nil
}

// Close implements calib.DeviceObserver.
func (w *observer) Close() {
	dev := w.session.Device()
	if w.stream != nil { // what is freed may soon be somebody else's, on another stream
		// What failed was reported before.
		_ = w.stream.Synchronize()
	}
	for _, t := range w.tallies {
		if t != nil {
			for _, b := range []cuda.Buffer{t.buf, t.channels, t.second, t.gap} {
				dev.Free(b)
			}
		}
	}
	dev.Free(w.half)
	dev.Free(w.nan)
	dev.Free(w.each)
	dev.Free(w.spare)
	w.tallies = nil
}
