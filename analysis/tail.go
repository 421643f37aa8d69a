package analysis

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
)

// tail is the end of a graph that depends on the rest through one value alone and takes batches. Restarts that reach it wait there
// and go through it together, so that its weights, large against what one sample makes of them, are read once for all.
type tail struct {
	value graph.ValueID // NoValue: there is none
	first graph.NodeID  // reads the value
	nodes []bool        // by node
}

const (
	tailPositions = 64      // of a sample in the products of a tail: with more of them the weights are used often enough
	tailBatch     = 16      // restarts at a time
	tailElements  = 1 << 20 // of all of them at the value
)

// findTail finds the longest tail. shapes are those of a sample, by value; nil where nothing was computed.
func (a *analyzer) findTail(shapes [][]int) tail {
	best, from := tail{value: graph.NoValue}, 0
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
	for i, id := range a.order {
		n := a.g.Node(id)
		if best.value != graph.NoValue && !a.takesBatches(n, shapes) {
			best.value = graph.NoValue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				live[v] = true
			}
		}
		alive := 0
		var value graph.ValueID
		for v, on := range live {
			if !on || last[v] <= i {
				delete(live, v)
				continue
			}
			alive, value = alive+1, v
		}
		if alive == 1 && best.value == graph.NoValue && i+1 < len(a.order) && len(shapes[value]) > 1 && shapes[value][0] == 1 {
			best.value, from = value, i+1
		}
	}
	if best.value == graph.NoValue {
		return best
	}
	best.nodes = make([]bool, a.g.NumNodes())
	for i := len(a.order) - 1; i >= from; i-- {
		id := a.order[i]
		best.nodes[id] = true
		if slices.Contains(a.g.Node(id).Inputs, best.value) {
			best.first = id
		}
	}
	return best
}

// takesBatches reports whether a node computes every sample of a batch alone, and whether that is worth a batch.
func (a *analyzer) takesBatches(n *graph.Node, shapes [][]int) bool {
	if n.Domain != "" && n.Domain != "ai.onnx" || len(n.Outputs) != 1 || shapes[n.Outputs[0]] == nil {
		return false
	}
	out := shapes[n.Outputs[0]]
	rank := len(out)
	if rank < 2 || out[0] != 1 {
		return false
	}
	constant := func(from int) bool {
		return !slices.ContainsFunc(n.Inputs[min(from, len(n.Inputs)):], func(v graph.ValueID) bool { return v != graph.NoValue && a.g.Const(v) == nil })
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
	case "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool":
		return constant(1)
	case "Add", "Sub", "Mul", "Div":
		return alike(n.Inputs[0]) && alike(n.Inputs[1])
	case "Conv":
		return constant(1) && tensor.Count(out[2:]) <= tailPositions
	case "Gemm":
		return constant(1) && !n.Gemm().TransA && (n.Input(2) == graph.NoValue || alike(n.Input(2)))
	case "MatMul":
		b := a.g.Const(n.Input(1))
		return b != nil && len(b.Shape) == 2 && tensor.Count(out[:rank-1]) <= tailPositions
	case "Flatten":
		return n.Axis() == 1
	case "Softmax", "LogSoftmax":
		axis, _ := graph.SoftmaxAxis(n, a.g.Opset(""))
		return axis > 0 || axis < 0 && axis+rank > 0
	}
	return false
}

// waiting are restarts of one sample that have reached the tail.
type waiting struct {
	layers []int // the groups
	stack  *tensor.Tensor
}

// serves reports whether restarts at g may go through the tail with others.
func (w *worker) serves(g *group) bool {
	if w.tail.value == graph.NoValue || slices.ContainsFunc(g.nodes, func(id graph.NodeID) bool { return w.tail.nodes[id] }) {
		return false
	}
	t := w.kept.values[w.tail.value]
	return t != nil && t.DType == tensor.Float32 && len(t.Shape) > 1 && t.Shape[0] == 1
}

// wait adds what restart i makes of the tail's value.
func (w *worker) wait(ctx context.Context, i int, t *tensor.Tensor, res *sampleResult) error {
	if s := w.queue.stack; s == nil || len(w.queue.layers) == 0 {
		w.queue.stack = copied(s, t)
	} else if s.Layout != t.Layout || !slices.Equal(s.Shape[1:], t.Shape[1:]) {
		return fmt.Errorf("value %q is %s in one run and %s in another", w.g.Value(w.tail.value).Name, s.Type(), t.Type())
	} else {
		s.Data = append(s.F32(), t.F32()...)
		s.Shape[0]++
	}
	w.queue.layers = append(w.queue.layers, i)
	if n := len(w.queue.layers); n < tailBatch && (n+1)*t.Len() <= tailElements {
		return nil
	}
	return w.drain(ctx, res)
}

// drain takes the restarts that wait through the tail and compares the graph outputs.
func (w *worker) drain(ctx context.Context, res *sampleResult) error {
	n := len(w.queue.layers)
	if n == 0 {
		return nil
	}
	clear(w.known)
	w.known[w.tail.value] = w.queue.stack
	outputs, ran, err := w.runner.Resume(ctx, w.known, w.tail.first, nil, nil)
	if err != nil {
		return err
	}
	res.forwards += float64(n) * w.work.share(ran)
	for k, i := range w.queue.layers {
		one := make([]*tensor.Tensor, len(outputs))
		for o, t := range outputs {
			size := t.Len() / n
			shape := slices.Clone(t.Shape)
			shape[0] = 1
			one[o] = tensor.FromF32(t.F32()[k*size:(k+1)*size], shape...)
		}
		if res.layers[i].outputs, err = w.compareOutputs(one); err != nil {
			return err
		}
	}
	w.queue.layers = w.queue.layers[:0]
	return nil
}
