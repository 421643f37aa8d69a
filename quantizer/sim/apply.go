package sim

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Apply writes to dst what remains of src after quantizing and dequantizing (Quantize), or after clipping to what the grid
// can represent (Clip). Both are float32 tensors of one shape and layout; dst may be src. Scales along an axis must be as many
// as the axis is long. Configs of more than 24 bits are biases: see qmath.QuantizeBias.
func Apply(dst, src *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, mode Mode) error {
	d, s := dst.F32(), src.F32()
	if cfg.Policy.Has(tqc.PerTensor) {
		slice(d, s, cfg, p.Grid(cfg, 0), mode)
		return nil
	}
	axis := cfg.Axis
	if axis < 0 {
		axis += len(src.Shape)
	}
	if axis < 0 || axis >= len(src.Shape) {
		return fmt.Errorf("simulate: scales along axis %d of %s", cfg.Axis, src.Type())
	}
	outer, n, inner := src.Blocks(axis)
	if cfg.Policy.Has(tqc.PerGroup) {
		return groups(d, s, cfg, p, outer, n, inner, src, mode)
	}
	if n != len(p.Scale) {
		return fmt.Errorf("simulate: %d scales along axis %d of %s", len(p.Scale), cfg.Axis, src.Type())
	}
	for o := range outer {
		for c := range n {
			at := (o*n + c) * inner
			slice(d[at:at+inner], s[at:at+inner], cfg, p.Grid(cfg, c), mode)
		}
	}
	return nil
}

// groups handles one scale per GroupSize elements along an axis: scale and tensor have the same shape but for that axis.
func groups(d, s []float32, cfg *tqc.Config, p *tqc.Params, outer, n, inner int, src *tensor.Tensor, mode Mode) error {
	blocks := (n + cfg.GroupSize - 1) / cfg.GroupSize
	if src.Layout != tensor.RowMajor || outer*blocks*inner != len(p.Scale) {
		return fmt.Errorf("simulate: %d scales for groups of %d along axis %d of %s", len(p.Scale), cfg.GroupSize, cfg.Axis, src.Type())
	}
	for o := range outer {
		for c := range n {
			for i := range inner {
				at := (o*n+c)*inner + i
				slice(d[at:at+1], s[at:at+1], cfg, p.Grid(cfg, (o*blocks+c/cfg.GroupSize)*inner+i), mode)
			}
		}
	}
	return nil
}

func slice(d, s []float32, cfg *tqc.Config, g qmath.Grid, mode Mode) {
	switch {
	case mode == Clip:
		g.ClipSlice(d, s)
	case cfg.Bits > 24: // float32 division would lose the low bits of the code
		for i, x := range s {
			q, _ := qmath.QuantizeBias(x, g.Scale)
			d[i] = g.Dequantize(q)
		}
	default:
		g.FakeSlice(d, s)
	}
}
