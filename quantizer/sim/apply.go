package sim

import (
	"fmt"

	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Apply writes to dst what remains of src after quantizing and dequantizing (Quantize), or after clipping to what the format
// can represent (Clip). Both are float32 tensors of one shape and layout; dst may be src. Scales along an axis must be as many
// as the axis is long; those of run time are computed from src. Configs of more than 24 bits are biases: see tqc.Params.BiasCode.
func Apply(dst, src *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, mode Mode) error {
	return apply(kernels.Select(cpu.Detect()), dst, src, cfg, p, mode)
}

func apply(table *kernels.Table, dst, src *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, mode Mode) error {
	if cfg.RunTime() {
		return applyAtRunTime(table, dst, src, cfg, p, mode)
	}
	d, s := dst.F32(), src.F32()
	return runs(src, cfg, p, func(lo, hi int, c qmath.Codec) bool {
		if mode == Quantize && cfg.Bits > 24 { // float32 division would lose the low bits of the code
			for i := lo; i < hi; i++ {
				q, _ := p.BiasCode(i, s[i], c.Scale)
				d[i] = c.Dequantize(q)
			}
			return true
		}
		slice(table, d[lo:hi], s[lo:hi], c, mode)
		return true
	})
}

// Clips reports whether clipping t, the tensor of a slot, to what the slot's format can represent changes any element.
func (s *Simulator) Clips(id tqc.SlotID, t *tensor.Tensor) (clips bool, err error) {
	if err := wantFloat(t); err != nil {
		return false, err
	}
	x, meter := t.F32(), s.table.NewMeter()
	err = runs(t, &s.set.Slot(id).Config, s.set.Params(id), func(from, to int, c qmath.Codec) bool {
		lo, hi := c.Limits()
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

// runs calls f, until it returns false, with the bounds of every run of elements that share a scale.
func runs(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, f func(lo, hi int, c qmath.Codec) bool) error {
	if cfg.RunTime() {
		return fmt.Errorf("simulate: scales of policy %q are there at run time only", cfg.Policy)
	}
	if cfg.Policy.Has(tqc.PerTensor) {
		f(0, t.Len(), p.Codec(cfg, 0))
		return nil
	}
	axis, err := axisOf(t, cfg.Axis)
	if err != nil {
		return err
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
			if !f(at, at+inner, p.Codec(cfg, c)) {
				return nil
			}
		}
	}
	return nil
}

// axisOf counts an axis of t from the front.
func axisOf(t *tensor.Tensor, axis int) (int, error) {
	at := axis
	if at < 0 {
		at += len(t.Shape)
	}
	if at < 0 || at >= len(t.Shape) {
		return 0, fmt.Errorf("simulate: scales along axis %d of %s", axis, t.Type())
	}
	return at, nil
}

// groupRuns handles one scale per GroupSize elements along an axis: scale and tensor have the same shape but for that axis.
func groupRuns(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, outer, n, inner int, f func(lo, hi int, c qmath.Codec) bool) error {
	blocks := (n + cfg.GroupSize - 1) / cfg.GroupSize
	if t.Layout != tensor.RowMajor || outer*blocks*inner != len(p.Scale) {
		return fmt.Errorf("simulate: %d scales for groups of %d along axis %d of %s", len(p.Scale), cfg.GroupSize, cfg.Axis, t.Type())
	}
	step := 1
	if inner == 1 {
		step = cfg.GroupSize
	}
	for o := range outer {
		for c := 0; c < n; c += step {
			for i := range inner {
				at := (o*n+c)*inner + i
				if !f(at, at+min(step, n-c), p.Codec(cfg, (o*blocks+c/cfg.GroupSize)*inner+i)) {
					return nil
				}
			}
		}
	}
	return nil
}

func slice(table *kernels.Table, d, s []float32, c qmath.Codec, mode Mode) {
	switch {
	case mode == Clip:
		lo, hi := c.Limits()
		table.Limits(d, s, lo, hi)
	case c.Integer():
		table.FakeQuantize(d, s, c.Grid())
	default:
		c.FakeSlice(d, s)
	}
}
