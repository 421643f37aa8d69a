package tune

import (
	"context"
	"fmt"
	"math"

	"qwb/analysis"
	"qwb/quantizer/tqc"
)

// worthWeights is the least share of the error that exact weights have to take off for methods that change weights to be tried.
const worthWeights = 0.05

// weights reports whether all that a method can do is to bring rounded weights nearer to what the network needs.
func (m *Method) weights() bool { return m == &Split || m.stage != nil }

// hopeless says why a method of several is not tried: where exact weights, with the biases as they are, would leave nearly all of the
// error, of the mean and of the typical sample, it comes from activations, and weights cannot help. "" where they may. It costs one pass of
// the samples that judge.
func (b *Bench) hopeless(ctx context.Context, m *Method, now analysis.Losses) (string, error) {
	if !m.weights() || b.Integers != nil || b.Force || now.Estimate().Mean == 0 {
		return "", nil
	}
	exact, err := b.exact(ctx)
	if err != nil {
		return "", err
	}
	mean := exact.Estimate().Mean / now.Estimate().Mean
	typical, was, is := 0.0, now.PerSample(), exact.PerSample()
	for i := range was {
		typical += math.Log((is[i]+least)/(was[i]+least)) / float64(len(was))
	}
	if mean < 1-worthWeights || typical < math.Log(1-worthWeights) || !(mean > 0) {
		return "", nil
	}
	return fmt.Sprintf("not tried: the error is not made by weights: with exact ones the NSR of the outputs would be %.3g instead of %.3g",
		exact.Estimate().Mean, now.Estimate().Mean), nil
}

// exact are the losses with weights and biases as they are before they are rounded.
func (b *Bench) exact(ctx context.Context) (analysis.Losses, error) {
	if b.turns != nil {
		return b.ofTurns(func(f *Bench) (analysis.Losses, error) { return f.exact(ctx) })
	}
	if _, err := b.Losses(ctx); b.judge == nil {
		return nil, err
	}
	q, err := b.Simulate(b.Graph, b.Set, b.shared)
	if err != nil {
		return nil, err
	}
	b.forwards(float64(len(b.Held)))
	var without []tqc.SlotID
	for i := range b.Set.NumSlots() {
		if id := tqc.SlotID(i); b.Set.Slot(id).Weight {
			without = append(without, id)
		}
	}
	return b.judge.WhatIf(ctx, q, analysis.WhatIf{Without: without})
}
