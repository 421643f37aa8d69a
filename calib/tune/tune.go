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
	// Progress hears of the work; it may be nil.
	Progress func(Progress)

	shared *sim.Constants
	stage  string       // the name of the method under way
	before analysis.NSR // of the outputs, when it began
	judge  *judge
}

// Progress is how far a method has come.
type Progress struct {
	Method      string
	Done, Total int          // operators
	Kept        int          // of them
	Error       analysis.NSR // of the outputs on the held-out samples, before the method
}

// memory is how many bytes may be used.
func (b *Bench) memory() int64 {
	if b.Memory == 0 {
		return 2 << 30
	}
	return b.Memory
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
	if b.shared == nil {
		b.shared = new(sim.Constants)
	}
	now, err := b.losses(ctx)
	if err != nil {
		return nil, err
	}
	reports := []*Report{}
	for _, m := range methods {
		r, after, err := b.try(ctx, m, now)
		if err != nil {
			return nil, fmt.Errorf("tune: %s: %w", m.Name, err)
		}
		reports, now = append(reports, r), after
	}
	return reports, nil
}

// try runs a method and takes everything back where it is not confirmed. before are the losses of the bench as it is; those after it are
// returned.
func (b *Bench) try(ctx context.Context, m *Method, before analysis.Losses) (*Report, analysis.Losses, error) {
	was := *b
	b.Graph, b.Set, b.Frozen = was.Graph.Clone(), was.Set.Clone(), maps.Clone(was.Frozen)
	first := analysis.NewNSR(before.Estimate())
	b.stage, b.before = m.Name, first
	r, err := m.run(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	after, err := b.losses(ctx)
	if err != nil {
		return nil, nil, err
	}
	change := analysis.Paired(before.PerSample(), after.PerSample())
	r.Name, r.Before, r.After = m.Name, first, analysis.NewNSR(after.Estimate())
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
		*b = was
		r.Kept, after = 0, before
		for i := range r.Layers {
			r.Layers[i].Kept = false
		}
	}
	return r, after, nil
}

// judge holds simulations against the float results of one reference.
type judge struct {
	reference *graph.Graph
	*analysis.Evaluator
}

// losses are the errors of the outputs on the held-out samples.
func (b *Bench) losses(ctx context.Context) (analysis.Losses, error) {
	if b.judge == nil || b.judge.reference != b.Reference {
		ev, err := analysis.NewEvaluator(ctx, b.Reference, func() exec.Iterator { return &exec.InMemory{Samples: b.Held} }, b.Threads, 0)
		if err != nil {
			return nil, err
		}
		b.judge = &judge{b.Reference, ev}
	}
	q, err := b.Simulate(b.Graph, b.Set, b.shared)
	if err != nil {
		return nil, err
	}
	return b.judge.Losses(ctx, q)
}

// Overlay returns what the bench's graph has otherwise than the reference, and the scales of its weights that were tuned. set is the final
// one: its fingerprints are recorded. added names the nodes whose bias the model lacks.
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
