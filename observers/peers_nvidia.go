package observers

import (
	"math"

	"qwb/quantizer/tqc"
)

// modelOptEntropy is the default of modelopt.onnx.quantization for INT8: the entropy calibrator of onnxruntime with its 128 bins, to which
// a batch that goes beyond the first one adds bins. It can only choose thresholds from the largest |x| of the first batch to that of all;
// this is what it finds where all data are one batch.
var modelOptEntropy = &Method{
	Name: "modelopt/entropy",
	Doc:  "NVIDIA Model Optimizer for ONNX, entropy (its default), all in one batch: as onnxruntime/entropy",
	Range: func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error) {
		if err := without(parameter); err != nil {
			return Range{}, nil, err
		}
		return ortEntropy.Range(st, cfg, 0)
	},
}

const (
	trtBins  = 2048
	trtStart = 128 // the first threshold, in bins
	trtCodes = 256
)

// tensorRTEntropy is the entropy calibrator of TensorRT as far as it is public: Migacz, "8-bit Inference with TensorRT" (GTC 2017), in the
// form of NVIDIA's own HistogramCalibrator (pytorch-quantization, modelopt.torch), all data in one batch. 2,048 bins of |x|, the first one
// counting as the second, and the thresholds from 128 bins on.
var tensorRTEntropy = &Method{
	Name: "tensorrt/entropy",
	Doc:  "TensorRT's entropy calibrator, as NVIDIA published it: 1,921 thresholds on 2,048 bins",
	Range: func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error) {
		codes, warnings, err := searched(st, cfg, parameter, trtCodes)
		if err != nil {
			return Range{}, nil, err
		}
		top := st.largest()
		if top == 0 {
			return st.cut(0), warnings, nil
		}
		i := trtSearch(st.linearAbs(trtBins, 0, top), (codes+1)/2)
		return st.cut(float64(top*float64(i)) / trtBins), warnings, nil
	},
}

// trtSearch is _compute_amax_entropy: how many bins are inside.
func trtSearch(hist []float64, codes int) int {
	hist[0] = hist[1]
	// Sums over the bins before each: values, bins that are not empty, and n*log(n).
	n, filled, self := make([]float64, len(hist)+1), make([]float64, len(hist)+1), make([]float64, len(hist)+1)
	xlogx := func(x float64) float64 {
		if x == 0 {
			return 0
		}
		return float64(x * math.Log(x))
	}
	for i, v := range hist {
		n[i+1], filled[i+1], self[i+1] = n[i]+v, filled[i], self[i]+xlogx(v)
		if v > 0 {
			filled[i+1]++
		}
	}
	best, least := len(hist), math.Inf(1)
	for i := trtStart; i <= len(hist); i++ {
		outside := n[len(hist)] - n[i]
		cross, last := 0.0, 0.0
		for c := range codes {
			from, to := (c*i+codes-1)/codes, ((c+1)*i+codes-1)/codes
			if mass := n[to] - n[from]; mass > 0 {
				last = math.Log(mass / (filled[to] - filled[from]))
				cross += float64(mass * last)
			}
		}
		var d float64
		switch tail := hist[i-1]; {
		case n[i] == 0:
			d = math.NaN() // nothing is inside, and what its division by zero gives counts as least
		case tail == 0 && outside > 0:
			d = math.Inf(1) // what is cut off falls where the codes have nothing
		default:
			d = (self[i-1]+xlogx(tail+outside)-cross-float64(outside*last))/n[len(hist)] - math.Log(n[len(hist)]) + math.Log(n[i])
		}
		if d <= least || math.IsNaN(d) {
			best, least = i, d
		}
	}
	return best
}
