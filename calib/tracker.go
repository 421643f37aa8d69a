package calib

import (
	"fmt"
	"sync"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/observers"
)

// tracker observes one value of the graph on behalf of all workers.
type tracker struct {
	rows rowAxis
	make func() *observers.State
	mu   sync.Mutex
	seen *Tensor // nil until the first observation

	// bounded is the tracker of this value bounded, which is served by this one: its bounds points back. See pair.
	bounded, bounds *tracker
	bound           bound
	both            *observers.Limited

	sums []*summer // of the operators that read the value

	// samples are the extents sample by sample; unknown says that earlier statistics do not have them.
	samples observers.SampleExtents
	unknown bool
	open    []openExtent
}

// rowAxis says whether and how a tensor consists of rows whose largest value matters.
type rowAxis struct {
	present bool
	axis    int  // may be negative, counted from the end
	flatten bool // Softmax before opset 13: a row is all axes from axis on
}

// newTrackers returns a tracker for every graph input and node output that is, or may be, float32. Constants are read
// when scales are made. What Relu and Clip compute follows from what they read if pairs is set.
// Sums are kept of what weighted operators read unless minMaxOnly is set.
// only may be nil: all are observed.
func newTrackers(g *graph.Graph, only func(name string) bool, minMaxOnly, pairs bool) []*tracker {
	room := roomIn(g.Store)
	state := func() *observers.State { return observers.NewIn(room) }
	if minMaxOnly {
		state = observers.NewMinMax
	}
	list := make([]*tracker, g.NumValues())
	add := func(v graph.ValueID) {
		if v == graph.NoValue || g.Const(v) != nil || only != nil && !only(g.Value(v).Name) {
			return
		}
		if d := g.Value(v).DType; d == tensor.Float32 || d == tensor.Undefined {
			list[v] = &tracker{make: state}
		}
	}
	for _, v := range g.Inputs {
		add(v)
	}
	for _, id := range g.Nodes() {
		n := g.Node(id)
		for _, v := range n.Outputs {
			add(v)
		}
		if n.Op == "Softmax" && n.Domain == "" && len(n.Outputs) > 0 && n.Outputs[0] != graph.NoValue && list[n.Outputs[0]] != nil {
			list[n.Outputs[0]].rows = softmaxRows(n, g.Opset(""))
		}
	}
	if !minMaxOnly {
		table := kernels.Select(cpu.Detect())
		for _, id := range g.Nodes() {
			if s := newSummer(g, id, table, room); s != nil && list[g.Node(id).Inputs[0]] != nil {
				k := list[g.Node(id).Inputs[0]]
				k.sums = append(k.sums, s)
			}
		}
	}
	if pairs {
		pair(g, list)
	}
	return list
}

func softmaxRows(n *graph.Node, opset int64) rowAxis {
	axis, flat := graph.SoftmaxAxis(n, opset)
	return rowAxis{present: true, axis: axis, flatten: flat}
}

// observe adds the tensor of a sample, which is value v.
func (k *tracker) observe(v graph.ValueID, t *tensor.Tensor, s *seenSample) error {
	if t.DType != tensor.Float32 {
		return nil
	}
	nan, err := k.look(v, t.Shape, t.Layout, 0, t.F32(), s)
	if err != nil {
		return err
	}
	if nan > 0 {
		return nanError(nan, t.Len())
	}
	if !k.rows.present {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.padded.Touches(v) {
		if outer, n, inner := k.rows.of(t.Shape, t.Layout); n > 1 {
			return k.seen.State.ObserveRows(s.realRows(v, t, outer, n, inner), 1)
		}
	}
	return k.rows.observe(k.seen.State, t)
}

// look adds elements of one sample's tensor, which is value v, that are consecutive in memory, the first being number from. It returns how
// many are NaN. What is padding is left out.
func (k *tracker) look(v graph.ValueID, shape []int, layout tensor.Layout, from int, data []float32, of *seenSample) (nan uint64,
	err error) {
	if !of.padded.Touches(v) {
		return k.lookAt(shape, layout, from, data, of, true)
	}
	k.begin()
	err = of.padded.Real(v, shape, layout, from, len(data), func(lo, hi int) error {
		bad, err := k.lookAt(shape, layout, from+lo, data[lo:hi], of, lo == 0 && hi == len(data))
		nan += bad
		return err
	})
	return nan, err
}

// begin makes the statistics of a tensor, which may see nothing.
func (k *tracker) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = newTensor(k.make())
	}
}

// lookAt is look where no padding lies between. Sums over windows need the whole tensor.
func (k *tracker) lookAt(shape []int, layout tensor.Layout, from int, data []float32, of *seenSample, whole bool) (nan uint64,
	err error) {
	channels, inner := -1, 1
	if axis := channelAxis(len(shape)); axis >= 0 {
		_, channels, inner = (&tensor.Tensor{Shape: shape, Layout: layout}).Blocks(axis)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = newTensor(k.make())
	}
	var x observers.Extent
	infinite := k.seen.State.Infinite()
	if k.bounded != nil {
		x, nan = k.lookBoth(data, from, channels, inner, of)
	} else {
		x, nan = k.seen.State.ObservePiece(data, from, channels, inner)
		k.seen.Halves[of.hash.half()] = k.seen.Halves[of.hash.half()].Union(x)
		k.note(of, x)
	}
	if nan > 0 || !of.summed {
		return nan, nil
	}
	for _, s := range k.sums {
		if !whole && !s.rows {
			continue
		}
		if err := s.add(shape, layout, from, data, x, k.seen.State.Infinite() == infinite); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func nanError(nan uint64, n int) error { return fmt.Errorf("%d of %d values are NaN", nan, n) }

// channelAxis is the axis whose channels get ranges: axis 1 as ONNX has it, none for scalars and vectors.
func channelAxis(rank int) int {
	if rank < 2 {
		return -1
	}
	return 1
}

func (r rowAxis) observe(st *observers.State, t *tensor.Tensor) error {
	axis, ok := graph.Axis(r.axis, len(t.Shape))
	if !ok {
		return nil // Softmax itself has refused this
	}
	if r.flatten {
		t = t.ToRowMajor()
		n := tensor.Count(t.Shape[axis:])
		t, axis = tensor.FromF32(t.F32(), tensor.Count(t.Shape[:axis]), n), 1
	}
	return st.ObserveRows(t, axis)
}
