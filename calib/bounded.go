package calib

import (
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/observers"
)

// bound is what a Relu or Clip does to its input.
type bound struct{ lo, hi float32 }

// boundOf returns the bounds of a Relu, or of a Clip whose bounds are known; false for other nodes.
func boundOf(g *graph.Graph, n *graph.Node) (bound, bool) {
	lo, hi, ok := graph.LimitsOf(n, g.Opset(""), func(v graph.ValueID) *tensor.Tensor {
		if g.IsInput(v) {
			return nil
		}
		return g.Const(v)
	})
	return bound{lo, hi}, ok && len(n.Outputs) == 1 && lo <= hi
}

// pair lets trackers of what Relu and Clip compute be served by those of what they read.
func pair(g *graph.Graph, list []*tracker) {
	for _, id := range g.Nodes() {
		n := g.Node(id)
		b, ok := boundOf(g, n)
		if !ok || n.Outputs[0] == graph.NoValue || g.Const(n.Inputs[0]) != nil {
			continue
		}
		x, y := list[n.Inputs[0]], list[n.Outputs[0]]
		if x == nil || y == nil || x.bounded != nil || x.bounds != nil || y.bounds != nil || y.rows.present || x.rows.present ||
			g.Value(n.Inputs[0]).DType != tensor.Float32 || g.Value(n.Outputs[0]).DType != tensor.Float32 {
			continue
		}
		x.bounded, x.bound, y.bounds = y, b, x
		for _, s := range y.sums { // what y's readers read is limited
			s.limits = observers.Limits{Lo: b.lo, Hi: b.hi}
		}
		x.sums, y.sums = append(x.sums, y.sums...), nil
	}
}

// lookBoth adds data to this tracker and to the one whose values follow from it, and returns the extent of data and how many are NaN. k is
// locked; nobody else touches the other.
func (k *tracker) lookBoth(data []float32, from, channels, inner int, of *seenSample) (a observers.Extent, nan uint64) {
	y := k.bounded
	if k.both == nil {
		if y.seen == nil {
			y.seen = newTensor(y.make())
		}
		k.both = observers.NewLimited(k.seen.State, y.seen.State, k.bound.lo, k.bound.hi)
	}
	a, b, nan := k.both.ObservePiece(data, from, channels, inner)
	half := of.hash.half()
	k.note(of, a)
	y.note(of, b)
	k.seen.Halves[half] = k.seen.Halves[half].Union(a)
	y.seen.Halves[half] = y.seen.Halves[half].Union(b)
	return a, nan
}

// finish leaves the statistics in seen.
func (k *tracker) finish() {
	if k.both != nil {
		k.seen.State, k.bounded.seen.State = k.both.States()
		k.both = nil
	}
}
