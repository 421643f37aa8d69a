package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"qwb/analysis"
	"qwb/internal/arrange"
	"qwb/quantizer/rewrite"
)

// Migrate moves ranges between channels where the float function allows it, in two turns: factors, with a shift where that is possible, go
// from what reads a value into what computes it (kinds scale and shift); then chains of channels up to a depthwise convolution and behind
// it are taken apart into groups of similar range (kind group), for activations between that keep no factors. What is worth trying is
// predicted from what the fitting samples show of each channel; what is kept is judged by the held-out error of the outputs.
var Migrate = Method{Name: "migrate", Doc: "moves large activation ranges into weights, or splits channels into groups of similar range, " +
	"if the outputs improve",
	Changes: []string{"structure"}, Needs: []string{"data"}, Run: func(ctx context.Context, b *Bench) (*Report, error) {
		return restructure(ctx, b, migrated, grouped)
	}}

// candidate is a change of structure that is worth a trial.
type candidate struct {
	node, by  string // what reports say: where and what
	steps     []rewrite.Step
	predicted float64 // error after it, as a part of the error before
}

// maxStructureTrials bounds the trials of one turn.
const maxStructureTrials = 8

// restructure tries changes of structure, turn by turn. Those of a turn that cost no work are tried together, then those that do; where
// that does not pass, the halves, the one with the better predictions first, and so on as long as the error falls at all. Both sides of a
// comparison have their biases corrected. The k-th trial has to pass the bar of k(k+1) trials, so that all together pass one by chance as
// seldom as a single one does.
func restructure(ctx context.Context, b *Bench, turns ...func(context.Context, *Bench) ([]*candidate, error)) (*Report, error) {
	r := &restructuring{outer: b, report: &Report{Layers: []Layer{}}, index: map[*candidate]int{}}
	if b.Rewrite == nil {
		r.report.Note = "not tried: the plan was imported, and its tensors cannot be observed again"
		return r.report, nil
	}
	r.now = b
	for _, turn := range turns {
		list, err := turn(ctx, r.now)
		if err == nil && len(list) > 0 && r.losses == nil {
			r.now, r.losses, err = b.corrected(ctx)
		}
		if err != nil {
			return nil, err
		}
		arrange.Stable(list, func(x, y *candidate) int { return cmp.Compare(x.predicted, y.predicted) })
		for _, c := range list {
			r.index[c] = len(r.report.Layers)
			r.report.Layers = append(r.report.Layers, Layer{Node: c.node, Why: "not tried: the budget is spent", Tried: []Step{}})
		}
		r.left = maxStructureTrials
		free, paid := r.affordable(list)
		for _, part := range [][]*candidate{free, paid} {
			r.all = len(part)
			if err := r.try(ctx, part); err != nil {
				return nil, err
			}
		}
	}
	if r.kept {
		b.take(r.now)
	} else if len(r.report.Layers) == 0 {
		r.report.Note = "there is nothing to try"
	}
	return r.report, nil
}

type restructuring struct {
	outer     *Bench // hears of the progress
	report    *Report
	index     map[*candidate]int // of its layer in the report
	now       *Bench
	losses    analysis.Losses // of it
	trials    int
	all, left int // candidates of this turn, trials that are left to it
	kept      bool
}

// try tries candidates together, and where that does not pass in halves.
func (r *restructuring) try(ctx context.Context, list []*candidate) error {
	if len(list) == 0 || r.left == 0 || r.now.Work.over() {
		return nil
	}
	r.left--
	next, losses, err := r.rewritten(ctx, list)
	if err != nil && (ctx.Err() != nil || !declines(err)) {
		return err
	}
	var step Step
	if err != nil {
		step = Step{Why: err.Error()}
	} else {
		r.trials++
		e := analysis.Paired(r.losses.PerSample(), losses.PerSample())
		step = Step{Trials: 1, Kept: r.now.keeps(e, analysis.Trials(r.trials*(r.trials+1)))}
		step.measured(e)
		if !step.Kept {
			step.Why = "the error of the outputs does not fall by more than its error bar"
		}
	}
	if len(list) > 1 && step.Why != "" {
		step.Why += fmt.Sprintf(" (%d changes together)", len(list))
	}
	for _, c := range list {
		l := &r.report.Layers[r.index[c]]
		step.By = c.by
		l.Tried = append(l.Tried, step)
		l.Kept, l.Why, l.Change, l.ChangeError = step.Kept, step.Why, step.Change, step.ChangeError
	}
	r.outer.tell(r.trials, r.trials+r.left, 0)
	switch {
	case step.Kept:
		r.now, r.losses, r.kept = next, losses, true
	case len(list) > 1 && (err != nil || step.Change < 0 || len(list) == r.all):
		half := (len(list) + 1) / 2
		if err := r.try(ctx, list[:half]); err != nil {
			return err
		}
		return r.try(ctx, list[half:])
	}
	return nil
}

// rewritten is the bench after candidates; see Bench.after.
func (r *restructuring) rewritten(ctx context.Context, list []*candidate) (*Bench, analysis.Losses, error) {
	var steps []rewrite.Step
	for _, c := range r.inOrder(list) {
		steps = append(steps, c.steps...)
	}
	r.now.within = r.outer.trial(r.trials, r.trials+r.left+1)
	return r.now.after(ctx, steps)
}

// inOrder sorts candidates by the nodes that they are about.
func (r *restructuring) inOrder(list []*candidate) []*candidate {
	at := map[string]int{}
	order, _ := r.now.Reference.Order()
	for i, id := range order {
		at[r.now.Reference.Node(id).Name] = i
	}
	out := slices.Clone(list)
	arrange.Stable(out, func(x, y *candidate) int { return at[x.steps[0].At] - at[y.steps[0].At] })
	return out
}
