package tune

import "context"

// Ridge moves weights before they are rounded, to where they make up for what quantizing in front has changed of their inputs: ridge
// regression of the float output on the quantized inputs (ERQ), or a quarter of that (GPTAQ); see round.Factor.Shift.
var Ridge = Method{Name: "ridge", Doc: "shifts weights to compensate errors of the inputs (ERQ, GPTAQ), then rounds them like gptq",
	Changes: []string{"weights", "scales", "biases"}, Needs: []string{"data"}, Proposer: ridgeProposer}

// ridgeProposer proposes the shift as a whole and a quarter of it, rounded on scales that are searched with the rounding.
var ridgeProposer = &Proposer{Name: "ridge", Trials: 2, Float: true, Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
	return l.rounded(ctx, variant{by: "ridge, a quarter (GPTAQ)", alpha: 0.25, search: true}, variant{by: "ridge", alpha: 1, search: true})
}}
