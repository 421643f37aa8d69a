// Package tune changes the constants of a quantized graph so that it computes more nearly what the float graph does. A method is a value
// in Methods; what it changes is an overlay, and what it is worth is measured on samples that it was not fitted on.
//
// Unstable: it may change without notice.
package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"qwb/analysis"
	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/kernels/elementary"
	"qwb/observers"
	"qwb/quantizer/overlay"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// Bench is what methods work on. Reference and Graph have the same nodes and values; only constants of Graph differ.
type Bench struct {
	Reference *graph.Graph // float; not changed
	// Steps made the reference of the model's graph in normal form. Rewrite returns what Bench.on takes of a bench whose reference has other
	// steps in their place, is configured on what was observed of it, and has of b's tuned values those that fit it; nil where the plan allows
	// no steps.
	Steps   []rewrite.Step
	Rewrite func(ctx context.Context, b *Bench, steps []rewrite.Step) (*Bench, error)
	Graph   *graph.Graph // with what tuning has changed so far
	Set     *tqc.Set     // how Graph is quantized
	// Frozen are the operators whose weights keep the scales they have in Set, since they were tuned.
	Frozen map[graph.NodeID]bool
	// Ranges lists what the scale of an activation might be, root being what governs it; nil: activations keep theirs. Chosen are those that
	// were chosen.
	Ranges func(g *graph.Graph, set *tqc.Set, root tqc.SlotID) ([]calib.Candidate, error)
	Chosen []Chosen
	// Simulate makes the simulation of a graph for an executor that runs the reference.
	Simulate func(g *graph.Graph, set *tqc.Set, shared *sim.Constants) (*sim.Simulator, error)
	// Integers, if not nil, makes what runs the integers of a graph, and Losses are theirs: where the arithmetic of the target is not that of
	// the simulation, a method is kept only if the integers get better. What is made is used for one sample at a time.
	Integers func(g *graph.Graph, set *tqc.Set) (analysis.Forward, error)
	// Sums are the statistics' sums of what an operator reads, by its name; nil where there are none. Resum: they have seen some of Held, and
	// are made again of Fit when they are needed.
	Sums  func(node string) *observers.InputSums
	Resum bool
	// Fit and Held are the samples to fit on and those to try on; see exec.Halves. Where there are too few, Halves are both of them: each
	// takes its turn as either, and Fit and Held are all of them; see cross.go.
	Fit, Held []*exec.Sample
	Halves    *[2][]*exec.Sample
	// Apart, if not nil, does what Rewrite does for the same steps, on what is observed of fit alone: of a turn that fits on it.
	Apart func(ctx context.Context, fit []*exec.Sample) (*Bench, error)
	// Start and End are the losses before and after Tune.
	Start, End analysis.Losses
	// Grams, if not nil, takes the place of Fit: Gram statistics of the float graph by the name of an operator, nil where there are none.
	// Methods that are not FromGrams cannot be fitted then.
	Grams   func(node string) (*observers.Gram, error)
	Threads int
	// Memory is how many bytes of activations may be kept to restart from, 0 for 2 GiB, or 1.25 where operators are gone through one by one
	// (a quarter more than is named there). Results do not depend on it, but for block and distill, which fit on fewer samples where they do
	// not fit.
	Memory int64
	// StepMemory is how many bytes a step of block and distill may take beside that, which bounds its batch; 0 for as many.
	StepMemory int64
	// Loss is what distill lowers, SquaredLoss or ClassLoss; empty: SquaredLoss.
	Loss string
	// Optimizer is what block and distill move numbers by, Adam or SignSGD; empty: Adam.
	Optimizer string
	// BlockSteps is how many steps block takes at each block, and distill in all, 0 for DefaultSteps.
	BlockSteps int
	// Blocks is how many blocks it learns, those behind which the error has grown most; 0 for all.
	Blocks int
	// Force keeps what cannot be confirmed.
	Force bool
	// Room bounds what changes of structure may cost; nil for no bounds.
	Room *Room
	// Say, if not nil, hears what is about to be tried, where people should know.
	Say func(string)
	// Parts are what outputs are judged by beside the whole, as analysis.NewJudge takes them.
	Parts []analysis.Slice
	// Progress hears of the work; it may be nil.
	Progress func(Progress)
	// Work bounds and counts what is done; nil for no bounds.
	Work *Work
	// Save, if not nil, is offered what is done so far after every operator and method, and with last before an interruption ends it; state is
	// costly. Resume is what it was given before: Tune goes on from there, with the same methods, on a bench that is made as that one was.
	Save   func(last bool, state func() *Saved) error
	Resume *Saved

	shared *sim.Constants
	first  *tqc.Set // Set as it was before tuning
	point  *point
	done   []Layer        // of the method under way, by an earlier run
	taught *Lesson        // of the block behind those
	stage  Progress       // of the method under way
	within func(Progress) // hears of the trial under way; may be nil
	before analysis.NSR   // of the outputs, when it began
	judge  *judge
	base   *baseline    // of changes of structure; nil: none yet, or something was kept
	turns  []*Bench     // one for each half that fits
	turn   bool         // it is one of them
	only   verdicts     // what may be kept; nil: what passes
	summed *graph.Graph // what Sums were made on, where Resum
	found  *found       // nil until a sample has a mask
}

// Progress is how far a method has come.
type Progress struct {
	Method      string
	Stage       int          // its number, counted from 1: a method may be tried twice
	Done, Total int          // operators
	Kept        int          // of them
	Error       analysis.NSR // of the outputs on the held-out samples, before the method
}

// tell says how far the method under way is.
func (b *Bench) tell(done, total, kept int) {
	if b.Progress != nil {
		b.Progress(Progress{Method: b.stage.Method, Stage: b.stage.Stage, Done: done, Total: total, Kept: kept, Error: b.before})
	}
}

// ready makes what methods that go through the operators write to.
func (b *Bench) ready() {
	if b.Frozen == nil {
		b.Frozen = map[graph.NodeID]bool{}
	}
	if b.shared == nil {
		b.shared = new(sim.Constants)
	}
}

// memory is how many bytes may be used.
func (b *Bench) memory() int64 {
	if b.Memory == 0 {
		return 2 << 30
	}
	return b.Memory
}

// wholeBar is how many standard errors the error of the outputs has to fall by for a method to be kept. One is enough for the whole:
// each operator has passed a stricter bar of its own before, corrected for the number of operators tried, and what is tried here is one
// thing. typicalBar is the same for the error of the typical sample; see Judge.
const (
	wholeBar   = 1
	typicalBar = 2
)

// Judge compares the errors of the outputs, sample by sample: change is the mean of after - before, typical that of log(after / before).
// What is tried is confirmed if the mean falls by more than wholeBar standard errors. A few samples with outputs near zero, or with nearly
// equal scores, may carry the mean and its error; so it is confirmed too if the mean does not rise and the typical sample's error falls by
// more than typicalBar standard errors. With fewer than analysis.MinHeldOut samples nothing is. Standard errors are those of blocks, times
// spread: 1, or analysis.CrossedError.
func Judge(before, after analysis.Losses, of analysis.Blocks, spread float64) (change, typical analysis.Estimate, confirmed bool) {
	x, y := before.PerSample(), after.PerSample()
	change = analysis.Paired(of.Of(x), of.Of(y))
	typical = analysis.Paired(of.Of(logs(x)), of.Of(logs(y)))
	change.Error *= spread
	typical.Error *= spread
	enough := len(x) >= analysis.MinHeldOut
	return change, typical, enough && (change.Below(wholeBar) || change.Mean <= 0 && typical.Below(typicalBar))
}

// logs are the logarithms of errors.
func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v + least)
	}
	return out
}

// least is an error below which samples are alike: -120 dB.
const least = 1e-12

// Tune runs methods one after the other. Each is kept as a whole only where the held-out error of the outputs falls by more than its error
// bar, see Judge; else its changes are taken back. With fewer than analysis.MinHeldOut held-out samples nothing can be confirmed: changes
// are kept with Force only. A method that fails is reported as such, and the others go on; where it is the only one, its error is returned.
func (b *Bench) Tune(ctx context.Context, methods ...*Method) ([]*Report, error) {
	if len(b.Fit) == 0 && b.Grams == nil || len(b.Held) == 0 {
		return nil, fmt.Errorf("tune: %d samples to fit on and %d held out: there have to be some of each; take more samples",
			len(b.Fit), len(b.Held))
	}
	reports, now, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	for {
		b.End = now
		list := needed(expand(methods, reports), len(reports), now.Estimate().Mean)
		if len(reports) >= len(list) {
			return reports, nil
		}
		m := list[len(reports)]
		b.point = &point{begin: b.changed(), reports: slices.Clone(reports)}
		for _, f := range b.turns {
			b.point.turns = append(b.point.turns, f.changed())
		}
		if b.Work.over() {
			nsr := analysis.NewNSR(now.Estimate())
			reports = append(reports, &Report{Name: m.Name, Layers: []Layer{}, Before: nsr, After: nsr, Note: "not tried: the budget is spent"})
			continue
		}
		was := *b
		var after analysis.Losses
		var r *Report
		why := ""
		if why = again(list, reports); why == "" && b.Resume == nil {
			why, err = b.unaffordable(m)
		}
		if len(list) > 1 && b.Resume == nil && why == "" && err == nil {
			why, err = b.hopeless(ctx, m, now)
		}
		switch {
		case err != nil:
		case why != "":
			nsr := analysis.NewNSR(now.Estimate())
			r, after = &Report{Name: m.Name, Layers: []Layer{}, Before: nsr, After: nsr, Typical: 1, Note: why}, now
		default:
			r, after, err = b.try(ctx, m, now)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, fmt.Errorf("tune: %s: %w", m.Name, errors.Join(err, b.offer(true)))
		case len(list) == 1:
			return nil, fmt.Errorf("tune: %s: %w", m.Name, err)
		default:
			was.Resume, was.done, was.taught = nil, nil, nil
			*b, after = was, now
			nsr := analysis.NewNSR(now.Estimate())
			r = &Report{Name: m.Name, Layers: []Layer{}, Before: nsr, After: nsr, Typical: 1, Note: "failed: " + err.Error(), Failed: true}
		}
		reports, now = append(reports, r), after
	}
}

// again says why the next method of a list is not tried a second time: nothing that was tried in between was kept. "" where it is.
func again(list []*Method, reports []*Report) string {
	at := len(reports)
	before := slices.Index(list[:at], list[at])
	if before < 0 || before == at-1 || slices.ContainsFunc(reports[before+1:], func(r *Report) bool { return r.Kept > 0 }) {
		return ""
	}
	return "not tried: nothing has changed since it was tried before"
}

// begin judges the bench as it is, or as it was when the method began that was under way when an earlier run was interrupted.
func (b *Bench) begin(ctx context.Context) (reports []*Report, now analysis.Losses, err error) {
	if b.Work == nil {
		b.Work = new(Work)
	}
	b.shared, b.first = new(sim.Constants), b.Set
	if err := b.cross(ctx); err != nil {
		return nil, nil, err
	}
	reports = []*Report{}
	watch := func() time.Duration { return 0 }
	if b.turns != nil && b.Resume != nil {
		if b.Start, err = b.outcome(ctx); err != nil {
			return nil, nil, err
		}
	}
	if r := b.Resume; r != nil {
		b.Work.Limit, b.Work.Spent = r.Limit, r.Spent
		reports = append(reports, r.Reports...)
		if err := b.restore(ctx, r.Begin, r.BeginChosen); err != nil {
			return nil, nil, fmt.Errorf("tune: going on: %w", err)
		}
		for i, f := range b.turns {
			if i >= len(r.Turns) {
				return nil, nil, errors.New("tune: going on: it was not interrupted in turns")
			}
			if err := f.restore(ctx, r.Turns[i].Begin, r.Turns[i].Chosen); err != nil {
				return nil, nil, fmt.Errorf("tune: going on: %w", err)
			}
		}
	} else if b.Work.Clock != nil {
		watch = b.Work.Clock()
	}
	if now, err = b.outcome(ctx); err == nil && b.Resume == nil {
		b.Start = now
		n := 2 * len(b.Held)
		b.Work.measure(n, watch())
		b.forwards(float64(n))
	}
	return reports, now, err
}

// try runs a method and takes everything back where it is not confirmed. before are the losses of the bench as it is; those after it are
// returned.
func (b *Bench) try(ctx context.Context, m *Method, before analysis.Losses) (*Report, analysis.Losses, error) {
	if b.turns != nil {
		return b.inTurns(ctx, m, before)
	}
	was := *b
	b.Graph, b.Set, b.Frozen = was.Graph.Clone(), was.Set.Clone(), maps.Clone(was.Frozen)
	b.stage, b.before = Progress{Method: m.Name, Stage: len(b.point.reports) + 1}, analysis.NewNSR(before.Estimate())
	if r := b.Resume; r != nil {
		if err := b.restore(ctx, r.Now, r.NowChosen); err != nil {
			return nil, nil, fmt.Errorf("going on: %w", err)
		}
		b.done, b.taught, b.Resume, was.Resume = r.Layers, r.Lesson, nil, nil
	}
	if err := b.pass(b.done, false); err != nil {
		return nil, nil, err
	}
	r, err := m.run(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	after, err := b.Losses(ctx)
	if err != nil {
		return nil, nil, err
	}
	b.forwards(float64(len(b.Held)))
	r.Name = m.Name
	b.confirm(r, before, after)
	if r.Kept == 0 {
		was.base = b.base // still that of the bench as it was
		*b, after = was, before
	} else {
		b.base = nil
	}
	return r, after, nil
}

// confirm says what a method is worth and whether it is kept.
func (b *Bench) confirm(r *Report, before, after analysis.Losses) {
	of := b.JudgedBy()
	change, typical, confirmed := Judge(before, after, of, b.Spread())
	r.Before, r.After = analysis.NewNSR(before.EstimateBy(of)), analysis.NewNSR(after.EstimateBy(of))
	r.Change, r.ChangeError = change.Mean, analysis.NewSpread(change).NSRError
	r.Typical, r.TypicalError = elementary.Exp(typical.Mean), analysis.NewSpread(typical).NSRError
	r.Confirmed = confirmed
	r.Kept = max(r.Kept, r.kept())
	switch {
	case r.Kept == 0 || r.Confirmed:
		return
	case b.Force:
		r.Note = "kept by force, not confirmed"
		return
	case len(b.Held) >= analysis.MinHeldOut:
		r.Note = "taken back: the error of the outputs does not fall by more than its error bar"
	default:
		r.Note = fmt.Sprintf("taken back: %d held-out samples confirm nothing, %d are needed", len(b.Held), analysis.MinHeldOut)
	}
	r.Kept = 0
	r.takeBack()
}

// takeBack says of all layers that nothing was kept.
func (r *Report) takeBack() {
	for i := range r.Layers {
		if r.Layers[i].Kept {
			r.Layers[i].Kept, r.Layers[i].Why = false, "taken back with all others"
		}
	}
}

// judge holds simulations against the float results of one reference.
type judge struct {
	reference *graph.Graph
	*analysis.Evaluator
}

// Losses are the errors of the outputs on the held-out samples: of the integers where the bench has them, else of the simulation.
func (b *Bench) Losses(ctx context.Context) (analysis.Losses, error) {
	if err := b.float(ctx); err != nil {
		return nil, err
	}
	if b.Integers != nil {
		return b.judge.LossesOf(ctx, b.Graph, func(g *graph.Graph) (analysis.Forward, error) { return b.Integers(g, b.Set) })
	}
	q, err := b.Simulate(b.Graph, b.Set, b.shared)
	if err != nil {
		return nil, err
	}
	return b.judge.Losses(ctx, q)
}

// float computes what the outputs are held against, unless it is there. A bench on a rewritten reference has that of the first one.
func (b *Bench) float(ctx context.Context) error {
	var ev *analysis.Evaluator
	var err error
	switch {
	case b.judge == nil:
		held := func() exec.Iterator { return &exec.InMemory{Samples: b.Held} }
		ev, err = analysis.NewEvaluator(ctx, b.Reference, held, b.Threads, 0, b.Parts...)
	case b.judge.reference != b.Reference:
		ev, err = b.judge.On(ctx, b.Reference, b.Parts...)
	default:
		return nil
	}
	if err == nil {
		b.judge = &judge{b.Reference, ev}
	}
	return err
}

// Overlay returns what the bench's graph has otherwise than the reference, and the scales of its weights that were tuned. set is the final
// one: its fingerprints are recorded. added names the nodes whose bias the model lacks.
func (b *Bench) Overlay(set *tqc.Set, added map[string]bool) *overlay.Overlay {
	o := &overlay.Overlay{Steps: b.Steps}
	for _, id := range b.Graph.Nodes() {
		n := b.Graph.Node(id)
		for i, v := range n.Inputs {
			if v == graph.NoValue || b.Graph.Const(v) == nil {
				continue
			}
			weight := i == graph.WeightInput && b.Frozen[id] && b.Set.Slot(b.Set.Input(id, i)).State().Quantizes()
			if b.Graph.Const(v) == b.Reference.Const(v) && !weight {
				continue
			}
			e := overlay.Entry{Node: n.Name, Input: i, Base: overlay.TensorHash(b.Reference.Const(v)), Added: i == graph.BiasInput && added[n.Name],
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
