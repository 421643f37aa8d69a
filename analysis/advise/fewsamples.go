package advise

import "fmt"

// FewSamples is about ranges that more data would still move.
var FewSamples = &Cause{Name: "few-samples", Doc: "the calibration samples are too few: more of them would still move the ranges",
	Data: true, find: fewSamples}

// unsettled is the part of the tensors whose range may differ between two halves of the samples.
const unsettled = 0.3

func fewSamples(f *Facts) []Finding {
	switch {
	case f.Samples == 0 || f.Tensors == 0:
		return nil
	case !f.Halves:
		return []Finding{{Evidence: fmt.Sprintf("%d calibration samples do not tell whether the ranges have converged", f.Samples),
			Cures: []Cure{{More: true}}}}
	case float64(f.Unsettled) < unsettled*float64(f.Tensors):
		return nil
	}
	return []Finding{{Evidence: fmt.Sprintf("the ranges of %d of %d tensors differ by more than 20 %% between two halves of the %d "+
		"calibration samples", f.Unsettled, f.Tensors, f.Samples),
		Cures: []Cure{{More: true}}}}
}
