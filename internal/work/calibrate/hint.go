package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"qwb/analysis"
	"qwb/calib/tune"
	"qwb/internal/plain"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
	"qwb/reports"
)

// Hint says what another observer, or correcting biases, would give, measured on the samples that statistics keep. It confirms nothing: the
// scales were fitted on these samples, and they are few.
type Hint struct {
	Observer tqc.Observer `json:"observer,omitempty"`
	Method   string       `json:"method,omitempty"` // of tuning, in place of an observer
	Samples  int          `json:"samples"`
	Plan     analysis.NSR `json:"plan"`  // the error of the outputs with the plan as it is: the centred NSR, see analysis.Judge
	Other    analysis.NSR `json:"other"` // and with what is hinted at
	moves    bool         // ranges can be moved between channels too
}

// hinted are the observers that a calibration tries for its hint, each with what the search for one range costs, roughly: 1 is 1.5 ms.
var hinted = []struct {
	name tqc.Observer
	cost int
}{{tqc.ObserverMinMax, 0}, {tqc.ObserverMSE, 1}, {tqc.ObserverRobust, 1}, {tqc.ObserverKL, 6}}

// hintWork bounds what a hint may cost, in multiply-accumulates of all samples and observers together: beyond it there is none. It is
// seconds on any machine; a network of the size of ResNet-50 stays below. hintRanges bounds the ranges that are searched for it, times what
// each costs: observers that would exceed it are not tried. hintSamples is how many samples a hint needs.
const (
	hintWork    = 250e9
	hintRanges  = 1500
	hintSamples = 4
)

// hint simulates what other observers would give in place of the plan's own, which loses was, with all else that was decided, and what
// correcting its biases would, and returns the one whose error on the typical sample (the mean of the logarithm of the ratio, paired) is
// least, if it lies below the plan's at risk analysis.ClaimRisk for all of them together; nil if none does or none can be tried. Nothing is
// changed.
func hint(ctx context.Context, j *open.Job, d *planning.Derivation, list []decision.Decision, was analysis.Losses,
	out *planning.Derived) (*Hint, error) {
	defer watched(j, d, "hint")()
	kept := len(was)
	macs := int64(0)
	for _, id := range d.Graph.Nodes() {
		n, _ := d.Graph.MACsAtLeast(id)
		macs += n
	}
	if kept < hintSamples || !d.Stats.HasBins() || float64(macs)*float64(kept*(len(hinted)+2)) > hintWork {
		return nil, nil
	}
	runs, err := d.KeptRuns(ctx, d.Threads)
	if err != nil {
		return nil, err
	}
	var best *Hint
	least, risk := 0.0, analysis.ClaimRisk/float64(len(hinted)+1)
	before := logs(was)
	try := func(is analysis.Losses, h Hint) {
		if is == nil {
			return // whatever the other samples say
		}
		typical := analysis.Paired(before, logs(is))
		if typical.Mean < least && typical.Upper(risk) < 0 {
			h.Samples, h.Plan, h.Other = len(is), analysis.NewNSR(was.Estimate()), analysis.NewNSR(is.Estimate())
			least, best = typical.Mean, &h
		}
	}
	is, err := corrected(ctx, d, out, runs, was)
	if err != nil {
		return nil, err
	}
	try(is, Hint{Method: tune.Analytic.Name, moves: tune.Normalizes(cmp.Or(d.Reference, d.Graph), out.Set)})
	left, ranges := hintRanges, searched(out.Set)
	for _, h := range hinted {
		o := h.name
		decisions := observedBy(list, o)
		if reflect.DeepEqual(decisions, list) {
			continue // this is the plan's
		}
		if cost := h.cost * ranges; cost > left {
			j.Detail("hint: %s is not tried: it searches too long for %d ranges", o, ranges)
			continue
		} else {
			left -= cost
		}
		another, err := d.Derive(ctx, decisions)
		if err != nil {
			continue // it cannot serve a tensor of this plan
		}
		q, err := d.Simulator(another, &runs.Shared)
		if err != nil {
			return nil, err
		}
		is, err := runs.Evaluator.LossesWhile(ctx, q, func(so analysis.Losses) bool {
			change := logs(so)
			for i := range change {
				change[i] -= before[i]
			}
			return analysis.CanFall(change, kept, risk)
		})
		if err != nil {
			return nil, err
		}
		try(is, Hint{Observer: o})
	}
	return best, nil
}

// worthCorrecting is the error from which on correcting biases is hinted at: below it nobody needs another command.
const worthCorrecting = 1e-5

// corrected are the losses of a plan with the means of channels where the float network has them, as far as the statistics tell: what
// tune's method bias-analytic does to biases. nil where nothing is known, where tuning did so already, and where the error is small anyway.
func corrected(ctx context.Context, d *planning.Derivation, out *planning.Derived, runs *planning.KeptRuns,
	was analysis.Losses) (analysis.Losses, error) {
	if d.Overlay != nil || !d.Stats.HasSums() || was.Estimate().Mean < worthCorrecting {
		return nil, nil
	}
	shifts, err := tune.Shifts(d.Graph, d.Graph, out.Set, d.Stats.Sums)
	if err != nil || len(shifts) == 0 {
		return nil, err
	}
	q, err := d.Simulator(out, &runs.Shared)
	if err != nil {
		return nil, err
	}
	return runs.Evaluator.WhatIf(ctx, q, analysis.WhatIf{Shift: shifts})
}

// searched is how many ranges of activations a configuration has.
func searched(set *tqc.Set) (n int) {
	for i := range set.NumSlots() {
		if sl := set.Slot(tqc.SlotID(i)); set.Root(sl.ID) == sl.ID && !sl.Weight && sl.State().Quantizes() {
			n++
		}
	}
	return n
}

// String is the line that a calibration prints.
func (h *Hint) String() string {
	with, more := "--observer "+plain.Shell(string(h.Observer)), "no data needed; qwb sweep compares on held-out samples"
	if h.Method != "" {
		with, more = "biases corrected", "qwb tune --method "+h.Method+" corrects them and confirms it; --method auto tries more"
	}
	if h.moves { // as in transformers, whose normalizations take factors
		more = "qwb tune --method migrate,bias corrects them, moves ranges between channels, and confirms both; --method auto tries more"
	}
	return fmt.Sprintf("hint: with %s the NSR of the outputs is %s instead of %s, on the %d samples that the statistics keep (%s)", with,
		reports.WithError(h.Other.NSR, h.Other.NSRError), reports.WithError(h.Plan.NSR, h.Plan.NSRError), h.Samples, more)
}

// observedBy is a list of decisions with another observer for all activations that no decision by hand gives one.
func observedBy(list []decision.Decision, o tqc.Observer) []decision.Decision {
	out := slices.Clone(list)
	for i := range out {
		if d := &out[i]; d.By == decision.ByCalibrate && d.Observer != "" {
			d.Observer = o
		}
	}
	return out
}

// logs are the logarithms of the losses by sample; what is below 1e-12 counts as that.
func logs(l analysis.Losses) []float64 {
	out := l.PerSample()
	for i, x := range out {
		out[i] = math.Log(max(x, 1e-12))
	}
	return out
}
