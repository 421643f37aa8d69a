package exec

import (
	"errors"

	"qwb/graph"
	"qwb/graph/tensor"
)

// Resampling is how Resize makes its output: axis after axis, in the order of the axes, for executors elsewhere.
type Resampling struct {
	// Axes says how each axis is resampled, nil for one that stays as it is.
	Axes []*ResampledAxis
	// Nearest says that every output is one input element, which is copied.
	Nearest bool
	Blank   float32 // of outputs that lie outside of the region
}

// ResampledAxis makes output i the sum, in float32 and in this order, of input elements Index[i][k] times float32(Weight[i][k]); an output
// without any is blank.
type ResampledAxis struct {
	Index  [][]int
	Weight [][]float64
}

// ResampleOf returns how a Resize or Upsample node resamples a tensor. in holds its inputs, nil for those that are absent; the elements
// of the first are not looked at.
func ResampleOf(n *graph.Node, opset int64, x, out []int, in []*tensor.Tensor) (*Resampling, error) {
	var r resampler
	var scales, roi []float32
	var sizes []int
	var err error
	scalesAt, sizesAt, roiAt := 1, -1, -1
	if n.Op == "Upsample" {
		if r, scales, err = newUpsampler(n, opset); scales != nil {
			scalesAt = -1
		}
	} else {
		r, scalesAt, sizesAt, roiAt, err = newResampler(n, opset)
	}
	if err != nil {
		return nil, err
	}
	input := func(i int) *tensor.Tensor {
		if i < 0 || i >= len(in) || in[i] == nil || in[i].Len() == 0 {
			return nil
		}
		return in[i]
	}
	if t := input(scalesAt); t != nil {
		if scales = t.F32(); scales == nil {
			return nil, errors.New("scales that are not float32")
		}
	}
	if t := input(sizesAt); t != nil {
		if sizes, err = ints(t); err != nil {
			return nil, err
		}
	}
	if t := input(roiAt); t != nil {
		roi = numbersOf[float32](t)
	}
	maps, err := r.maps(x, out, scales, sizes, roi)
	if err != nil {
		return nil, err
	}
	s := &Resampling{Axes: make([]*ResampledAxis, len(maps)), Nearest: r.mode == "nearest", Blank: float32(r.blank)}
	for a, m := range maps {
		if m != nil {
			s.Axes[a] = &ResampledAxis{m.index, m.weight}
		}
	}
	return s, nil
}
