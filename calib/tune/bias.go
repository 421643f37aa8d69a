package tune

import "context"

// Bias is sequential bias correction: operator by operator in graph order, with everything in front quantized and corrected, the mean
// error of each output channel over the fitting samples is taken off the bias (Nagel et al. 2019, "Data-Free Quantization Through Weight
// Equalization and Bias Correction", section 4.2; Finkelstein et al. 2019). The mean is that of the operator's own sum, before the
// activation fused to it.
var Bias = Method{Name: "bias", Doc: "subtracts the mean error of each channel from the bias, one operator after the other, with " +
	"quantized inputs",
	Changes: []string{"biases"}, Needs: []string{"data"},
	// No change is proposed but the correction that every proposal comes with.
	Proposer: &Proposer{Name: "bias", Trials: 1, Biases: true, Propose: func(context.Context, *LayerBench) ([]Proposal, error) {
		return []Proposal{{By: "bias"}}, nil
	}}}
