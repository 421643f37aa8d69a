package calib

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/observers"
)

// deviceWorker runs the graph on a device. What kernels see of a tensor stays there, in counters of 32 bits, until the end or until
// they might overflow: how much memory that is depends on the graph alone.
type deviceWorker struct {
	run     *run
	session *device.Session
	tallies []*tally // by ValueID, nil for what was not seen
	count   int      // of tallies
	wanted  int      // values that are observed

	// Of the run that is under way:
	group  []job
	stream *cuda.Stream // nil before the first value
	seen   []graph.ValueID
	shapes [][]int // by ValueID
	half   cuda.Buffer
	nan    cuda.Buffer // counters of each value in order of tally.index, for each sample
}

// tally is what the device keeps of a value.
type tally struct {
	tracker     *tracker
	index       int
	buf         cuda.Buffer
	second, gap cuda.Buffer // where rows are looked at, else empty
	channels    cuda.Buffer
	shaped      int    // channels of the values seen, -1 where they have none
	values      uint64 // seen since it was cleared
	used        bool
}

func newDeviceWorker(r *run, s *device.Session) *deviceWorker {
	w := &deviceWorker{run: r, session: s, tallies: make([]*tally, len(r.trackers)), shapes: make([][]int, len(r.trackers))}
	for _, k := range r.trackers {
		if k != nil {
			w.wanted++
		}
	}
	return w
}

func (w *deviceWorker) wants(v graph.ValueID) bool { return w.run.trackers[v] != nil }

func (w *deviceWorker) all(ctx context.Context, feeds map[string]*tensor.Tensor, show func(v graph.ValueID, t *tensor.Tensor) error) error {
	_, err := w.session.Run(ctx, feeds, &device.Taps{Wants: w.wants, Tap: func(s *cuda.Stream, v device.Value) error {
		if v.DType != tensor.Float32 {
			return nil
		}
		t, err := v.Download(s)
		if err != nil {
			return err
		}
		return show(v.ID, t)
	}})
	return err
}

func (w *deviceWorker) observe(ctx context.Context, b *batch) error {
	var watch stopwatch
	defer func() { w.run.spend(watch) }()
	feeds, err := b.stacked()
	if err != nil {
		return err
	}
	watch.start(w.run.cfg.Clock)
	w.group, w.stream, w.seen = b.group, nil, w.seen[:0]
	if _, err := w.session.Run(ctx, feeds, &device.Taps{Wants: w.wants, Tap: w.tap}); err != nil {
		return unstaged(err)
	}
	return w.verdict()
}

// begin makes halves and counters of NaN ready.
func (w *deviceWorker) begin(s *cuda.Stream) error {
	w.stream = s
	dev := w.session.Device()
	for _, b := range []struct {
		at    *cuda.Buffer
		bytes int
	}{{&w.half, 4 * len(w.group)}, {&w.nan, 4 * len(w.group) * w.wanted}} {
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
	halves := make([]byte, 4*len(w.group))
	for k, j := range w.group {
		binary.LittleEndian.PutUint32(halves[4*k:], uint32(Hash(j.sample.Hash).half()))
	}
	if err := s.Upload(w.half, halves); err != nil {
		return err
	}
	return s.Fill(w.nan, 0)
}

// tap puts the kernels on the stream that observe a value.
func (w *deviceWorker) tap(s *cuda.Stream, v device.Value) error {
	k := w.run.trackers[v.ID]
	if k == nil || v.DType != tensor.Float32 {
		return nil
	}
	if w.stream == nil {
		if err := w.begin(s); err != nil {
			return err
		}
	}
	w.seen, w.shapes[v.ID] = append(w.seen, v.ID), v.Shape
	n, samples := tensor.Count(v.Shape), len(w.group)
	if samples > 1 && (len(v.Shape) == 0 || v.Shape[0]%samples != 0) {
		return w.fail(v.ID, fmt.Errorf("%d elements do not fall into %d samples", n, samples))
	}
	shape := cuda.TallySamples{Count: samples, Size: n / samples}
	channels, inner := -1, 1
	if axis := channelAxis(len(v.Shape)); axis >= 0 {
		_, channels, inner = (&tensor.Tensor{Shape: v.Shape, Layout: v.Layout}).Blocks(axis)
	}
	if channels > 0 && channels <= observers.MaxChannels {
		shape.Channels, shape.Inner = channels, inner
	}
	if uint64(n) > cuda.TallyLimit {
		return w.fail(v.ID, fmt.Errorf("%d values are more than can be counted at a time", n))
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
	if err := w.sum(s, v, k); err != nil {
		return w.fail(v.ID, err)
	}
	if err := cuda.ObserveExtremes(s, t.buf, t.channels, w.nan.Slice(4*t.index*samples, 4*samples), w.half, v.Buffer, shape); err != nil {
		return err
	}
	if w.run.cfg.MinMaxOnly {
		return nil
	}
	if err := cuda.ObserveSettle(s, t.buf); err != nil {
		return err
	}
	if err := cuda.ObserveCount(s, t.buf, v.Buffer); err != nil {
		return err
	}
	if rows, ok := k.rows.of(v.Shape, v.Layout); ok && rows.N > 1 {
		return cuda.ObserveLeaders(s, t.second, t.gap, v.Buffer, rows)
	}
	return nil
}

// sum adds a value to the sums of the operators that read it. They are kept by the processor, as they would be without a device, and so
// the value is brought here, if any of the samples takes part.
func (w *deviceWorker) sum(s *cuda.Stream, v device.Value, k *tracker) error {
	if len(k.sums) == 0 || !slices.ContainsFunc(w.group, func(j job) bool { return Hash(j.sample.Hash).fits() }) {
		return nil
	}
	t, err := v.Download(s)
	if err != nil {
		return err
	}
	for i, j := range w.group {
		if !Hash(j.sample.Hash).fits() {
			continue
		}
		part, err := slice(t, i, len(w.group))
		if err != nil {
			return err
		}
		k.mu.Lock()
		for _, sm := range k.sums {
			if err = sm.add(part.Shape, part.Layout, 0, part.F32()); err != nil {
				break
			}
		}
		k.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// of says how the rows of a tensor lie in memory; false where nobody looks at them.
func (r rowAxis) of(shape []int, layout tensor.Layout) (cuda.TallyRows, bool) {
	axis, ok := graph.Axis(r.axis, len(shape))
	if !r.present || !ok {
		return cuda.TallyRows{}, false
	}
	if !r.flatten {
		outer, n, inner := (&tensor.Tensor{Shape: shape, Layout: layout}).Blocks(axis)
		return cuda.TallyRows{Outer: outer, N: n, Inner: inner}, true
	}
	rows := cuda.TallyRows{Outer: tensor.Count(shape[:axis]), N: tensor.Count(shape[axis:]), Inner: 1}
	if layout == tensor.ChannelsLast && len(shape) > 2 && axis > 1 {
		rows.Outer, rows.Inner = rows.Outer/max(shape[1], 1), shape[1] // a row is of one channel
	}
	return rows, true
}

// tally returns the tally of a value, which has room for n more elements of so many channels.
func (w *deviceWorker) tally(s *cuda.Stream, v graph.ValueID, channels int, n uint64) (*tally, error) {
	t := w.tallies[v]
	if t == nil {
		t = &tally{tracker: w.run.trackers[v], index: w.count, shaped: -1}
		w.tallies[v] = t
		w.count++
		bins := !w.run.cfg.MinMaxOnly
		if err := w.clear(s, &t.buf, cuda.TallyBytes(bins)); err != nil {
			return nil, err
		}
		if bins && t.tracker.rows.present {
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
func (w *deviceWorker) clear(s *cuda.Stream, b *cuda.Buffer, bytes int) (err error) {
	if b.Bytes == 0 {
		if *b, err = w.session.Device().Alloc(bytes); err != nil {
			return fmt.Errorf("statistics: %w", err)
		}
	}
	return s.Fill(*b, 0)
}

// flush adds what is in a tally to the statistics, and clears it. Its counters of NaN have been zero.
func (w *deviceWorker) flush(s *cuda.Stream, t *tally) error {
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
	return t.tracker.absorb(c, halves)
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

// absorb adds what was observed elsewhere.
func (k *tracker) absorb(c observers.Counts, halves [2]observers.Extent) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = newTensor(k.make())
	}
	if err := k.seen.State.Absorb(c); err != nil {
		return err
	}
	for i, x := range halves {
		k.seen.Halves[i] = k.seen.Halves[i].Union(x)
	}
	return nil
}

// verdict ends the run if there were NaN: the first value in order of execution that has some is named.
func (w *deviceWorker) verdict() error {
	if len(w.seen) == 0 {
		return nil
	}
	samples := len(w.group)
	counters := make([]byte, 4*samples*w.count)
	if err := w.stream.Download(counters, w.nan); err != nil {
		return err
	}
	if err := w.stream.Synchronize(); err != nil {
		return err
	}
	for _, v := range w.seen {
		for k := range samples {
			if nan := binary.LittleEndian.Uint32(counters[4*(w.tallies[v].index*samples+k):]); nan > 0 {
				return w.fail(v, nanError(uint64(nan), tensor.Count(w.shapes[v])/samples))
			}
		}
	}
	return nil
}

// fail names the value, and the node that computes it, in the words of viewer.fail.
func (w *deviceWorker) fail(v graph.ValueID, err error) error {
	g := w.run.g
	if g.IsInput(v) {
		return fmt.Errorf("graph input %q: %w", g.Value(v).Name, err)
	}
	n := g.Node(g.Producer(v))
	at := &graph.NodeError{Node: n.Name, Op: n.Op, Err: fmt.Errorf("output %q: %w%s", g.Value(v).Name, err, w.run.blame(n))}
	for _, in := range n.Inputs {
		switch {
		case in == graph.NoValue:
			at.Types = append(at.Types, "absent")
		case g.Const(in) != nil:
			at.Types = append(at.Types, g.Const(in).Type())
		case w.shapes[in] != nil:
			at.Types = append(at.Types, tensor.TypeString(tensor.Float32, w.shapes[in]))
		default:
			at.Types = append(at.Types, g.Value(in).DType.String()+g.Value(in).Shape.String())
		}
	}
	return at
}

func (w *deviceWorker) finish() error {
	for v, t := range w.tallies {
		if t == nil {
			continue
		}
		if err := w.flush(w.stream, t); err != nil {
			return fmt.Errorf("tensor %q: %w", w.run.g.Value(graph.ValueID(v)).Name, err)
		}
	}
	return nil
}

func (w *deviceWorker) close() {
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
	w.tallies = nil
}
