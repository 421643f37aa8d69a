package calib

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
)

// Device is where graphs are run and their tensors observed in place of the processor. Package calib/gpu has that of CUDA.
type Device interface {
	// MemoryBytes is how much memory it has.
	MemoryBytes() int64
	// OpenGraph makes a graph ready. Operators that the device does not have run on the processor, on up to threads goroutines.
	OpenGraph(g *graph.Graph, threads int) (DeviceGraph, error)
}

// DeviceGraph is a graph on a device. It is used by one goroutine at a time.
type DeviceGraph interface {
	// Show runs the graph and shows every float32 value that is wanted, row-major or channels-last. It may be gone afterwards.
	Show(ctx context.Context, feeds map[string]*tensor.Tensor, wants func(v graph.ValueID) bool,
		show func(v graph.ValueID, t *tensor.Tensor) error) error
	// Observe makes ready what observes the values that w watches.
	Observe(w *Watch) DeviceObserver
	// Sum makes ready what sums the rows that operators read.
	Sum(ops []*GramOp) DeviceSummer
	Close() error
}

// DeviceSummer makes Gram statistics on a device, where sums may stay until Finish.
type DeviceSummer interface {
	// Run runs the graph on one sample and adds its rows.
	Run(ctx context.Context, feeds map[string]*tensor.Tensor) error
	// Finish adds what was summed to the moments of the operators.
	Finish() error
	Close()
}

// DeviceObserver observes the values of a graph on a device. What it has seen may stay there until Finish.
type DeviceObserver interface {
	// Run runs the graph on the samples of the watch as one batch. A NaN is an error, in the words of Watch.NaN.
	Run(ctx context.Context, feeds map[string]*tensor.Tensor) error
	// Finish leaves everything that was seen with the watch.
	Finish() error
	Close()
}

// Watch says what a DeviceObserver looks at, and takes what it has seen.
type Watch struct {
	run   *run
	group []job // of the batch at hand
}

// MinMaxOnly says that minima and maxima are all that is asked for.
func (w *Watch) MinMaxOnly() bool { return w.run.cfg.MinMaxOnly }

// Wants reports whether a value is observed; of those Values is how many there may be, with numbers below Limit.
func (w *Watch) Wants(v graph.ValueID) bool { return w.run.trackers[v] != nil }

// Limit is above the number of every value.
func (w *Watch) Limit() int { return len(w.run.trackers) }

// Values counts the values that are observed.
func (w *Watch) Values() (n int) {
	for _, k := range w.run.trackers {
		if k != nil {
			n++
		}
	}
	return n
}

// Halves says, by sample of the batch, in which half of the data it counts: 0 or 1.
func (w *Watch) Halves() []int {
	list := make([]int, len(w.group))
	for i, j := range w.group {
		list[i] = Hash(j.sample.Hash).half()
	}
	return list
}

// Rows says how the rows of a value lie in memory whose largest elements are looked at: outer of them, n elements, inner apart. There are
// none where n is below 2.
func (w *Watch) Rows(v graph.ValueID, shape []int, layout tensor.Layout) (outer, n, inner int) {
	return w.run.trackers[v].rows.of(shape, layout)
}

// HasRows reports whether a value may have such rows.
func (w *Watch) HasRows(v graph.ValueID) bool { return w.run.trackers[v].rows.present }

// Sums reports whether elements of this batch are to be given to Sum: the processor sums them up for the operators that read the value.
func (w *Watch) Sums(v graph.ValueID) bool {
	return len(w.run.trackers[v].sums) > 0 && slices.ContainsFunc(w.group, func(j job) bool { return w.run.cfg.sums(j.sample.Hash) })
}

// Sum adds a value of the batch to the sums of its readers.
func (w *Watch) Sum(v graph.ValueID, t *tensor.Tensor) error {
	k := w.run.trackers[v]
	for i, j := range w.group {
		if !w.run.cfg.sums(j.sample.Hash) {
			continue
		}
		part, err := slice(t, i, len(w.group))
		if err != nil {
			return err
		}
		k.mu.Lock()
		var x observers.Extent
		finite := false
		for s, sm := range k.sums {
			if s == 0 { // all see the same values
				x.Min, x.Max, finite = sm.table.NewMeter().MinMax(part.F32())
			}
			if err = sm.add(part.Shape, part.Layout, 0, part.F32(), x, finite); err != nil {
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

// Samples takes the extents that a value has in each sample of the batch.
func (w *Watch) Samples(v graph.ValueID, list []observers.Extent) {
	for _, x := range list {
		w.run.trackers[v].addSample(x.Clean())
	}
}

// Absorb adds what was counted of a value, with the extents of both halves of the data.
func (w *Watch) Absorb(v graph.ValueID, c observers.Counts, halves [2]observers.Extent) error {
	k := w.run.trackers[v]
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

// NaN says that of the n elements that a sample has in a value some are NaN; shapes are those of the values, as far as they are known.
func (w *Watch) NaN(v graph.ValueID, shapes [][]int, nan uint64, n int) error {
	return w.Fail(v, shapes, nanError(nan, n))
}

// Fail names the value, and the node that computes it, in the words of viewer.fail.
func (w *Watch) Fail(v graph.ValueID, shapes [][]int, err error) error {
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
		case shapes[in] != nil:
			at.Types = append(at.Types, tensor.TypeString(tensor.Float32, shapes[in]))
		default:
			at.Types = append(at.Types, g.Value(in).DType.String()+g.Value(in).Shape.String())
		}
	}
	return at
}

// Name is the name of a value.
func (w *Watch) Name(v graph.ValueID) string { return w.run.g.Value(v).Name }

// deviceWorker is a worker of a device.
type deviceWorker struct {
	Watch
	graph    DeviceGraph
	observer DeviceObserver
}

func newDeviceWorker(r *run, g DeviceGraph) *deviceWorker {
	w := &deviceWorker{Watch: Watch{run: r}, graph: g}
	w.observer = g.Observe(&w.Watch)
	return w
}

func (w *deviceWorker) all(ctx context.Context, feeds map[string]*tensor.Tensor, show func(v graph.ValueID, t *tensor.Tensor) error) error {
	return w.graph.Show(ctx, feeds, w.Wants, show)
}

func (w *deviceWorker) observe(ctx context.Context, b *batch) error {
	var watch stopwatch
	defer func() { w.run.spend(watch) }()
	feeds, err := b.stacked()
	if err != nil {
		return err
	}
	watch.start(w.run.cfg.Clock)
	w.group = b.group
	return unstaged(w.observer.Run(ctx, feeds))
}

func (w *deviceWorker) finish() error { return w.observer.Finish() }
func (w *deviceWorker) close()        { w.observer.Close() }

// of says how rows of a tensor lie in memory: outer of them, n elements, inner apart; none where nobody looks at them.
func (r rowAxis) of(shape []int, layout tensor.Layout) (outer, n, inner int) {
	axis, ok := graph.Axis(r.axis, len(shape))
	if !r.present || !ok {
		return 0, 0, 0
	}
	if !r.flatten {
		return (&tensor.Tensor{Shape: shape, Layout: layout}).Blocks(axis)
	}
	outer, n, inner = tensor.Count(shape[:axis]), tensor.Count(shape[axis:]), 1
	if layout == tensor.ChannelsLast && len(shape) > 2 && axis > 1 {
		outer, inner = outer/max(shape[1], 1), shape[1] // a row is of one channel
	}
	return outer, n, inner
}
