package sim

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Codes returns the codes of a float32 constant, row-major: integers, or the bit patterns of other formats. Configs of more than 24 bits
// are biases: see tqc.Params.BiasCode.
// NaN is an error.
func Codes(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params) ([]int32, error) {
	if err := wantFloat(t); err != nil {
		return nil, err
	}
	t = t.ToRowMajor()
	x, out := t.F32(), make([]int32, t.Len())
	nan := -1
	err := runs(t, cfg, p, func(lo, hi int, c qmath.Codec) bool {
		for i := lo; i < hi; i++ {
			switch {
			case x[i] != x[i]:
				nan = i
				return false
			case cfg.Bits > 24:
				out[i], _ = p.BiasCode(i, x[i], c.Scale)
			default:
				out[i] = c.Quantize(x[i])
			}
		}
		return true
	})
	if err == nil && nan >= 0 {
		err = fmt.Errorf("simulate: the constant holds NaN at element %d", nan)
	}
	return out, err
}
