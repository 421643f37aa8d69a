package observers

import (
	"cmp"
	"fmt"
	"math"

	"qwb/quantizer/tqc"
)

// ortMinMax is MinMaxCalibrater of onnxruntime.quantization: the default of quantize_static.
var ortMinMax = &Method{
	Name: "onnxruntime/minmax",
	Doc:  "onnxruntime.quantization, MinMax (its default): the exact minimum and maximum",
	Range: func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error) {
		if err := without(parameter); err != nil {
			return Range{}, nil, err
		}
		return MinMax.Range(st, cfg, 0)
	},
}

// ORT's defaults. The bins are the parameter of onnxruntime/entropy: quantize_static cannot set them, create_calibrator can.
const (
	ortBins    = 128
	ortLevels  = 128
	ortMaxBins = 1 << 14
	ortShare   = 0.99999
	ortAbsBins = 2048
	ortEpsilon = 1e-4
)

// ortEntropy is EntropyCalibrater of onnxruntime.quantization, calibrate.py, on all data at once, as quantize_static has it. Its 128 bins
// cover [-T, T] up to the largest |x|, and it tries the thresholds from 128/2 bins on each side to bins/2: with the default one, so that
// the range is that of minmax. The parameter is another number of bins, 2048 for instance.
var ortEntropy = &Method{
	Name: "onnxruntime/entropy",
	Doc:  "onnxruntime.quantization, Entropy: with its 128 bins the only threshold it tries is the largest |x|",
	Range: func(st *State, cfg tqc.Config, bins float64) (Range, []tqc.Warning, error) {
		warnings, err := perTensor(st, cfg)
		if err != nil {
			return Range{}, nil, err
		}
		n := int(cmp.Or(bins, ortBins))
		if float64(n) != cmp.Or(bins, ortBins) || n < ortLevels || n > ortMaxBins || n%2 != 0 {
			return Range{}, nil, fmt.Errorf("%g bins: an even number from %d to %d", bins, ortLevels, ortMaxBins)
		}
		top := st.largest()
		if top == 0 {
			return st.cut(0), warnings, nil
		}
		from, to := ortSearch(st.linear(n, -top, top))
		edge := func(i int) float64 { return top * (2*float64(i)/float64(n) - 1) }
		return Range{max(edge(from), float64(st.extent.Min)), min(edge(to), float64(st.extent.Max))}, warnings, nil
	},
}

// ortSearch is get_entropy_threshold: the first and the end of the bins inside.
func ortSearch(hist []float64) (first, end int) {
	zero, least := len(hist)/2, math.Inf(1)
	var p, q []float64
	for i := ortLevels / 2; i <= zero; i++ {
		start, stop := zero-i, min(zero+i+1, len(hist))
		inside := hist[start:stop]
		p = append(p[:0], inside...)
		p[0] += sum(hist[:start])
		p[len(p)-1] += sum(hist[stop:])
		q = append(q[:0], make([]float64, len(p))...)
		merged := len(p) / ortLevels
		for level := range ortLevels {
			from, to := level*merged, (level+1)*merged
			filled := 0.0
			for _, v := range p[from:to] {
				if v != 0 {
					filled++
				}
			}
			mass := sum(inside[from:to])
			if level == ortLevels-1 {
				mass += sum(inside[to:])
			}
			for k := from; k < to && filled > 0; k++ {
				q[k] = float64(int64(mass / filled)) // its q is of integers
			}
		}
		d := math.Inf(1)
		if ortSmooth(p) && ortSmooth(q) {
			d = divergence(p, q)
		}
		if d < least || end == 0 {
			least, first, end = d, start, stop
		}
	}
	return first, end
}

// ortSmooth is smooth_distribution; false where there is nothing.
func ortSmooth(p []float64) bool {
	empty := 0.0
	for _, v := range p {
		if v == 0 {
			empty++
		}
	}
	filled := float64(len(p)) - empty
	if filled == 0 {
		return false
	}
	for i, v := range p {
		if v == 0 {
			p[i] = ortEpsilon
		} else {
			p[i] = v - float64(ortEpsilon*empty)/filled
		}
	}
	return true
}

// divergence is the sum of p*log(p/q) over p and q normalized.
func divergence(p, q []float64) float64 {
	d, sp, sq := 0.0, sum(p), sum(q)
	for i, v := range p {
		if v > 0 {
			d += float64(v / sp * math.Log(float64(v/sp)/float64(q[i]/sq)))
		}
	}
	return d
}

func sum(list []float64) (s float64) {
	for _, v := range list {
		s += v
	}
	return s
}

// ortPercentile is PercentileCalibrater of onnxruntime.quantization, on all data at once: the lower border of the bin, of 2,048 from the
// smallest to the largest |x|, in which the share is reached. The parameter is the share, 0.99999 if none is given.
var ortPercentile = &Method{
	Name: "onnxruntime/percentile",
	Doc:  "onnxruntime.quantization, Percentile: keeps 99.999 % of |x|",
	Range: func(st *State, cfg tqc.Config, share float64) (Range, []tqc.Warning, error) {
		share = cmp.Or(share, ortShare)
		if err := checkShare(share); err != nil {
			return Range{}, nil, err
		}
		warnings, err := perTensor(st, cfg)
		if err != nil {
			return Range{}, nil, err
		}
		lo, hi := st.smallest(), st.largest()
		if lo == hi {
			return st.cut(hi), warnings, nil
		}
		counts, total := st.linearAbs(ortAbsBins, lo, hi), float64(st.Count())
		below, i := 0.0, 0
		for ; i < ortAbsBins-1; i++ {
			if below += counts[i] / total; below >= share {
				break
			}
		}
		return st.cut(lo + float64((hi-lo)*float64(i))/ortAbsBins), warnings, nil
	},
}

// checkShare refuses what is not a share of the values.
func checkShare(share float64) error {
	if !(share > 0 && share <= 1) {
		return fmt.Errorf("percentile %g: only above 0 and up to 1", share)
	}
	return nil
}
