package tune

import "context"

// GPTQ rounds each weight matrix so that the output of its operator is met best, by the second moments of what it reads behind the
// quantized prefix; see package round.
var GPTQ = Method{Name: "gptq", Doc: "GPTQ: chooses weight rounding and scales with the second moments of the inputs (short kernels: " +
	"exact optimum)",
	Changes: []string{"weights", "scales", "biases"}, Needs: []string{"data"}, FromGrams: true, Proposer: gptqProposer}

// gptqProposer proposes the weight as it is (with its bias corrected), rounded on its present scales, and rounded on scales that are
// searched with the rounding.
var gptqProposer = &Proposer{Name: "gptq", Trials: 3, Propose: func(ctx context.Context, l *LayerBench) ([]Proposal, error) {
	list, err := l.rounded(ctx, variant{by: "gptq"}, variant{by: "gptq, scales searched", search: true})
	if list != nil {
		list = append(list, Proposal{By: "bias"})
	}
	return list, err
}}

// variant is one way to round a weight.
type variant struct {
	by     string
	alpha  float64 // of the shift for errors of the inputs
	search bool    // scales, too
}

// rounded makes a proposal of each variant; none where there is no memory for moments.
func (l *LayerBench) rounded(ctx context.Context, variants ...variant) ([]Proposal, error) {
	x, err := l.rounding(ctx)
	if err != nil || x == nil {
		return nil, err
	}
	var list []Proposal
	for _, v := range variants {
		if v.search && v.alpha == 0 && !x.worthSearch() {
			continue
		}
		targets, err := x.targets(v.alpha)
		if err != nil {
			return nil, err
		}
		p := Proposal{By: v.by}
		scales := l.Set.Params(l.Slot)
		if v.search && x.worthSearch() {
			if scales, err = x.search(targets, scales); err != nil {
				return nil, err
			}
			p.Params = scales
		}
		if p.Weight, err = x.weight(targets, scales); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
