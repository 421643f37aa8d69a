package calib

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// viewer is the hooks of one run of the graph on a group of samples. Most values are observed in pieces, as they are computed
// and while they are in the cache; those whose rows matter as a whole.
type viewer struct {
	run     *run
	group   []job
	seen    []*seenSample // by sample of the group
	watch   *stopwatch
	looking atomic.Int64 // time spent in look

	mu   sync.Mutex
	nans map[nanPlace]uint64
	lens map[graph.ValueID]int // of the values in nans
}

// nanPlace is a value of one sample of the group.
type nanPlace struct {
	value  graph.ValueID
	sample int
}

func (v *viewer) looks(id graph.ValueID) bool {
	k := v.run.trackers[id]
	return k != nil && !k.rows.present && k.bounds == nil
}

func (v *viewer) wantsWhole(id graph.ValueID) bool {
	k := v.run.trackers[id]
	return k != nil && k.rows.present
}

// whole observes an output that is wanted whole.
func (v *viewer) whole(n *graph.Node, i int, t *tensor.Tensor) error {
	if t.DType != tensor.Float32 || !v.wantsWhole(n.Outputs[i]) {
		return nil
	}
	v.watch.observe()
	defer v.watch.forward()
	for k := range v.group {
		part, err := slice(t, k, len(v.group))
		if err == nil {
			err = v.run.trackers[n.Outputs[i]].observe(n.Outputs[i], part, v.seen[k])
		}
		if err != nil {
			return v.fail(n, i, err)
		}
	}
	return nil
}

// look observes a piece of an output, which may be of several samples.
func (v *viewer) look(n *graph.Node, i int, p exec.Piece) {
	if clock := v.run.cfg.Clock; clock != nil {
		start := clock()
		defer func() { v.looking.Add(int64(clock() - start)) }()
	}
	size, shape := tensor.Count(p.Shape), p.Shape
	if len(v.group) > 1 {
		if len(p.Shape) == 0 || p.Shape[0]%len(v.group) != 0 {
			v.note(nanPlace{n.Outputs[i], -1}, 1, size)
			return
		}
		size /= len(v.group)
		shape = slices.Clone(shape)
		shape[0] /= len(v.group)
	}
	for data, from := p.Data, p.From; ; {
		k, at := 0, from
		if size > 0 {
			k, at = from/size, from%size
		}
		part := data[:min(size-at, len(data))]
		nan, err := v.run.trackers[n.Outputs[i]].look(n.Outputs[i], shape, p.Layout, at, part, v.seen[k])
		if err != nil {
			v.run.odd(err)
		}
		if nan > 0 {
			v.note(nanPlace{n.Outputs[i], k}, nan, size)
		}
		if data, from = data[len(part):], from+len(part); len(data) == 0 {
			return
		}
	}
}

// note keeps what is wrong with a value until all of it has been seen.
func (v *viewer) note(at nanPlace, nan uint64, size int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.nans == nil {
		v.nans, v.lens = map[nanPlace]uint64{}, map[graph.ValueID]int{}
	}
	v.nans[at] += nan
	v.lens[at.value] = size
}

// looked ends the run where something was wrong with an output.
func (v *viewer) looked(n *graph.Node, i int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := n.Outputs[i]
	size, bad := v.lens[id]
	if !bad {
		return nil
	}
	if v.nans[nanPlace{id, -1}] > 0 {
		return v.fail(n, i, fmt.Errorf("%d elements do not fall into %d samples", size, len(v.group)))
	}
	for k := range v.group {
		if nan := v.nans[nanPlace{id, k}]; nan > 0 {
			return v.fail(n, i, nanError(nan, size))
		}
	}
	return nil
}

func (v *viewer) fail(n *graph.Node, i int, err error) error {
	return fmt.Errorf("output %q: %w%s", v.run.g.Value(n.Outputs[i]).Name, err, v.run.blame(n))
}
