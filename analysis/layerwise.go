package analysis

import (
	"context"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// layerResult is one operator on one sample.
type layerResult struct {
	outputs            []outputError
	clip, round, local float64
	weight, activation float64
}

// layerwise quantizes each group alone, starting from the kept float activations.
func (w *worker) layerwise(ctx context.Context, kept []*tensor.Tensor, res *sampleResult) error {
	float := outputsOf(w.g, kept)
	res.layers = make([]layerResult, len(w.groups))
	for i := range w.groups {
		g := &w.groups[i]
		l := &res.layers[i]
		out, q, err := w.alone(ctx, kept, g, sim.View{Mask: g.all}, false, res)
		if err != nil {
			return err
		}
		if l.outputs, err = compareOutputs(out, float); err != nil {
			return err
		}
		f := kept[g.output]
		_, clipped, err := w.alone(ctx, kept, g, sim.View{Mask: g.all, Mode: sim.Clip}, true, res)
		if err != nil {
			return err
		}
		p, err := parts(f, clipped, q)
		if err != nil {
			return err
		}
		l.clip, l.round = p[0], p[1]
		l.local = p[0] + p[1]
		if !w.cfg.Split {
			continue
		}
		_, weights, err := w.alone(ctx, kept, g, sim.View{Mask: g.weights}, true, res)
		if err != nil {
			return err
		}
		if p, err = parts(f, weights, q); err != nil {
			return err
		}
		l.weight, l.activation = p[0], p[1]
	}
	return nil
}

// alone runs a group with the selected slots quantized and what depends on it, or the group only. It returns the graph outputs
// and the group's own output.
func (w *worker) alone(ctx context.Context, kept []*tensor.Tensor, g *group, view sim.View, only bool, res *sampleResult) (outputs []*tensor.Tensor, own *tensor.Tensor, err error) {
	view.Scratch = &w.scratch
	hooks := withOutput(w.sim.NewHooks(view), func(n *graph.Node, i int, t *tensor.Tensor) error {
		if n.Outputs[i] == g.output {
			own = t.Clone()
		}
		return nil
	})
	var until func(graph.NodeID) bool
	if only {
		until = g.contains
	}
	outputs, ran, err := w.runner.Resume(ctx, kept, g.node, hooks, until)
	if err != nil {
		return nil, nil, err
	}
	res.forwards += w.work.share(ran)
	if own == nil { // nothing changed on the way to the group's output
		if own = kept[g.output]; own == nil {
			return nil, nil, fmt.Errorf("node %q: its output %q was not kept", w.g.Node(g.node).Name, w.g.Value(g.output).Name)
		}
	}
	return outputs, own, nil
}

// group is an operator that sums products together with what is fused to it.
type group struct {
	node   graph.NodeID
	nodes  []graph.NodeID
	output graph.ValueID
	// all and weights select the slots of the group, and those of them that are parameters.
	all, weights func(tqc.SlotID) bool
}

func (g *group) contains(id graph.NodeID) bool { return slices.Contains(g.nodes, id) }

// groupsOf lists, in graph order, the operators that are analysed: those that sum products and are quantized.
func groupsOf(g *graph.Graph, order []graph.NodeID, s *sim.Simulator) []group {
	var out []group
	for _, id := range order {
		n := g.Node(id)
		if spec := n.Spec(); spec == nil || spec.Kind != graph.KindComputing || s.Set().Fused[id] != graph.NoNode {
			continue
		}
		sg := s.Group(id)
		if len(sg.Slots) == 0 {
			continue
		}
		all := sim.Only(sg.Slots)
		weights := func(slot tqc.SlotID) bool { return all(slot) && s.Set().Slot(slot).Weight }
		out = append(out, group{node: id, nodes: sg.Nodes, output: sg.Output, all: all, weights: weights})
	}
	return out
}

// work says how large a share of a whole forward each node is: by multiply-accumulates where the graph has any, else by number.
type work struct {
	of    []float64
	total float64
}

func newWork(g *graph.Graph) work {
	w := work{of: make([]float64, g.NumNodes())}
	for _, id := range g.Nodes() {
		if macs, ok := g.MACs(id); ok {
			w.of[id] = float64(macs)
		}
		w.total += w.of[id]
	}
	if w.total == 0 {
		for _, id := range g.Nodes() {
			w.of[id] = 1
			w.total++
		}
	}
	return w
}

func (w work) share(ran []graph.NodeID) float64 {
	if w.total == 0 {
		return 0
	}
	var sum float64
	for _, id := range ran {
		sum += w.of[id]
	}
	return sum / w.total
}
