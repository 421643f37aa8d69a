package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/calib"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/overlay"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
)

// blind warns, once, that no change of structure can be tried that needs what cannot be read.
func (t *tuning) blind(err error) {
	if !t.warned {
		t.warned = true
		t.Warn("changes of structure are not tried: tensors that change would be observed again on the data of the plan: %v", err)
	}
}

// look runs a graph on the plan's own data, or on the samples of one turn, and observes some of its tensors, or all where changed is nil.
func (t *tuning) look(ctx context.Context, g *graph.Graph, changed map[string]bool) (stats *calib.Stats, err error) {
	base := t.Derivation.Base
	cfg := calib.Config{Threads: t.o.Threads, Memory: t.o.Memory, MinMaxOnly: !base.HasBins(), Model: base.Model, Preprocess: base.Preprocess,
		Sources: base.Sources, Seed: base.Seed}
	if changed != nil {
		cfg.Only = func(name string) bool { return changed[name] }
	}
	if mask := t.Planned.Plan.Preprocess.Mask; mask != "" {
		if cfg.Padding, err = graph.FindPadding(g, mask); err != nil {
			return nil, err
		}
	}
	if t.turn != nil {
		return calib.Run(ctx, g, &exec.InMemory{Samples: t.turn}, cfg)
	}
	set, _, err := t.OpenData(g, t.Planned.Data(open.DataOptions{Threads: t.o.Threads}))
	if err != nil {
		t.blind(err)
		return nil, fmt.Errorf("%s: %d tensors have changed and are to be observed again on the plan's data: %w", t.Planned.File,
			len(changed), err)
	}
	tick, finish := t.Change.Progress("observe", set.Len())
	defer finish()
	cfg.Progress = func(done, _ int) { tick(done) }
	return calib.Run(ctx, g, set.Iterator(), cfg)
}

// apart is the bench as it is, on what is observed of fit alone. See tune.Bench.Apart.
func (t *tuning) apart(ctx context.Context, fit []*exec.Sample) (*tune.Bench, error) {
	u, c := *t, *t.Change
	c.Derivation = &planning.Derivation{Target: t.Derivation.Target, Own: t.Derivation.Own, Threads: t.Derivation.Threads,
		Base: t.Derivation.Base}
	u.Change, u.turn, u.observed, u.recent = &c, fit, nil, nil
	normal, err := planning.NormalAgain(t.Job, t.Planned)
	if err != nil {
		return nil, err
	}
	if c.Derivation.Base, err = u.look(ctx, normal, nil); err != nil {
		return nil, err
	}
	return u.rewrite(ctx, t.Bench, t.Bench.Steps)
}

// refuseMoved refuses a graph after steps of which more would run in float than of the plan's, unless that is allowed.
func (t *tuning) refuseMoved(g *graph.Graph) error {
	if t.o.AllowFP32 {
		return nil
	}
	d, out := &planning.Derivation{Graph: g, Target: t.Derivation.Target}, &planning.Derived{}
	forced, err := d.Forced(t.Planned.Plan.Decisions, out)
	if err == nil {
		err = d.Assign(out, forced)
	}
	if err != nil {
		return err
	}
	if o := planning.CompareIntegers(t.Planned.Graph, t.Planned.Set.Domains, g, out.Assignment.Domains); len(o.Moved) > 0 {
		return errors.New(strings.Join(o.Words, "; ") + "; --allow-fp32 allows it")
	}
	return nil
}

// A plan whose tuned values begin with steps has another reference: the normal form after the steps, which computes the same in float. The
// tensors that the steps change are observed again; what was observed lies in a file beside the plan, and takes the place of the plan's
// statistics for these tensors.

const (
	// maxFloatNSR is the largest error, relative to the outputs' own power, that steps may leave between the model and its reference.
	maxFloatNSR = 1e-6
)

// observedSteps is what is known of a list of steps.
type observedSteps struct {
	reference *graph.Graph // the normal form after them
	stats     *calib.Stats // of all tensors
	changed   *calib.Stats // of those that the steps changed; nil where there are none
	NSR       float64      // of the reference's outputs against the model's
}

// observe applies steps to the normal form, checks on the samples that the statistics keep that the outputs are the model's, and observes
// on the plan's own data the tensors that are others now. What was observed is remembered.
func (t *tuning) observe(ctx context.Context, steps []rewrite.Step) (*observedSteps, error) {
	key := stepsKey(steps)
	if o := t.observed[key]; o != nil && key != "" {
		return o, nil
	}
	normal, err := planning.NormalAgain(t.Job, t.Planned)
	if err != nil {
		return nil, err
	}
	o := &observedSteps{stats: t.Derivation.Base}
	if o.reference, err = rewrite.Apply(normal, steps); err != nil {
		return nil, err
	}
	if err := t.refuseMoved(o.reference); err != nil {
		return nil, err
	}
	base := t.Derivation.Base
	if len(steps) > 0 && base == nil {
		return nil, errors.New("the plan was imported: there are no statistics that steps could be observed beside")
	}
	if len(steps) > 0 {
		var changed map[string]bool
		if o.NSR, changed, err = planning.CompareFloat(ctx, normal, o.reference, base.Kept(), t.o.Threads); err != nil {
			return nil, err
		}
		if !(o.NSR <= maxFloatNSR) {
			return nil, fmt.Errorf("after %d steps the float outputs are not the model's any more: NSR %.3g", len(steps), o.NSR)
		}
		if own := t.Planned.Overlay; own != nil && t.turn == nil && t.Planned.Applied() && stepsKey(own.Steps) == key {
			if o.stats, o.changed, err = planning.Stepped(t.Job, t.Planned.File, t.Planned.Plan, base); err != nil {
				return nil, err
			}
		} else if len(changed) > 0 {
			if o.changed, err = t.look(ctx, o.reference, changed); err != nil {
				return nil, err
			}
			if o.stats, err = base.With(o.changed); err != nil {
				return nil, fmt.Errorf("%s: the plan's data are not those that it was made from: %w", t.Planned.File, err)
			}
		}
	}
	t.remember(key, o)
	return o, nil
}

// rewrite makes a bench on the reference after other steps; see tune.Bench.Rewrite.
func (t *tuning) rewrite(ctx context.Context, b *tune.Bench, steps []rewrite.Step) (*tune.Bench, error) {
	o, err := t.observe(ctx, steps)
	if err != nil {
		return nil, err
	}
	fits := b.Overlay(b.Set, t.added)
	fits.Steps = steps
	var next *tune.Bench
	for {
		reference := o.reference.Clone()
		fits.Prepare(reference)
		g, _ := fits.Apply(reference, nil)
		out, err := t.configure(ctx, o.stats, reference, g, fits)
		if err != nil {
			return nil, err
		}
		if err := t.refuseFloat(out); err != nil {
			return nil, err
		}
		if next, err = t.newBench(ctx, reference, o.stats, out.Set, fits); err != nil {
			return nil, err
		}
		// Values that were made for other weights or scales are left out; others may then be quantized otherwise.
		_, stale := fits.Apply(next.Reference, next.Set)
		if len(stale) == 0 {
			break
		}
		fits.Entries = slices.DeleteFunc(fits.Entries, func(e overlay.Entry) bool {
			return slices.ContainsFunc(stale, func(s overlay.Stale) bool { return s.At == e.At() })
		})
	}
	return next, nil
}

// refuseFloat refuses operators that the plan's graph has not and that would be computed in float where the target computes nothing in
// float.
func (t *tuning) refuseFloat(out *planning.Derived) error {
	if t.Planned.Target.Float != target.FloatAbsent {
		return nil
	}
	for _, id := range out.Graph.Nodes() {
		name := out.Graph.Node(id).Name
		if _, had := t.Planned.Graph.LookupNode(name); !had && out.Set.Domains[id].Float() {
			return out.Graph.ErrorAt("", id, fmt.Errorf("%s computes nothing in float, but this operator would run in float", t.Planned.Target.Name))
		}
	}
	return nil
}

// stepsKey identifies a list of steps, which are finite.
func stepsKey(steps []rewrite.Step) string {
	file, err := (&overlay.Overlay{Steps: steps}).Encode()
	if err != nil {
		return "" // no list of steps is equal to it
	}
	return overlay.Hash(file)
}

// maxRemembered is how many lists of steps are remembered, beside the plan's own.
const maxRemembered = 3

func (t *tuning) remember(key string, o *observedSteps) {
	if t.observed == nil {
		t.observed = map[string]*observedSteps{}
	}
	t.observed[key] = o
	if t.recent = append(t.recent, key); len(t.recent) > maxRemembered {
		delete(t.observed, t.recent[0])
		t.recent = t.recent[1:]
	}
}
