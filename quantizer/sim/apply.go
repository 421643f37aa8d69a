package sim

import (
	"fmt"
	"math"
	"sync"

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
	if mode == Quantize && cfg.BeyondFloat() { // float32 division would lose the low bits of the code
		return runs(src, cfg, p, func(lo, hi int, c qmath.Codec) bool {
			for i := lo; i < hi; i++ {
				d[i] = c.Dequantize(p.Code(cfg, i, s[i], c))
			}
			return true
		})
	}
	return spans(d, src, cfg, p, func(d, s []float32, c qmath.Codec) bool {
		slice(table, d, s, c, mode)
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
	meter := s.table.NewMeter()
	err = spans(nil, t, &s.set.Slot(id).Config, s.set.Params(id), func(_, x []float32, c qmath.Codec) bool {
		lo, hi := c.Limits()
		if least, most, finite := meter.MinMax(x); finite {
			clips = least < lo || most > hi
			return !clips
		}
		for _, v := range x {
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
	signal, lost, err := s.takenAway(id, t)
	if err == nil && lost != lost {
		signal, lost, err = s.takenFromNumbers(id, t)
	}
	if err != nil || math.IsInf(lost, 1) {
		return lost, err
	}
	return lost / signal, nil
}

// clipBlocks are buffers of one block of takenAway.
var clipBlocks = sync.Pool{New: func() any { return new([4096]float32) }}

// takenAway is the sum of the squares of t, and that of what clipping takes away, in the order of kernels.Table.Compare.
func (s *Simulator) takenAway(id tqc.SlotID, t *tensor.Tensor) (signal, lost float64, err error) {
	block := clipBlocks.Get().(*[4096]float32)
	defer clipBlocks.Put(block)
	err = spans(nil, t, &s.set.Slot(id).Config, s.set.Params(id), func(_, x []float32, c qmath.Codec) bool {
		for len(x) > 0 {
			part := x[:min(len(block), len(x))]
			slice(s.table, block[:len(part)], part, c, Clip)
			noise, of, _, _ := s.table.Compare(block[:len(part)], part)
			signal, lost, x = signal+of, lost+noise, x[len(part):]
		}
		return true
	})
	return signal, lost, err
}

// takenFromNumbers is takenAway without NaN.
func (s *Simulator) takenFromNumbers(id tqc.SlotID, t *tensor.Tensor) (signal, lost float64, err error) {
	err = spans(nil, t, &s.set.Slot(id).Config, s.set.Params(id), func(_, x []float32, c qmath.Codec) bool {
		lo, hi := c.Limits()
		for _, v := range x {
			if v == v {
				d := float64(v) - float64(min(max(v, lo), hi))
				signal, lost = signal+float64(v)*float64(v), lost+d*d
			}
		}
		return true
	})
	return signal, lost, err
}

// Rows and columns of the tiles of spans: a line of the processor's cache is so many columns.
const tileRows, tileColumns = 128, 16

// spans calls f, until it returns false, with elements of t that share a scale, and with where what becomes of them belongs; d is as long
// as t, or nil where nothing does. Where neighbours have scales of their own (a matrix with one for each column) it turns tiles, since a
// call for each element takes many times as long.
func spans(d []float32, t *tensor.Tensor, cfg *tqc.Config, p *tqc.Params, f func(d, s []float32, c qmath.Codec) bool) error {
	s := t.F32()
	parts, err := tqc.PartsOf(t, cfg)
	n := parts.Columns()
	if err != nil || n == 0 || len(s) < 8*n || len(p.Scale) != n { // few rows; errors are those of runs
		return runs(t, cfg, p, func(lo, hi int, c qmath.Codec) bool {
			if d == nil {
				return f(nil, s[lo:hi], c)
			}
			return f(d[lo:hi], s[lo:hi], c)
		})
	}
	var tile [tileRows * tileColumns]float32
	for left := 0; left < n; left += tileColumns {
		width := min(tileColumns, n-left)
		var codecs [tileColumns]qmath.Codec
		for c := range width {
			codecs[c] = p.Codec(cfg, left+c)
		}
		for top := left; top < len(s); top += tileRows * n {
			height := min(tileRows, (len(s)-top+n-1)/n)
			for r := range height {
				for c, v := range s[top+r*n:][:width] {
					tile[c*tileRows+r] = v
				}
			}
			for c := range width {
				if x := tile[c*tileRows:][:height]; !f(x, x, codecs[c]) {
					return nil
				}
			}
			for r := 0; r < height && d != nil; r++ {
				for c := range d[top+r*n:][:width] {
					d[top+r*n+c] = tile[c*tileRows+r]
				}
			}
		}
	}
	return nil
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
