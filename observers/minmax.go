package observers

import (
	"qwb/quantizer/tqc"
)

// MinMax takes the exact minimum and maximum of the finite values. It is the only method that serves per-channel
// policies: State.Channels has the ranges of the channels, and Range returns that of the whole tensor.
var MinMax = &Method{
	Name: tqc.ObserverMinMax,
	Doc:  "the exact minimum and maximum",
	Range: func(st *State, _ tqc.Config, _ float64) (Range, []tqc.Warning, error) {
		warnings, err := ready(st)
		if err != nil {
			return Range{}, nil, err
		}
		return Range{float64(st.extent.Min), float64(st.extent.Max)}, warnings, nil
	},
}
