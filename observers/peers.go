package observers

import (
	"fmt"

	"qwb/quantizer/tqc"
)

// Peers lists what other tools do by their documented defaults: methods that find, from our statistics, the range that the tool finds from
// the data. They are used where an observer names them, onnxruntime/entropy for instance, and never tried by automatic choice.
// docs/peers.md says how close each comes to the tool, and what about the tool is not copied:
// how it makes a scale of a range is the target's business.
func Peers() []*Method {
	return []*Method{ortMinMax, ortEntropy, ortPercentile, nncfMean, ppqPercentile, ppqKL, ppqMSE, modelOptEntropy, tensorRTEntropy}
}

// without is for methods without a parameter.
func without(parameter float64) error {
	if parameter != 0 {
		return fmt.Errorf("parameter %g: this method takes none", parameter)
	}
	return nil
}

// searched is what begins an observer of another tool that has no parameter and searches a threshold for one scale: how many codes the
// policy has, and the warnings. Above so many codes the tool's search has no meaning, which is an error.
func searched(st *State, cfg tqc.Config, parameter float64, limit int64) (codes int, warnings []tqc.Warning, err error) {
	if err := without(parameter); err != nil {
		return 0, nil, err
	}
	if warnings, err = perTensor(st, cfg); err != nil {
		return 0, nil, err
	}
	n := int64(cfg.QMax) - int64(cfg.QMin) + 1
	switch {
	case !cfg.Integer():
		return 0, nil, ErrIntegers
	case n > limit:
		return 0, nil, fmt.Errorf("it is for at most %d codes, not %d", limit, n)
	}
	return int(n), warnings, nil
}

// cut is [-t, t] cut to minimum and maximum; where all values lie beyond t on one side it is that end alone.
func (st *State) cut(t float64) Range {
	r := Range{max(float64(st.extent.Min), -t), min(float64(st.extent.Max), t)}
	return Range{min(r.Lo, t), max(r.Hi, -t)}
}
