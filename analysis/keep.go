package analysis

import (
	"cmp"
	"context"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
)

// keeper holds the float activations of one sample, in memory that the next sample uses again.
type keeper struct {
	g      *graph.Graph
	keep   []bool           // by value
	values []*tensor.Tensor // of this sample, by value, as the executor computed them; what is not kept is nil
	store  []*tensor.Tensor // memory, by value
}

func newKeeper(g *graph.Graph, keep []bool) *keeper {
	return &keeper{g: g, keep: keep, values: make([]*tensor.Tensor, g.NumValues()), store: make([]*tensor.Tensor, g.NumValues())}
}

// begin forgets the sample before. The inputs of the new one are kept as they are: they live as long as the sample.
func (k *keeper) begin(feeds map[string]*tensor.Tensor) {
	clear(k.values)
	for _, v := range k.g.Inputs {
		if t := feeds[k.g.Value(v).Name]; t != nil {
			k.values[v] = t
		}
	}
}

func (k *keeper) wants(v graph.ValueID) bool { return k.keep[v] }

// see copies an output that is to be kept; it is an exec hook.
func (k *keeper) see(n *graph.Node, i int, t *tensor.Tensor) error {
	v := n.Outputs[i]
	k.store[v] = copied(k.store[v], t)
	k.values[v] = k.store[v]
	return nil
}

// copied returns a copy of t, in the memory of s where that is large enough. s may be nil.
func copied(s, t *tensor.Tensor) *tensor.Tensor {
	if s == nil || s.DType != tensor.Float32 || t.DType != tensor.Float32 || cap(s.F32()) < t.Len() {
		return t.Clone()
	}
	s.Data = append(s.F32()[:0], t.F32()...)
	s.Shape = append(s.Shape[:0], t.Shape...)
	s.Layout = t.Layout
	return s
}

// required marks what is kept in any case: the graph outputs, and for Graphwise what it compares.
func (a *analyzer) required() []bool {
	keep := make([]bool, a.g.NumValues())
	for _, v := range a.g.Outputs {
		keep[v] = true
	}
	if a.cfg.Graphwise {
		for _, grp := range a.groups {
			keep[grp.output] = true
		}
	}
	return keep
}

// fill adds to keep what restarts read, then the outputs of the operators analysed, as long as there is room in one worker's share of
// the memory: first what saves most work for its size, counting all work up to it. The sizes are those of s, which is run for
// that. It also finds the stages, whose values are kept in any case.
func (a *analyzer) fill(ctx context.Context, keep []bool, s *exec.Sample) error {
	sizes, shapes := make([]int64, a.g.NumValues()), make([][]int, a.g.NumValues())
	_, err := a.session.NewRunner().Run(ctx, s.Feeds, &exec.Hooks{Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
		sizes[n.Outputs[i]], shapes[n.Outputs[i]] = int64(t.DType.Bytes(t.Len())), slices.Clone(t.Shape)
		return nil
	}})
	if err != nil {
		return err
	}
	room := a.cfg.Memory
	if room == 0 {
		room = defaultMemory
	}
	room /= int64(max(a.cfg.Threads, 1))
	a.stages = a.findStages(shapes)
	if exec.MemoryOf(ctx) > 0 {
		a.stages = within(a.stages, sizes, room/2)
	}
	for _, s := range a.stages {
		keep[s.value] = true
	}
	a.enterStages()
	a.findRestarts()
	a.findNext(shapes)
	for v, size := range sizes {
		if keep[v] {
			room -= size
		}
	}
	saves := make([]float64, a.g.NumValues())
	var read, compared []graph.ValueID
	done := 0.0
	for _, id := range a.order {
		done += a.work.of[id]
		for _, v := range a.g.Node(id).Outputs {
			if v == graph.NoValue || keep[v] || a.g.Const(v) != nil {
				continue
			}
			saves[v] = done / float64(max(sizes[v], 1))
			if a.reads[v] {
				read = append(read, v)
			} else if slices.ContainsFunc(a.groups, func(g group) bool { return g.output == v }) {
				compared = append(compared, v)
			}
		}
	}
	for _, list := range [][]graph.ValueID{read, compared} {
		arrange.Stable(list, func(x, y graph.ValueID) int { return cmp.Compare(saves[y], saves[x]) })
		for _, v := range list {
			if sizes[v] <= room {
				room -= sizes[v]
				keep[v] = true
			}
		}
	}
	return nil
}

// first is an iterator whose first sample was read already.
type first struct {
	exec.Iterator
	sample *exec.Sample
	err    error // in place of a sample
}

func (f *first) Next(ctx context.Context) (*exec.Sample, error) {
	if s, err := f.sample, f.err; s != nil || err != nil {
		f.sample, f.err = nil, nil
		return s, err
	}
	return f.Iterator.Next(ctx)
}
