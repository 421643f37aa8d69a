package sim

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Apply writes to dst what remains of src after quantizing and dequantizing (Quantize), or after clipping to what the grid
// can represent (Clip). Both are float32 tensors of one shape and layout; dst may be src. Scales along an axis must be as many
// as the axis is long. Configs of more than 24 bits are biases: see tqc.Params.BiasCode.
func Apply(dst, src *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, mode Mode) error {
	return apply(kernels.Select(cpu.Detect()), dst, src, cfg, p, mode)
}

func apply(table *kernels.Table, dst, src *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, mode Mode) error {
	d, s := dst.F32(), src.F32()
	return runs(src, cfg, p, func(lo, hi int, g qmath.Grid) bool {
		if mode == Quantize && cfg.Bits > 24 { // float32 division would lose the low bits of the code
			for i := lo; i < hi; i++ {
				q, _ := p.BiasCode(i, s[i], g.Scale)
				d[i] = g.Dequantize(q)
			}
			return true
		}
		slice(table, d[lo:hi], s[lo:hi], g, mode)
		return true
	})
}

// Clips reports whether clipping t, the tensor of a slot, to what the slot's grid can represent changes any element.
func (s *Simulator) Clips(id tqc.SlotID, t *tensor.Tensor) (clips bool, err error) {
	if err := wantFloat(t); err != nil {
		return false, err
	}
	x, meter := t.F32(), s.table.NewMeter()
	err = runs(t, &s.set.Slot(id).Config, s.set.Params(id), func(from, to int, g qmath.Grid) bool {
		lo, hi := g.Dequantize(g.QMin), g.Dequantize(g.QMax)
		if least, most, finite := meter.MinMax(x[from:to]); finite {
			clips = least < lo || most > hi
			return !clips
		}
		for _, v := range x[from:to] {
			if v < lo || v > hi {
				clips = true
				return false
			}
		}
		return true
	})
	return clips, err
}

// runs calls f, until it returns false, with the bounds of every run of elements that share a grid.
func runs(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, f func(lo, hi int, g qmath.Grid) bool) error {
	if cfg.Policy.Has(tqc.PerTensor) {
		f(0, t.Len(), p.Grid(cfg, 0))
		return nil
	}
	axis := cfg.Axis
	if axis < 0 {
		axis += len(t.Shape)
	}
	if axis < 0 || axis >= len(t.Shape) {
		return fmt.Errorf("simulate: scales along axis %d of %s", cfg.Axis, t.Type())
	}
	outer, n, inner := t.Blocks(axis)
	if cfg.Policy.Has(tqc.PerGroup) {
		return groupRuns(t, cfg, p, outer, n, inner, f)
	}
	if n != len(p.Scale) {
		return fmt.Errorf("simulate: %d scales along axis %d of %s", len(p.Scale), cfg.Axis, t.Type())
	}
	for o := range outer {
		for c := range n {
			at := (o*n + c) * inner
			if !f(at, at+inner, p.Grid(cfg, c)) {
				return nil
			}
		}
	}
	return nil
}

// groupRuns handles one scale per GroupSize elements along an axis: scale and tensor have the same shape but for that axis.
func groupRuns(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, outer, n, inner int, f func(lo, hi int, g qmath.Grid) bool) error {
	blocks := (n + cfg.GroupSize - 1) / cfg.GroupSize
	if t.Layout != tensor.RowMajor || outer*blocks*inner != len(p.Scale) {
		return fmt.Errorf("simulate: %d scales for groups of %d along axis %d of %s", len(p.Scale), cfg.GroupSize, cfg.Axis, t.Type())
	}
	for o := range outer {
		for c := range n {
			for i := range inner {
				at := (o*n+c)*inner + i
				if !f(at, at+1, p.Grid(cfg, (o*blocks+c/cfg.GroupSize)*inner+i)) {
					return nil
				}
			}
		}
	}
	return nil
}

func slice(table *kernels.Table, d, s []float32, g qmath.Grid, mode Mode) {
	if mode == Clip {
		table.Limits(d, s, g.Dequantize(g.QMin), g.Dequantize(g.QMax))
		return
	}
	table.FakeQuantize(d, s, g)
}
