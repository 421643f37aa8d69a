package observers

import (
	"errors"

	"qwb/quantizer/tqc"
)

// ErrNoSamples is about statistics that were taken before extents sample by sample were kept.
var ErrNoSamples = errors.New("the statistics do not hold the extremes sample by sample: calibrate on data again")

// nncfMean is what NNCF does with activations that have one scale: MEAN_MINMAX, the mean over the samples of each one's minimum and
// maximum. A symmetric scheme gets the mean of the largest magnitudes for its upper end. Activations with scales per channel get the
// minimum and maximum of all, as NNCF has it too.
var nncfMean = &Method{
	Name: "nncf/mean-minmax",
	Doc:  "NNCF (its default): the mean over samples of minimum and maximum",
	Range: func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error) {
		if err := without(parameter); err != nil {
			return Range{}, nil, err
		}
		warnings, err := ready(st)
		if err != nil {
			return Range{}, nil, err
		}
		mean, known := st.SampleMean()
		if !known {
			return Range{}, nil, ErrNoSamples
		}
		if cfg.Policy.Has(tqc.Symmetric) {
			mean.Hi = mean.Abs
		}
		return Range{mean.Lo, mean.Hi}, warnings, nil
	},
}
