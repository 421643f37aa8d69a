package analysis

import (
	"context"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// WhatIf is a simulation from which something is taken away: what a cure could be worth at best.
type WhatIf struct {
	// Without are slots that stay float.
	Without []tqc.SlotID
	// Shift is added to the first output of a node, a number for each output channel: axis 1 of a convolution, else the last.
	Shift map[graph.NodeID][]float64
}

// WhatIf is Losses with something taken away.
func (e *Evaluator) WhatIf(ctx context.Context, q *sim.Simulator, w WhatIf) (Losses, error) {
	without := sim.Only(w.Without)
	shifted := map[graph.ValueID]bool{}
	for id := range w.Shift {
		shifted[e.g.Node(id).Outputs[0]] = true
	}
	hooks := func() *exec.Hooks {
		quantize := q.NewHooks(sim.View{Islands: true, Mask: func(id tqc.SlotID) bool { return !without(id) }})
		if len(w.Shift) == 0 {
			return quantize
		}
		move := &exec.Hooks{
			Output: func(n *graph.Node, i int, t *tensor.Tensor) error {
				d := w.Shift[n.ID]
				if d == nil || i != 0 || n.Name != e.g.Node(n.ID).Name {
					return nil
				}
				axis := len(t.Shape) - 1
				if graph.Slides(n.Op) {
					axis = 1
				}
				return addAlong(t, d, axis, 1)
			},
			Wants: func(v graph.ValueID) bool { return shifted[v] },
		}
		return chained(move, quantize)
	}
	return outputsUnder(ctx, e, hooks, e.losses)
}
