package sim

import (
	"fmt"
	"math"

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
		if mode == Quantize && cfg.BeyondFloat() { // float32 division would lose the low bits of the code
			for i := lo; i < hi; i++ {
				d[i] = c.Dequantize(p.Code(cfg, i, s[i], c))
			}
			return true
		}
		slice(table, d[lo:hi], s[lo:hi], c, mode)
		return true
	})
}

// Clips reports whether clipping t, the tensor of a slot, to what the slot's format can represent changes any element. Slots of float
// islands are not clipped.
func (s *Simulator) Clips(id tqc.SlotID, t *tensor.Tensor) (clips bool, err error) {
	if err := wantFloat(t); err != nil {
		return false, err
	}
	if s.set.Slot(id).State() == tqc.FP32 {
		return false, nil
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

// Clipped is what clipping t, the tensor of a slot, takes away: the sum of the squares of that, over the sum of the squares of t. It is 0
// where nothing changes and positive infinity where t has infinite elements beyond the range. NaN is left out.
func (s *Simulator) Clipped(id tqc.SlotID, t *tensor.Tensor) (float64, error) {
	clips, err := s.Clips(id, t)
	if err != nil || !clips {
		return 0, err
	}
	x := t.F32()
	var signal, lost float64
	err = runs(t, &s.set.Slot(id).Config, s.set.Params(id), func(from, to int, c qmath.Codec) bool {
		lo, hi := c.Limits()
		for _, v := range x[from:to] {
			if v == v {
				d := float64(v) - float64(min(max(v, lo), hi))
				signal, lost = signal+float64(v)*float64(v), lost+d*d
			}
		}
		return true
	})
	if math.IsInf(lost, 1) {
		return lost, err
	}
	return lost / signal, err
}

// runs is tqc.Runs with the stage in its errors.
func runs(t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, f func(lo, hi int, c qmath.Codec) bool) error {
	if err := tqc.Runs(t, cfg, p, f); err != nil {
		return fmt.Errorf("simulate: %w", err)
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
