package qwb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/calib"
	"qwb/calib/tune"
	"qwb/graph"
	"qwb/quantizer/decision"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
	"qwb/quantizer/rewrite"
	"qwb/quantizer/target"
)

// A plan whose tuned values begin with steps has another reference: the normal form after the steps, which computes the same in float. The
// tensors that the steps change are observed again; what was observed lies in a file beside the plan, and takes the place of the plan's
// statistics for these tensors.

const (
	// maxFloatNSR is the largest error, relative to the outputs' own power, that steps may leave between the model and its reference.
	maxFloatNSR = 1e-6
	// maxStats is how large a file of statistics may be.
	maxStats = 1 << 31
)

// tunedDecision is the last decision in force that names tuned values, nil where nothing is tuned.
func tunedDecision(p *plan.Plan) *decision.Decision {
	in := decision.InForce(p.Decisions)
	for i := len(in) - 1; i >= 0; i-- {
		if strings.HasPrefix(p.Decisions[i].Overlay, "sha256:") && in[i] {
			return &p.Decisions[i]
		}
	}
	return nil
}

// steppedFile is the file with what was observed of the tensors that the steps of a plan's tuned values changed; nil where there are none.
func steppedFile(planFile string, p *plan.Plan) *plan.File {
	d := tunedDecision(p)
	if d == nil || d.Statistics == "" {
		return nil
	}
	hash := strings.TrimPrefix(d.Statistics, "sha256:")
	return &plan.File{Path: plan.Relative(planFile, overlay.StatisticsName(planFile, hash)), SHA256: hash}
}

// stepped is statistics for the reference of a plan: base with those of changed tensors, which are returned too, nil where there are none.
func (j *job) stepped(planFile string, p *plan.Plan, base *calib.Stats) (all, changed *calib.Stats, err error) {
	f := steppedFile(planFile, p)
	if f == nil || base == nil {
		return base, nil, nil
	}
	name := plan.Resolve(planFile, f.Path)
	fail := func(what string, err error) error {
		return lostTuned{fmt.Errorf("%s: the statistics of the tensors that tuning changed %s: %s (%w); bring them back, run qwb plan undo, or qwb calibrate again, which keeps the other decisions", planFile, what, name, err)}
	}
	b, err := readFile(j.store(), name, maxStats)
	if err != nil {
		return nil, nil, fail("are gone", err)
	}
	if have := overlay.Hash(b); have != f.SHA256 {
		return nil, nil, fail("were changed", fmt.Errorf("SHA-256 %.12s, the plan says %.12s", have, f.SHA256))
	}
	if changed, err = calib.Read(bytes.NewReader(b), int64(len(b))); err != nil {
		return nil, nil, fail("cannot be read", err)
	}
	if all, err = base.With(changed); err != nil {
		return nil, nil, fail("do not belong to the others", err)
	}
	return all, changed, nil
}

// stageStats writes statistics of changed tensors beside a plan and returns what names them in a decision. See stageHashed.
func (j *job) stageStats(planFile string, s *calib.Stats) (name string, stage func(Stage) error, err error) {
	if s == nil {
		return "", nil, nil
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		return "", nil, err
	}
	hash := overlay.Hash(b.Bytes())
	if stage, err = j.stageHashed(overlay.StatisticsName(planFile, hash), hash, "statistics", b.Bytes(), maxStats); err != nil {
		return "", nil, err
	}
	return "sha256:" + hash, stage, nil
}

// steppedFiles lists, sorted, the files with statistics of changed tensors that lie beside a plan, whether it names them or not.
func steppedFiles(s Store, planFile string) ([]string, error) {
	return filesBeside(s, planFile, overlay.StatisticsBelong)
}

// observedSteps is what is known of a list of steps.
type observedSteps struct {
	reference *graph.Graph // the normal form after them
	stats     *calib.Stats // of all tensors
	changed   *calib.Stats // of those that the steps changed; nil where there are none
	nsr       float64      // of the reference's outputs against the model's
}

// observe applies steps to the normal form, checks on the samples that the statistics keep that the outputs are the model's, and observes
// on the plan's own data the tensors that are others now. What was observed is remembered.
func (t *tuning) observe(ctx context.Context, steps []rewrite.Step) (*observedSteps, error) {
	key := stepsKey(steps)
	if o := t.observed[key]; o != nil && key != "" {
		return o, nil
	}
	normal, err := t.normalAgain(t.p)
	if err != nil {
		return nil, err
	}
	o := &observedSteps{stats: t.d.base}
	if o.reference, err = rewrite.Apply(normal, steps); err != nil {
		return nil, err
	}
	if err := t.refuseMoved(o.reference); err != nil {
		return nil, err
	}
	base := t.d.base
	if len(steps) > 0 && base == nil {
		return nil, errors.New("the plan was imported: there are no statistics that steps could be observed beside")
	}
	if len(steps) > 0 {
		var changed map[string]bool
		if o.nsr, changed, err = compareFloat(ctx, normal, o.reference, base.Kept()); err != nil {
			return nil, err
		}
		if !(o.nsr <= maxFloatNSR) {
			return nil, fmt.Errorf("after %d steps the float outputs are not the model's any more: NSR %.3g", len(steps), o.nsr)
		}
		if own := t.p.Overlay; own != nil && t.p.broken == nil && stepsKey(own.Steps) == key {
			if o.stats, o.changed, err = t.stepped(t.p.File, t.p.Plan, base); err != nil {
				return nil, err
			}
		} else if len(changed) > 0 {
			if o.changed, err = t.observeChanged(ctx, o.reference, changed); err != nil {
				return nil, err
			}
			if o.stats, err = base.With(o.changed); err != nil {
				return nil, fmt.Errorf("%s: the plan's data are not those that it was made from: %w", t.p.File, err)
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

// refuseFloat refuses operators that the plan's graph has not and that would be computed in float where the target computes nothing in float.
func (t *tuning) refuseFloat(out *derived) error {
	if t.p.Target.Float != target.FloatAbsent {
		return nil
	}
	for _, id := range out.Graph.Nodes() {
		name := out.Graph.Node(id).Name
		if _, had := t.p.Graph.LookupNode(name); !had && out.Set.Domains[id].Float() {
			return out.Graph.ErrorAt("", id, fmt.Errorf("%s computes nothing in float, but this operator would run in float", t.p.Target.Name))
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
