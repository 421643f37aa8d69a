package analysis

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// stage is a part of the end of a graph that depends on the rest through one value alone and takes batches. Restarts that reach it wait
// there and go through it together, and then wait in front of the next one: so weights that are large against what one sample makes of
// them, and the calls of small operators, are paid once for all.
type stage struct {
	value graph.ValueID
	first graph.NodeID // reads the value
	from  int          // place in the order of the first node behind the value; the stage ends where the next one begins
	rows  int          // restarts that go through at a time
}

const (
	stagePositions = 64      // of a sample in the products of a stage: with more of them the weights are used often enough
	stageWork      = 4 << 20 // multiply-accumulates of a product that is so small that calling it counts
	stageBatch     = 16      // restarts at a time
	stageElements  = 1 << 20 // of the value, in one batch
	stageCached    = 1 << 17
)

// findStages finds the stages of the longest end of the graph that takes batches, in their order. shapes are those of a sample, by value;
// nil where nothing was computed.
func (a *analyzer) findStages(shapes [][]int) (list []stage) {
	last := make([]int, a.g.NumValues()) // the last position that reads a value
	for i, id := range a.order {
		for _, v := range a.computed(a.g.Node(id)) {
			last[v] = i
		}
	}
	for _, v := range a.g.Outputs {
		last[v] = len(a.order)
	}
	live := map[graph.ValueID]bool{}
	for _, v := range a.g.Inputs {
		live[v] = a.g.Const(v) == nil
	}
	entered := false // a group ends behind the last stage's value
	for i, id := range a.order {
		n := a.g.Node(id)
		if len(list) > 0 && !a.takesBatches(n, shapes) {
			list = nil
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				live[v] = true
			}
		}
		entered = entered || slices.ContainsFunc(a.groups, func(g group) bool { return g.nodes[len(g.nodes)-1] == id })
		alive := 0
		var value graph.ValueID
		for v, on := range live {
			if !on || last[v] <= i {
				delete(live, v)
				continue
			}
			alive, value = alive+1, v
		}
		if alive != 1 || i+1 == len(a.order) || len(shapes[value]) < 2 || shapes[value][0] != 1 || len(list) > 0 &&
			(!entered || !a.begins(value)) {
			continue
		}
		limit := stageElements
		if tensor.Count(shapes[value][2:]) > stagePositions {
			limit = stageCached
		}
		list, entered = append(list, stage{value: value, first: a.firstReader(value), from: i + 1,
			rows: min(max(limit/max(tensor.Count(shapes[value]), 1), 1), stageBatch)}), false
	}
	return list
}

// within makes one stage of two neighbours until what waits in front of all of them, and what they make of it, takes no more than so many
// bytes. sizes are those of the values of a sample.
func within(list []stage, sizes []int64, most int64) []stage {
	for {
		var all int64
		for _, s := range list {
			all += 2 * int64(s.rows) * sizes[s.value]
		}
		if all <= most || len(list) < 2 {
			return list
		}
		for i := range list {
			if i%2 == 0 {
				list[i/2] = list[i]
			} else {
				list[i/2].rows = min(list[i/2].rows, list[i].rows)
			}
		}
		list = list[:(len(list)+1)/2]
	}
}

// begins reports whether an operator that sums products reads a value: the executor computes it alone then,
// and restarts are compared there.
func (a *analyzer) begins(v graph.ValueID) bool {
	return slices.ContainsFunc(a.g.Uses(v), func(u graph.Use) bool {
		spec := a.g.Node(u.Node).Spec()
		return spec != nil && spec.Kind == graph.KindComputing
	})
}

func (a *analyzer) firstReader(v graph.ValueID) graph.NodeID {
	for _, id := range a.order {
		if slices.Contains(a.g.Node(id).Inputs, v) {
			return id
		}
	}
	return graph.NoNode
}

// enterStages says of each group in front of which stage its restarts wait: the first that begins behind all of its nodes.
func (a *analyzer) enterStages() {
	a.place = make([]int, a.g.NumNodes())
	for i, id := range a.order {
		a.place[id] = i
	}
	for i := range a.groups {
		g := &a.groups[i]
		g.stage = slices.IndexFunc(a.stages, func(s stage) bool {
			return !slices.ContainsFunc(g.nodes, func(id graph.NodeID) bool { return a.place[id] >= s.from })
		})
	}
}

// before reports whether a node stands in front of a stage.
func (a *analyzer) before(stage int) func(graph.NodeID) bool {
	return func(id graph.NodeID) bool { return a.place[id] < a.stages[stage].from }
}

// takesBatches reports whether a node computes every sample of a batch alone, and whether that is worth a batch.
func (a *analyzer) takesBatches(n *graph.Node, shapes [][]int) bool {
	if !n.IsONNX() || len(n.Outputs) != 1 || shapes[n.Outputs[0]] == nil {
		return false
	}
	out := shapes[n.Outputs[0]]
	rank := len(out)
	if rank < 2 || out[0] != 1 {
		return false
	}
	constant := func(from int) bool {
		return !slices.ContainsFunc(n.Inputs[min(from, len(n.Inputs)):], func(v graph.ValueID) bool {
			return v != graph.NoValue && a.g.Const(v) == nil
		})
	}
	small := func(positions []int) bool {
		return tensor.Count(positions) <= stagePositions || a.work.of[n.ID] <= stageWork
	}
	alike := func(v graph.ValueID) bool { // broadcast in every sample alike
		shape := shapes[v]
		if c := a.g.Const(v); c != nil {
			shape = c.Shape
			return len(shape) < rank || len(shape) == rank && shape[0] == 1
		}
		return len(shape) == rank && shape[0] == 1
	}
	switch n.Op {
	case "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "MaxPool", "AveragePool", "GlobalAveragePool",
		"GlobalMaxPool":
		return constant(1)
	case "Add", "Sub", "Mul", "Div":
		return alike(n.Inputs[0]) && alike(n.Inputs[1])
	case "Conv":
		return constant(1) && small(out[2:])
	case "Gemm":
		return constant(1) && !n.Gemm().TransA && (n.Input(2) == graph.NoValue || alike(n.Input(2)))
	case "MatMul":
		b := a.g.Const(n.Input(1))
		return b != nil && len(b.Shape) == 2 && small(out[:rank-1])
	case "Flatten":
		return n.Axis() == 1
	case "Softmax", "LogSoftmax":
		axis, _ := graph.SoftmaxAxis(n, a.g.Opset(""))
		return axis > 0 || axis < 0 && axis+rank > 0
	}
	return false
}

// waiting are restarts of one sample that have reached a stage.
type waiting struct {
	layers []int // the groups
	stack  *tensor.Tensor
	out    *tensor.Tensor // what the stage makes of them
}

// enters returns the stage in front of which restarts at g wait; -1: none.
func (w *worker) enters(g *group) int {
	if g.stage < 0 {
		return -1
	}
	for _, s := range w.stages[g.stage:] {
		if t := w.kept.values[s.value]; t == nil || t.DType != tensor.Float32 || len(t.Shape) < 2 || t.Shape[0] != 1 {
			return -1
		}
	}
	return g.stage
}

// wait adds what restart i makes of a stage's value.
func (w *worker) wait(ctx context.Context, stage, i int, t *tensor.Tensor, res *sampleResult) error {
	q := &w.queues[stage]
	if s := q.stack; s == nil || len(q.layers) == 0 {
		q.stack = copied(s, t)
	} else if !slices.Equal(s.Shape[1:], t.Shape[1:]) {
		return fmt.Errorf("value %q is %s in one run and %s in another", w.g.Value(w.stages[stage].value).Name, s.Type(), t.Type())
	} else {
		if s.Layout != t.Layout {
			s, t = s.ToRowMajor(), t.ToRowMajor()
			q.stack = s
		}
		s.Data = append(s.F32(), t.F32()...)
		s.Shape[0]++
	}
	if q.layers = append(q.layers, i); len(q.layers) < w.stages[stage].rows {
		return nil
	}
	return w.drain(ctx, stage, res)
}

// drain takes the restarts that wait through a stage: to the next one, or to the graph outputs, which it compares.
func (w *worker) drain(ctx context.Context, stage int, res *sampleResult) error {
	q := &w.queues[stage]
	n := len(q.layers)
	if n == 0 {
		return nil
	}
	w.known = append(w.known[:0], w.none...)
	w.known[w.stages[stage].value] = q.stack
	var hooks *exec.Hooks
	var until func(graph.NodeID) bool
	next := stage + 1
	if next < len(w.stages) {
		until = w.before(next)
		value := w.stages[next].value
		hooks = looking(&exec.Hooks{}, func(v graph.ValueID) bool { return v == value }, func(_ *graph.Node, _ int, t *tensor.Tensor) error {
			q.out = copied(q.out, t)
			return nil
		})
	}
	outputs, ran, err := w.together.Resume(ctx, w.known, w.stages[stage].first, hooks, until)
	if err != nil {
		return err
	}
	res.work += float64(n) * w.work.sum(ran)
	for k, i := range q.layers {
		if next == len(w.stages) {
			one := make([]*tensor.Tensor, len(outputs))
			for o, t := range outputs {
				one[o] = row(t, k, n)
			}
			res.layers[i].outputs, err = w.compareOutputs(one)
		} else if t := row(q.out, k, n); sameAs(w.kept.values[w.stages[next].value], t) {
			res.layers[i].outputs, err = w.compareOutputs(w.outputsOf())
		} else {
			err = w.wait(ctx, next, i, t, res)
		}
		if err != nil {
			return err
		}
	}
	q.layers = q.layers[:0]
	return nil
}

// row is sample k of a batch of n, in the batch's memory.
func row(t *tensor.Tensor, k, n int) *tensor.Tensor {
	if n == 1 {
		return t
	}
	size := t.Len() / n
	shape := slices.Clone(t.Shape)
	shape[0] = 1
	one := tensor.FromF32(t.F32()[k*size:(k+1)*size], shape...)
	one.Layout = t.Layout
	return one
}

// sameAs is tensor.Equal for tensors whose layouts may differ.
func sameAs(a, b *tensor.Tensor) bool {
	if a.Layout != b.Layout {
		a, b = a.ToRowMajor(), b.ToRowMajor()
	}
	return tensor.Equal(a, b)
}
