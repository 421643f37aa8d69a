// Package tune changes the constants of a quantized graph so that it computes more nearly what the float graph does. A method is a value
// in Methods; what it changes is an overlay, and what it is worth is measured on samples that it was not fitted on.
package tune

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"qwb/analysis"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/observers"
	"qwb/quantizer/overlay"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Method is one way of tuning.
type Method struct {
	Name string
	Doc  string // one line
	// Changes says what of the graph it changes: "biases", "weights", "scales", "structure". Needs says what it is fitted on: "data",
	// NeedsStatistics, "gradients".
	Changes, Needs []string
	// Run tries the method layer by layer and leaves in the bench's graph what helped.
	Run func(ctx context.Context, b *Bench) (*Report, error)
}

// NeedsStatistics is what methods need that are fitted on the statistics' sums.
const NeedsStatistics = "statistics"

// Methods lists all methods, in the order in which auto tries them.
var Methods = []*Method{&Analytic, &Bias}

// Find returns the method of a name, nil if there is none.
func Find(name string) *Method {
	for _, m := range Methods {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Bench is what methods work on. Reference and Graph have the same nodes and values; only constants of Graph differ.
type Bench struct {
	Reference *graph.Graph // float; not changed
	Graph     *graph.Graph // with what tuning has changed so far
	Set       *tqc.Set     // how Graph is quantized
	// Frozen are the operators whose weights keep the scales they have in Set, since they were tuned.
	Frozen map[graph.NodeID]bool
	// Simulate makes the simulation of a graph for an executor that runs the reference.
	Simulate func(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error)
	// Sums are the statistics' sums of what an operator reads, by its name; nil where there are none.
	Sums func(node string) *observers.InputSums
	// Fit and Held are the samples to fit on and those to try on; see exec.HeldOut.
	Fit, Held []*exec.Sample
	Threads   int
	// Memory is how many bytes of activations may be kept to restart from, 0 for 2 GiB. Results do not depend on it.
	Memory int64
	// Force keeps what cannot be confirmed.
	Force bool
	// Progress is called with the layers done and their number; it may be nil.
	Progress func(done, total int)

	shared sim.Constants
}

// WholeBar is how many standard errors the error of the outputs has to fall by for a method to be kept. One is enough for the whole:
// each operator has passed a stricter bar of its own before, corrected for the number of operators tried, and what is tried here is one
// thing.
const WholeBar = 1

// Tune runs methods one after the other. Each is kept as a whole only where the held-out error of the outputs falls by more than
// WholeBar standard errors of the paired differences; else its changes are taken back. With fewer than analysis.MinHeldOut held-out samples
// nothing can be confirmed: changes are kept with Force only.
func (b *Bench) Tune(ctx context.Context, methods ...*Method) ([]*Report, error) {
	if len(b.Fit) == 0 || len(b.Held) == 0 {
		return nil, fmt.Errorf("tune: %d samples to fit on and %d held out: there have to be some of each; take more samples", len(b.Fit), len(b.Held))
	}
	ev, err := analysis.NewEvaluator(ctx, b.Reference, func() exec.Iterator { return &exec.InMemory{Samples: b.Held} }, b.Threads, 0)
	if err != nil {
		return nil, err
	}
	before, err := b.losses(ctx, ev)
	if err != nil {
		return nil, err
	}
	var reports []*Report
	for _, m := range methods {
		graph, set, frozen := b.Graph, b.Set, b.Frozen
		b.Graph, b.Set, b.Frozen = graph.Clone(), set.Clone(), maps.Clone(frozen)
		r, err := m.Run(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("tune: %s: %w", m.Name, err)
		}
		r.Name = m.Name
		after, err := b.losses(ctx, ev)
		if err != nil {
			return nil, err
		}
		change := analysis.Paired(before.PerSample(), after.PerSample())
		r.Before, r.After = analysis.NewNSR(before.Estimate()), analysis.NewNSR(after.Estimate())
		r.Change, r.ChangeError = change.Mean, analysis.NewSpread(change).NSRError
		enough := len(b.Held) >= analysis.MinHeldOut
		r.Confirmed = enough && change.Below(WholeBar)
		for _, l := range r.Layers {
			if l.Kept {
				r.Kept++
			}
		}
		switch {
		case r.Kept == 0 || r.Confirmed:
		case b.Force:
			r.Note = "kept by force, not confirmed"
		default:
			r.Note = "taken back: the error of the outputs does not fall by more than its error bar"
			if !enough {
				r.Note = fmt.Sprintf("taken back: %d held-out samples confirm nothing, %d are needed", len(b.Held), analysis.MinHeldOut)
			}
			b.Graph, b.Set, b.Frozen = graph, set, frozen
			r.Kept, after = 0, before
			for i := range r.Layers {
				r.Layers[i].Kept = false
			}
		}
		reports, before = append(reports, r), after
	}
	return reports, nil
}

func (b *Bench) losses(ctx context.Context, ev *analysis.Evaluator) (analysis.Losses, error) {
	q, err := b.Simulate(b.Graph, b.Set, &b.shared)
	if err != nil {
		return nil, err
	}
	return ev.Losses(ctx, q)
}

// Overlay returns what the bench's graph has otherwise than the reference, and the scales of its weights that were tuned. set is the final one: its fingerprints are recorded. added
// names the nodes whose bias the model lacks.
func (b *Bench) Overlay(set *tqc.Set, added map[string]bool) *overlay.Overlay {
	o := &overlay.Overlay{}
	for _, id := range b.Graph.Nodes() {
		n := b.Graph.Node(id)
		for i, v := range n.Inputs {
			if v == graph.NoValue || b.Graph.Const(v) == nil {
				continue
			}
			weight := i == overlay.WeightInput && b.Frozen[id] && b.Set.Slot(b.Set.Input(id, i)).State().Quantizes()
			if b.Graph.Const(v) == b.Reference.Const(v) && !weight {
				continue
			}
			e := overlay.Entry{Node: n.Name, Input: i, Base: overlay.TensorHash(b.Reference.Const(v)), Added: i == biasInput && added[n.Name],
				For: overlay.Fingerprint(set, id), Value: b.Graph.Const(v)}
			if weight {
				s := b.Set.Input(id, i)
				p := b.Set.Params(s)
				e.Scheme, e.Scale, e.ZeroPoint = overlay.SchemeText(&b.Set.Slot(s).Config), slices.Clone(p.Scale), slices.Clone(p.ZeroPoint)
			}
			o.Entries = append(o.Entries, e)
		}
	}
	return o
}
